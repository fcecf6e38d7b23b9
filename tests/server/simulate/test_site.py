"""``jobsight simulate DATABASE``: waits as recorded and replayed, on the site's own machines, by what was known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import astuple
from sqlalchemy import Connection, Engine
from tests import make
from tests.make import Jobsight, not_none

from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.replay.counted import BEFORE
from jobsight_server.replay.machine_of_trace import trace_machine
from jobsight_server.replay.record import assumed_size

DAY_S = 86_400.0
GIB = 2.0**30
DAYS = 63


def site(connection: Connection) -> None:
    """Node a of 4 processors and 8 GiB in one queue, and b, of which little is known, in two others.

    Every day for nine weeks: three jobs of 2 processors that request 3 GiB each of a's memory and use a tenth of it.
    Two fit by request, all three of them as recommended. The last was killed; it waited for half an hour.
    """
    make.node(connection, "a", cpus=4, memory_total_bytes=int(8 * GIB))
    for day in range(DAYS):
        at = day * DAY_S + 1e6
        for number, (wait, processors) in enumerate(((0.0, 2), (0.0, 1), (1800.0, 1))):
            times = {"submitted": at, "start": at + wait, "end": at + wait + 1800.0, "requested_walltime_s": 3600.0}
            request = {"queue": "fat", "user": "ada", "requested_memory_bytes": int(3 * GIB), "processors": processors}
            kept = {"value": 0.3 * GIB / processors, "bound": 0.2 * GIB, "attempts": f"[{0.4 * GIB / processors}]"}
            used = {"memory": kept, "runtime": {"value": 1800.0, "forecast": 1800.0, "bound": 2000.0}}
            make.job(connection, f"{day}.{number}", on={"a": processors}, used=used, **times, **request)
        for queue in ("one", "two"):
            times = {"submitted": at, "start": at, "end": at + 60.0}
            make.job(connection, f"{day}.{queue}", on={"b": 3}, queue=queue, processors=3, user="bob", **times)


def test_waits_of_a_site_worked_out_by_hand(
    engine: Engine, database_url: str, tmp_path: Path, jobsight: Jobsight
) -> None:
    with engine.begin() as connection:
        site(connection)
    found = jobsight("simulate", database_url, "--plot", tmp_path / "plots", "--json").json
    assert (tmp_path / "plots" / "waiting.svg").read_text().count("both by Jobsight") == 2
    sizes = {of["name"]: (of["nodes"], of["processors"], of["memory_bytes"]) for of in found["machines"]}
    assert sizes == {"alpha fat": (1, 4, 8 * GIB), "alpha one+two": (1, 6, None)}
    longest = "request no run time: EASY takes the machine's longest"
    assert found["assumed"] == {longest: 2 * DAYS, "request no memory: none is reserved": 2 * DAYS}
    rules: dict[str, Any] = found["rules"]
    # Of five jobs a day one waited for half an hour: the third fits into a's memory when the first two end.
    assert rules["recorded"]["mean_wait_s"] == pytest.approx([360.0, 360.0, 360.0])
    assert rules["as requested"]["mean_wait_s"] == pytest.approx([360.0, 360.0, 360.0])
    assert rules["as requested"]["mean_bounded_slowdown"] == pytest.approx((4 + 2) / 5)
    assert rules["memory by Jobsight"]["wait_of_baseline"] == [0.0, 0.0, 0.0]
    assert rules["memory by Jobsight"]["killed"] == 0
    # The last two are known from the second day on; a third of each job's request until then.
    assert rules["memory by last two"]["mean_wait_s"][0] == pytest.approx(360.0 / DAYS)
    assert [(of["queue"], of["explains"]) for of in found["replay"]["queues"]] == [
        ("fat", True),
        ("one", None),
        ("two", None),
    ]
    assert found["replay"]["answered"] == found["jobs"]  # those of queues without waits, too
    assert found["replay"]["overtaken"] == 0.0
    assert found["replay"]["room_while_waiting"] == 1.0  # of processors: memory was the limit
    part = jobsight("simulate", database_url, "--since", "1970-02-01", "--json").json
    assert part["jobs"] == 5 * 43
    assert part["rules"]["recorded"]["mean_wait_s"] == [pytest.approx(360.0), None, None]


def test_the_page_and_a_trace(engine: Engine, database_url: str, tmp_path: Path, jobsight: Jobsight) -> None:
    with engine.begin() as connection:
        site(connection)
    shown = jobsight("simulate", database_url).out
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    assert "Queues with + share nodes and are replayed as one machine." in words
    verdict = "Memory: go by Jobsight. Compared with the replay as requested, jobs wait 100 % less (95 % sure) with"
    # A third of the first day's request: the only day with a wait says nothing about other weeks.
    assert f"{verdict} Jobsight; 98 % less (shorter in 9 of 10 weeks) with the user's last two jobs." in words
    # Three jobs a day hold 3 GiB for half an hour each, of 8 GiB all day, and use a tenth of it.
    assert "Requests reserve 2 % of the nodes' memory, and jobs use 0 %." in words
    assert "Run times: keep the requests; no gain is certain." in words
    trust = "Answered for 315 of 315 jobs, whose waits the replay explains."
    assert words.index(verdict) < words.index(trust) < words.index("waiting, seconds")
    assert "memory by last two 5.7 0.0 -98" in words  # 0.002 hours
    jobsight("export", "jobs", tmp_path / "t.swf", on=database_url)
    trace = jobsight("simulate", tmp_path / "t.swf", "--memory", "--classes", "9x4GiB", "--json").json
    assert trace["rules"]["recorded"]["mean_wait_s"] == pytest.approx([360.0, 360.0, 360.0])
    assert [list(of.values()) for of in trace["machines"]] == [["9x4GiB", 9, 9, 36 * GIB, 5 * DAYS, None]]
    policy = jobsight("simulate", database_url, "--policy", "easy").out
    assert "easy on 10 processors" in policy
    assert "Its 2 groups of queues that share no nodes are simulated as one machine." in " ".join(policy.split())
    few = jobsight("simulate", database_url, "--classes", "1x4096M", "--json").json
    assert few["assumed"]["have more processors than their nodes: left out"] == 3 * DAYS
    for options, message in (
        (["--plot", str(tmp_path / "t.swf")], "t.swf is a file; name a directory"),
        (["--classes", "4x"], "--classes: node class '4x': give COUNTxMEMORY, such as 512x32M,512x1.5G"),
        (["--classes", "9x4"], "--classes: node class '9x4': give COUNTxMEMORY"),
        (["--classes", "9x1M", "--processors", "9"], "--classes: it states the processors too; leave out --processors"),
        (["--processors", "0"], "--processors: 0 is not from 1 to 10,000,000"),
    ):
        assert message in jobsight("simulate", database_url, *options, status=1).err


def test_a_trace_is_recommended_what_advice_would_have_said(tmp_path: Path) -> None:
    """Eight jobs, one after the other, ask for 4 GiB on two processors and use 1 GiB; each runs for 100 s of an hour.

    From the fourth on, advice knows three runs of three bursts: 1 GiB and a margin of 0.15 over the root of their
    number, of the whole job, rounded up to 100 MiB. The use of a ninth is unknown: its next attempt is its request.
    """
    gib = 2**20  # in KiB
    rows = [f"{n} {200 * n} 0 100 2 -1 {gib // 2} 2 3600 {2 * gib} 1 7 -1 3 -1 -1 -1 -1" for n in range(1, 9)]
    rows.append(f"9 1800 0 100 2 -1 -1 2 3600 {2 * gib} 1 7 -1 3 -1 -1 -1 -1")
    (tmp_path / "t.swf").write_text("\n".join(rows))
    machine = trace_machine(read_swf(tmp_path / "t.swf"), "t")
    assert {job.recommended for job in machine.jobs} == {()}
    found = machine.forecast(machine.jobs)
    mib = 2.0**20
    amounts = [[2 * amount / mib for amount in job.recommended] for job in found]
    margins = [np.ceil(10.24 * (1.0 + 0.15 / np.sqrt(n))) * 100.0 for n in range(3, 8)]
    assert amounts == [[4096.0]] * 3 + [[margin] for margin in margins] + [[1100.0, 4096.0]]
    assert margins == [1200.0, 1200.0, 1100.0, 1100.0, 1100.0]
    assert (found[0].forecast_s, found[7].forecast_s) == (None, pytest.approx(100.0))
    assert 100.0 <= not_none(found[7].bound_s) < 3600.0


def test_waits_without_a_reason_in_the_log_are_no_ground_for_advice(tmp_path: Path, jobsight: Jobsight) -> None:
    idle, log = f"sqlite:///{tmp_path / 'idle.db'}", Path(__file__).parents[3] / "examples" / "accounting" / "20261101"
    jobsight("import", "torque", str(log), "--cluster", "a", on=idle)
    words = " ".join(jobsight("simulate", idle).out.split())
    assert "Do not base decisions on this page: NO REPLAY EXPLAINS THE RECORD of any queue: mean wait 0.0" in words
    assert "nothing" in words
    assert "Run times:" not in words


def test_what_came_later_changes_nothing_before(engine: Engine, database_url: str, jobsight: Jobsight) -> None:
    """The rules read stored forecasts: the use and the run time of a job act only on what follows its end."""
    with engine.begin() as connection:
        site(connection)
    before = jobsight("simulate", database_url, "--until", "1970-02-01", "--json").json
    with engine.begin() as connection:
        connection.exec_driver_sql(f'UPDATE jobs SET "end" = "end" + 900 WHERE start > {1e6 + 22 * DAY_S}')
        connection.exec_driver_sql(f"UPDATE profiles SET value = 3 * value WHERE run_id > {22 * 5}")
    after = jobsight("simulate", database_url, "--until", "1970-02-01", "--json").json
    assert after == before


def test_a_short_record_begins_with_what_ran_and_waited_then(
    engine: Engine, database_url: str, jobsight: Jobsight
) -> None:
    """Two processors on unknown nodes; c was submitted an hour after the first end, and a ran for two hours more.

    The record of d is wrong: it has three processors in use for three minutes of six hours.
    """
    hour, begin = 3600.0, 100 * DAY_S
    times = {"a": (-30 * DAY_S, -hour, 3 * hour), "b": (-9 * DAY_S, -2 * hour, 0.0), "c": (hour, 6 * hour, 7 * hour)}
    times["d"] = (-9 * DAY_S, 6.95 * hour, 7 * hour)
    with engine.begin() as connection:
        for name, (submitted, start, end) in times.items():
            at = {"submitted": begin + submitted, "start": begin + start, "end": begin + end}
            make.job(connection, name, processors=2 if name == "c" else 1, requested_walltime_s=5 * hour, **at)
    found = jobsight("simulate", database_url, "--json").json
    assert (found["jobs"], found["weeks"]) == (1, 1)
    size = {"processors": 2, "most": 3, "share_above": pytest.approx(0.05 / 6)}
    assert [list(of.values()) for of in found["machines"]] == [["alpha", None, 2, None, 4, size]]
    waits = {name: row["mean_wait_s"] for name, row in found["rules"].items()}
    assert waits["recorded"] == [5 * hour, None, None]
    assert waits["as requested"] == [2 * hour, None, None]
    words = " ".join(jobsight("simulate", database_url).out.split())
    assert "as requested 2.00 2.00" in words
    assert "alpha unknown 2 unknown 4" in words
    assert (
        "3 jobs were submitted before the days shown: they run or wait at their beginning, and are not counted."
        in words
    )
    assert "Assumed are 2 processors: more were in use for 0.8 % of the time, 3 at most." in words
    policy = jobsight("simulate", database_url, "--policy", "easy", "--json").json
    assert (policy["processors"], policy["jobs"], policy["mean_wait_s"]) == (2, 1, 2 * hour)
    assert (policy["machines"], policy["assumed"]) == (found["machines"], {BEFORE: 3})
    for options in ((), ("--policy", "easy")):
        warning = "--processors states 2, but the record had 3 processors in use at once; state at least these"
        assert warning in jobsight("simulate", database_url, "--processors", "2", *options).err
    stated = jobsight("simulate", database_url, "--processors", "3", "--json").json
    of_three, wait = stated["machines"][0], stated["rules"]["as requested"]["mean_wait_s"][0]
    assert (of_three["processors"], of_three["assumed_size"], wait) == (3, None, 0.0)  # c runs beside a
    assert "The record has fewer than 8 weeks. That is too few for intervals" in words


def test_the_size_of_a_machine_of_unknown_nodes() -> None:
    """Ten processors for 1000 s, and ten more for the last 9 s or 11 s, of records that are not exact."""
    for overlap, expected in ((9.0, (10, 20, 0.009)), (11.0, (20, 20, 0.0))):
        start, end = np.array([0.0, 1000.0 - overlap]), np.array([1000.0, 1000.0])
        assert astuple(assumed_size(start, end, np.full(2, 10.0))) == pytest.approx(expected)
    # The widest job fits, however short; idle time is not counted.
    start = np.array([0.0, 5e6])
    assert astuple(assumed_size(start, start + np.array([1000.0, 1.0]), np.array([10.0, 15.0]))) == (15, 15, 0.0)
