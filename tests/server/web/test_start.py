"""The start page: which findings there are, what each costs, and that they can be muted with a reason."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from msgspec import convert
from msgspec.structs import replace
from sqlalchemy import Engine, func, insert, select, update
from tests import make
from tests.server.web.planted import BROKEN_ON, DAY_S, GIB, NOW

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.adjust.plan import is_chosen
from jobsight_server.forecasts.last_runs import LastRun
from jobsight_server.queries.changed_use import changed_applications
from jobsight_server.queries.start import MUTED_DAYS_AT_MOST, SHOWN
from jobsight_server.settings.tables import AdjustLimits
from jobsight_server.storage import schema
from jobsight_server.systems.ranking.periodic import update_machines

MIB = 2.0**20


def cards(client: FlaskClient) -> dict[str, Any]:
    return {card["key"]: card for card in client.get("/api/v1/start").json["cards"]}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_findings_are_on_one_card_of_each_subject_and_can_be_muted(planted: FlaskClient, engine: Engine) -> None:
    update_machines(engine, SessionSettings(), lambda: NOW)
    with engine.begin() as connection:
        stranded = {"id": 30_000, "start": NOW - 9000, "state": "running", "end": None, "profiled": False}
        make.job(connection, "stranded", on={"n2.site.org": 4}, **stranded)
        make.job(connection, "bare", on={"nobody": 4}, **stranded | {"id": 30_001})
        few = schema.profiles.c.run_id < 200
        connection.execute(update(schema.profiles).where(few, schema.profiles.c.metric == "memory").values(value=None))
        refused = {"received_at": NOW - 60, "reason": "not JSON", "bytes": 3, "body": b"xxx"}
        connection.execute(insert(schema.quarantine).values(refused))
        of_idle = update(schema.jobs).where(schema.jobs.c.user == "idle", schema.jobs.c.id % 2 == 0)
        connection.execute(of_idle.values(failure="time"))
    found = cards(planted)
    assert {"cluster alpha", "user alpha idle", "node alpha n1", "site alpha/n2", "user alpha kim"} <= found.keys()
    (silent,) = found["site alpha/n2"]["findings"]
    assert (silent["evidence"][0]["name"], "1 running job" in silent["evidence"][0]["text"]) == ("n2", True)
    assert silent["text"] == "1 node silent, with 1 job stranded there: n2."
    assert silent["node_hours"] == pytest.approx(2.0)
    assert found["node alpha n1"]["findings"][0]["text"].startswith("n1 of alpha lost 5 jobs")
    killed, idle = sorted(found["user alpha idle"]["findings"], key=lambda each: each["kind"] != "killed")
    # An hour a day of 4 processors, a tenth of them busy, on nodes of 10.
    assert idle["node_hours"] == pytest.approx(7 * 4 * 0.9 / 10)
    assert idle["action"].endswith("and to request fewer processors.")
    with engine.connect() as connection:
        of_days = (
            schema.jobs.c.user == "idle",
            schema.jobs.c.failure.is_not(None),
            schema.jobs.c.end >= NOW - 28 * DAY_S,
        )
        number = connection.scalar(select(func.count()).where(*of_days)) or 0
    words = f"{number} jobs killed in 28 days, all at the time limit: {number * 4} processor-hours lost"
    words += " (all of app-idle)."
    assert (killed["text"], killed["node_hours"]) == (words, pytest.approx(number * 4 / 10 / 4))
    listed = planted.get("/api/v1/jobs", query_string=killed["jobs"]).json
    assert (listed["total"], {run["outcome"] for run in listed["jobs"]}) == (number, {"killed: time"})
    assert found["user alpha idle"]["node_hours"] == pytest.approx(killed["node_hours"] + idle["node_hours"])
    message = found["user alpha idle"]["message"]
    assert message.startswith("Dear idle,")
    assert f"- {number} jobs killed" in message
    (gain,) = [each for each in found["cluster alpha"]["findings"] if each["kind"] == "gain"]
    assert gain["evidence"][0]["name"] == "memo"
    assert "kim" not in {each["name"] for each in gain["evidence"]}
    assert gain["action"].endswith("begin with a tenth of the users; the gain above is of all these users.")
    broke = found["user alpha kim"]["findings"][0]
    assert broke["text"].startswith(f"Forecasts of memory are worse since {BROKEN_ON}: accuracy 0.5")
    costs = [card["node_hours"] for card in found.values()]
    known = [cost for cost in costs if cost is not None]
    assert (costs[: len(known)], known) == (known, sorted(known, reverse=True))
    with engine.begin() as connection:
        of_idle = update(schema.jobs).where(schema.jobs.c.user == "idle")
        connection.execute(of_idle.values(processors=1))
    serial = next(each for each in cards(planted)["user alpha idle"]["findings"] if each["kind"] == "idle processors")
    assert serial["action"].endswith("such as files or the network: each job has one processor.")
    with engine.begin() as connection:
        connection.execute(of_idle.values(processors=4))
    page = planted.get("/").text
    assert page.count("<article") == len(found) <= SHOWN
    form = {"key": "node alpha n1", "days": "3", "reason": "new <board> ordered"}
    assert planted.post("/start/mute", data=form, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
    assert "node alpha n1" not in cards(planted)
    (muted,) = planted.get("/api/v1/start").json["muted"]
    assert (muted["muted_until"], muted["muted_reason"]) == (NOW + 3 * DAY_S, form["reason"])
    assert "new &lt;board&gt; ordered" in planted.get("/").text
    planted.post("/start/mute", data=form | {"days": "0"}, headers={"Sec-Fetch-Site": "same-origin"})
    assert "node alpha n1" in cards(planted)
    for bad in ({"days": "-1"}, {"days": f"{MUTED_DAYS_AT_MOST + 1}"}, {"reason": " "}, {"key": ""}):
        answer = planted.post("/start/mute", data=form | bad, headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 400, bad


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_settings_to_paste_name_the_scheduler_and_leave_out_whose_forecasts_broke(
    planted: FlaskClient, engine: Engine
) -> None:
    with engine.begin() as connection:
        connection.execute(update(schema.accounting_files).values(log_format="torque"))
    lines = next(each["settings"] for each in cards(planted)["cluster alpha"]["findings"] if each["kind"] == "gain")
    (limits,) = convert(tomllib.loads(lines)["adjust"], list[AdjustLimits])
    assert (limits.cluster, limits.scheduler, limits.users_share, limits.keep) == ("alpha", "torque", 0.1, ("kim",))
    assert not is_chosen("alpha", "kim", replace(limits, users_share=1.0))
    assert is_chosen("alpha", "memo", replace(limits, users_share=1.0))


def test_nothing_to_say_is_not_said(client: FlaskClient) -> None:
    assert client.get("/api/v1/start").json["cards"] == []
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
