"""Machines by their rank for a job: ``/api/v1/resources/rank``. Their page is that of nodes."""

from __future__ import annotations

from sqlalchemy import Connection
from werkzeug.exceptions import BadRequest

from jobsight_server.ground.amounts import SPAN_PATTERN, span_s
from jobsight_server.ground.parameters import NAME, Parameter, choice_of, whole_number
from jobsight_server.systems.ranking.board import RankQuestion
from jobsight_server.systems.ranking.queries import (
    MachineRanker,
    MachineRanking,
    machine_ranker,
    machine_ranking,
    predicted_run_time,
)
from jobsight_server.web.kit.inputs import (
    PROCESSORS_AT_MOST,
    WALLTIME_AT_MOST_S,
    amount_argument,
    choice_argument,
    cluster_argument,
    given,
    integer_argument,
    name_argument,
)
from jobsight_server.web.kit.pages import Menu
from jobsight_server.web.kit.routes import AppContext, Route, context, reading
from jobsight_server.web.kit.system_parts import part

MACHINES_AT_MOST = 10_000
_LISTED = 100
_FREE, _ALL = "free", "all"


def rank() -> MachineRanking:
    here, ranker = context(), part(MachineRanker)
    cluster, name = cluster_argument(), name_argument("name")
    processors = integer_argument("processors", 1, PROCESSORS_AT_MOST)
    everywhere = choice_argument("include", (_FREE, _ALL)) == _ALL
    limit = integer_argument("limit", _LISTED, MACHINES_AT_MOST)
    question = RankQuestion(_run_time(cluster), ranker.method, cluster, processors, everywhere)
    columns = ranker.board.columns(reading())
    return machine_ranking(reading(), columns, question, here.clock(), name=name, limit=limit)


def _run_time(cluster: str | None) -> float:
    """Return the run time, given or forecast for the user's job."""
    user, application = name_argument("user"), name_argument("application")
    if user is None:
        if application is not None:
            raise BadRequest("application needs the user of the job: add user=NAME")
        found = amount_argument("for", span_s, WALLTIME_AT_MOST_S)
        if found is None:
            raise BadRequest(
                "query parameter for is missing; add for=6h, or user=NAME to use the run time predicted for that user"
            )
        return found
    if given("for") is not None:
        raise BadRequest("give for=RUN_TIME or user=NAME, not both")
    return predicted_run_time(reading(), context().answers, user, application, cluster)


RANK = Route(
    "/api/v1/resources/rank",
    rank,
    "Machines by rank for a job: the probability that it succeeds there, or the grid resource vector",
    (
        Parameter(
            "for", "run time of the job: 6h, 10min, seconds or 01:00:00", {"type": "string", "pattern": SPAN_PATTERN}
        ),
        Parameter("user", "instead of `for`: use the run time predicted for this user's next job", NAME),
        Parameter("application", "application of the user's job", NAME),
        Parameter("cluster", "only this cluster's machines", NAME),
        Parameter("name", "only the machine of this name, with its rank among all", NAME),
        Parameter("processors", "processors that must be free (default 1)", whole_number(PROCESSORS_AT_MOST)),
        Parameter("include", "all: also busy and absent machines, after the free ones", choice_of((_FREE, _ALL))),
        Parameter("limit", f"machines in the answer (default {_LISTED})", whole_number(MACHINES_AT_MOST)),
    ),
)
ROUTES = (RANK,)


def menu(_: Connection) -> Menu:
    return ()


def make_part(here: AppContext) -> MachineRanker:
    return machine_ranker(here.settings)
