"""The definitions of matching: policies and objectives."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from flask import Response
from msgspec import Meta

from jobsight_scheduler.matching.problem import OBJECTIVES
from jobsight_scheduler.matching.read import read_objectives
from jobsight_server.systems.matching.edit import put_objectives, put_policies
from jobsight_server.systems.matching.queries import ChosenObjectives, ResourcePolicies
from jobsight_server.systems.matching.resource_state import refused
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.web.kit.inputs import DEFINITION_BYTES, parsed_body
from jobsight_server.web.kit.routes import Route, context, record_reply
from jobsight_server.web.kit.system_parts import part


def policies() -> ResourcePolicies:
    return ResourcePolicies(part(Matcher).look(lambda catalogue, now: list(catalogue.policies)))


def define_policies() -> Response:
    body = parsed_body(ResourcePolicies, '{"policies": [{"effect": "deny", ...}]}', DEFINITION_BYTES)
    put_policies(context().write_engine, body.policies)
    return record_reply(body)


definition = partial(Route, method="PUT", roles=(), errors=(409,))
"""A route by which an administrator defines something."""

_OBJECTIVES_AT_MOST = 10


class ObjectivesBody(msgspec.Struct, forbid_unknown_fields=True):
    """Objectives in order of importance: names of built-in ones, or objects (systems/matching/README.md)."""

    objectives: Annotated[list[str | dict[str, Any]], Meta(min_length=1, max_length=_OBJECTIVES_AT_MOST)]


def objectives() -> ChosenObjectives:
    return part(Matcher).look(lambda catalogue, now: ChosenObjectives(catalogue.objectives, list(OBJECTIVES)))


def choose_objectives() -> Response:
    body = parsed_body(ObjectivesBody, '{"objectives": ["throughput"]}', DEFINITION_BYTES)
    with refused():
        read_objectives(body.objectives, "objectives")
    put_objectives(context().write_engine, body.objectives)
    return record_reply(ChosenObjectives(list(body.objectives), list(OBJECTIVES)))


ROUTES = (
    Route("/api/v1/policies", policies, "Policies: which jobs may use which resource, and when"),
    definition(
        "/api/v1/policies",
        define_policies,
        "Replaces all policies; existing matches stay",
        answer=ResourcePolicies,
        body=ResourcePolicies,
    ),
    Route("/api/v1/objectives", objectives, "Objectives of matching"),
    definition(
        "/api/v1/objectives",
        choose_objectives,
        "Chooses the objectives, in order of importance, from the next batch on",
        answer=ChosenObjectives,
        body=ObjectivesBody,
    ),
)
