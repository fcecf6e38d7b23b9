"""What matching optimises, in order of importance."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from flask import Response
from msgspec import Meta

from jobsight_scheduler.matching.problem import OBJECTIVES
from jobsight_server.systems.matching.batch import read_chosen_objectives
from jobsight_server.systems.matching.edit import put_objectives
from jobsight_server.systems.matching.queries.resources import ChosenObjectives
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.web.kit.context import context, part
from jobsight_server.web.kit.inputs import DEFINITION_BYTES, parsed_body
from jobsight_server.web.kit.routes import BODY_ERRORS, Route, record_reply

_OBJECTIVES_AT_MOST = 10


class ObjectivesBody(msgspec.Struct, forbid_unknown_fields=True):
    """Objectives in order of importance: names of those that ship, or objects (docs/matching.md)."""

    objectives: Annotated[list[str | dict[str, Any]], Meta(min_length=1, max_length=_OBJECTIVES_AT_MOST)]


def objectives() -> ChosenObjectives:
    return part(Matcher).look(lambda catalogue, now: ChosenObjectives(catalogue.objectives, list(OBJECTIVES)))


def choose_objectives() -> Response:
    body = parsed_body(ObjectivesBody, '{"objectives": ["throughput"]}', DEFINITION_BYTES)
    read_chosen_objectives(body.objectives)
    put_objectives(context().write_engine, body.objectives)
    return record_reply(ChosenObjectives(list(body.objectives), list(OBJECTIVES)))


OBJECTIVES_CHOSEN = Route("GET", "/api/v1/objectives", objectives, ("scheduler",), "What matching optimises")
ROUTES = (
    OBJECTIVES_CHOSEN,
    Route(
        "PUT",
        "/api/v1/objectives",
        choose_objectives,
        (),
        "Chooses what matching optimises, in order of importance, from the next batch on",
        answer=ChosenObjectives,
        body=ObjectivesBody,
        errors=BODY_ERRORS,
    ),
)
