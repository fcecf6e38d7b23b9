"""The start page: which findings there are, what each costs, and that they can be muted with a reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, insert, update
from tests import make

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.forecasts.last_runs import LastRun
from jobsight_server.queries.changed_use import changed_applications
from jobsight_server.queries.start import MUTED_DAYS_AT_MOST, SHOWN
from jobsight_server.storage import schema
from jobsight_server.systems.ranking.periodic import update_machines

from .planted import BROKEN_ON, DAY_S, GIB, NOW

MIB = 2.0**20


def findings(client: FlaskClient) -> dict[str, Any]:
    return {found["key"]: found for found in client.get("/api/v1/start").json["findings"]}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_findings_are_there_with_its_evidence_and_can_be_muted(planted: FlaskClient, engine: Engine) -> None:
    update_machines(engine, SessionSettings(), lambda: NOW)
    with engine.begin() as connection:
        stranded = {"id": 30_000, "start": NOW - 9000, "state": "running", "end": None, "profiled": False}
        make.job(connection, "stranded", on={"n2.site.org": 4}, **stranded)
        make.job(connection, "bare", on={"nobody": 4}, **stranded | {"id": 30_001})
        few = schema.profiles.c.run_id < 200
        connection.execute(update(schema.profiles).where(few, schema.profiles.c.metric == "memory").values(value=None))
        refused = {"received_at": NOW - 60, "reason": "not JSON", "bytes": 3, "body": b"xxx"}
        connection.execute(insert(schema.quarantine).values(refused))
    found = findings(planted)
    assert {"gain alpha", "idle processors", "kills alpha n1", "silent alpha/n2", "missing rejected"} <= found.keys()
    (silent,) = found["silent alpha/n2"]["evidence"]
    assert (silent["name"], "1 running job" in silent["text"]) == ("n2", True)
    assert found["silent alpha/n2"]["text"] == "1 node silent, with 1 job stranded there: n2."
    assert found["silent alpha/n2"]["node_hours"] == pytest.approx(2.0)
    assert found["kills alpha n1"]["text"].startswith("n1 of alpha lost 5 jobs")
    assert [each["name"] for each in found["idle processors"]["evidence"]] == ["idle"]
    # An hour a day of 4 processors, a tenth of them busy, on nodes of 10.
    assert found["idle processors"]["node_hours"] == pytest.approx(7 * 4 * 0.9 / 10)
    assert found["gain alpha"]["evidence"][0]["name"] == "memo"
    assert found["gain alpha"]["action"].endswith(
        "begin with a tenth of the users; the gain above is of all these users."
    )
    broke = found["broke alpha memory"]
    assert (broke["text"], broke["evidence"][0]["text"].startswith(f"since {BROKEN_ON}: accuracy 0.5")) == (
        "Forecasts of memory on alpha are worse for kim.", True
    )  # fmt: skip
    costs = [each["node_hours"] for each in found.values()]
    known = [cost for cost in costs if cost is not None]
    assert (costs[: len(known)], known) == (known, sorted(known, reverse=True))
    page = planted.get("/").text
    assert page.count("<article") == len(found) <= SHOWN
    form = {"key": "kills alpha n1", "days": "3", "reason": "new <board> ordered"}
    assert planted.post("/start/mute", data=form, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
    assert "kills alpha n1" not in findings(planted)
    (muted,) = planted.get("/api/v1/start").json["muted"]
    assert (muted["muted_until"], muted["muted_reason"]) == (NOW + 3 * DAY_S, form["reason"])
    assert "new &lt;board&gt; ordered" in planted.get("/").text
    planted.post("/start/mute", data=form | {"days": "0"}, headers={"Sec-Fetch-Site": "same-origin"})
    assert "kills alpha n1" in findings(planted)
    for bad in ({"days": "-1"}, {"days": f"{MUTED_DAYS_AT_MOST + 1}"}, {"reason": " "}, {"key": ""}):
        answer = planted.post("/start/mute", data=form | bad, headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 400, bad


def test_nothing_to_say_is_not_said(client: FlaskClient) -> None:
    assert client.get("/api/v1/start").json["findings"] == []
    assert "Nothing needs a decision this week." in client.get("/").text


def runs(memory_mib: Callable[[random.Random, int], float], at_once: int = 1) -> list[LastRun]:
    """Sixty jobs, three a day, the latest first."""
    rng, found = random.Random(2), []
    for number in range(60):
        end = NOW - (59 - number) * DAY_S / 3
        used, submitted = memory_mib(rng, number) * MIB, end // (at_once * DAY_S / 3)
        found.append(LastRun(number, "sweep", 4, used, 3600.0, None, submitted=submitted, end=end, job_id=f"{number}")
                     ._replace(requested_memory_bytes=2.0 * GIB))  # fmt: skip
    return found[::-1]


def test_an_application_that_changed_is_found_since_its_day() -> None:
    day = int(NOW // DAY_S) - 5

    def changes(rng: random.Random, number: int) -> float:
        return rng.uniform(470, 510) if NOW - (59 - number) * DAY_S / 3 < day * DAY_S else rng.uniform(200, 1000)

    change = changed_applications(runs(changes), NOW)["sweep"]
    before, since = (
        np.quantile([(run.memory_bytes or 0.0) / MIB for run in part], (0.05, 0.5, 0.95))
        for part in (runs(changes)[change.since_jobs :], runs(changes)[: change.since_jobs])
    )
    narrow = f"{before[1]:.0f} MiB ± {max(before[2] - before[1], before[1] - before[0]):.1f} MiB"
    assert change.text.startswith(f"since 7 Jan: memory {narrow} became {since[0]:.0f} MiB to {since[2]:.0f} MiB; ")
    assert change.before_jobs + change.since_jobs == 60
    assert change.since_jobs == sum(run.end is not None and run.end >= day * DAY_S for run in runs(changes))
    assert (sum(change.histogram.before), sum(change.histogram.since)) == (change.before_jobs, change.since_jobs)
    weeks = (NOW / DAY_S - day) / 7
    since = [run.memory_bytes or 0.0 for run in runs(changes)[: change.since_jobs]]
    assert change.unused_gib_hours_a_week == pytest.approx(sum(2.0 - used / GIB for used in since) / weeks)
    assert change.text.endswith(f"; {change.unused_gib_hours_a_week:,.0f} GiB-hours a week unused")
    assert changed_applications(runs(changes, at_once=15), NOW) == {}, "three bursts are no evidence"


def test_chance_is_no_change() -> None:
    for seed in range(40):
        assert changed_applications(runs(lambda rng, _, seed=seed: 500 + 100 * rng.gauss(seed, 1)), NOW) == {}
