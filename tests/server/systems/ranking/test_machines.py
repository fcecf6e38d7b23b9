"""``/api/v1/resources/rank``, over a site with machines and jobs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import insert
from tests import make
from tests.make import not_none
from tests.server.web.conftest import NOW, Served

from jobsight_predictor.reliability.sessions import Presence
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.systems.ranking import tables as ranking_tables
from jobsight_server.systems.ranking.learning import ReliabilityState, learn, write_reliability
from jobsight_server.systems.ranking.queries import MachineRanker
from jobsight_server.systems.ranking.rows import MachineRow, StoredFacts, write_machines

HOUR_S = 3600.0


def machine(name: str, age_h: float, cluster: str = "alpha", **more: Any) -> MachineRow:
    """A machine that became available ``age_h`` hours ago."""
    presence = Presence(seen_s=NOW, since_s=NOW - age_h * HOUR_S, boot="b")
    facts = StoredFacts(processors=16, cores=16, memory_bytes=2**36, flops=5e7)
    return MachineRow(None, cluster, name, presence=presence, facts=facts, boot_id="b", received_at=NOW, **more)


def store(served: Served, *rows: MachineRow) -> None:
    state = ReliabilityState(version=1)
    with served.engine.begin() as connection:
        learn(connection, state, rows)
        write_machines(connection, rows)
        write_reliability(connection, state)


def ask(served: Served, **query: Any) -> Any:
    return make.answered(served.client("scheduler").get(f"/api/v1/resources/rank?{urlencode(query, doseq=True)}"))


def names(found: Any) -> list[str]:
    return [row["name"] for row in found["machines"]]


@pytest.mark.storage
def test_the_answer_says_why(served: Served) -> None:
    row = machine("n1", 5.0, sessions=2)
    row.ended = []
    store(served, row)
    with served.engine.begin() as connection:
        for start, end, ending in ((NOW - 9e5, NOW - 8e5, "shutdown"), (NOW - 9e4, NOW - 8e4, "owner")):
            values = {"machine_id": row.id, "start": start, "end": end, "ending": ending}
            connection.execute(insert(ranking_tables.machine_sessions).values(values))
        known = MachineRanker().reliability(connection, ("alpha", "n1"), HOUR_S, NOW)
    assert [(one.end, one.ending) for one in not_none(known).history] == [
        (NOW - 8e5, "shutdown"),
        (NOW - 8e4, "owner"),
        (None, None),
    ]
    (found,) = ask(served, **{"for": 60})["machines"]
    assert (found["sessions"], found["boots"], found["evictions"], found["age_s"]) == (2, 0, 0, 5 * HOUR_S)


def test_the_run_time_may_be_that_predicted_for_the_user(served: Served) -> None:
    store(served, machine("n1", 5.0))
    client = served.client("scheduler")
    assert client.get("/api/v1/resources/rank?user=nobody").status_code == 404
    answer = client.get("/api/v1/resources/rank?user=ada")
    assert answer.status_code == 400  # on two clusters
    learned = {"start": NOW - 500, "end": NOW - 400, "used": {"runtime": 100.0}}
    with served.engine.begin() as connection:
        for number in range(3):
            make.job(connection, f"r{number}", user="run", **learned)
    rebuild(served.engine)
    answer = client.get("/api/v1/resources/rank?user=run&cluster=alpha").get_json()
    assert answer["run_time_s"] == pytest.approx(100.0)


def test_a_machine_can_be_asked_for_by_name_with_its_rank_among_all(served: Served) -> None:
    store(served, *(machine(f"n{number}", 1.0 + number, events=float(number), seconds=1e6) for number in range(5)))
    everything = names(ask(served, **{"for": "6h"}))
    (found,) = ask(served, **{"for": "6h", "name": everything[3]})["machines"]
    assert (found["rank"], found["name"]) == (4, everything[3])
    assert names(ask(served, **{"for": "6h", "limit": 2})) == everything[:2]


@pytest.mark.parametrize(
    "query", ["for=never", "for=6h&user=ada", "application=cfd", "for=6h&name=%ed%a0%80", "for=6h&compilers=gcc"]
)
def test_what_cannot_be_answered_is_a_400_with_what_to_do(served: Served, query: str) -> None:
    answer = served.client("scheduler").get(f"/api/v1/resources/rank?{query}")
    assert answer.status_code == 400
    assert answer.get_json()["error"]
