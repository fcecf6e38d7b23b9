"""What ran and was requeued holds its processors in each simulation of a site: of its database, with a policy, and of
the exported trace, which all have the same machine and the same jobs."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.make import Jobsight

from jobsight_server.replay.counted import BEFORE, HELD

BEGIN, NODES, SLOTS = 1_700_000_000, 12, 8
DAY_S = 86_400
ASKED = "Resource_List.walltime=20:00:00"


def written(log: Path) -> None:
    """Write two days of a TORQUE server that always starts a job where a slot is free, and requeues every fifth run.

    At its beginning and end all slots are in use; a job that is requeued is first in the queue again.
    """
    rng = random.Random(3)
    free = [(f"n{node}", slot) for node in range(NODES) for slot in range(SLOTS)]
    lines, running, waiting, number = [], [], [], 0
    for now in range(BEGIN - DAY_S, BEGIN + 2 * DAY_S, 300):
        for run in [run for run in running if run[0] <= now]:
            running.remove(run)
            _, job, queued, start, held = run
            free += held
            is_requeued = rng.random() < 0.2
            lines.append((now, "R" if is_requeued else "E", job, queued, start, held))
            if is_requeued:
                waiting.insert(0, (job, queued, len(held)))
        for _ in range(rng.randint(0, 2)):
            number += 1
            waiting.append((f"{number}.head", now, rng.choice((1, 1, 2, 4, 9))))
        while waiting and waiting[0][2] <= len(free):
            job, queued, width = waiting.pop(0)
            rng.shuffle(free)
            held, free = free[:width], free[width:]
            running.append((now + 300 * rng.randint(1, 150), job, queued, now, held))
            lines.append((now, "S", job, queued, now, held))
    with log.open("w") as file:
        for now, kind, job, queued, start, held in lines:
            if now < BEGIN:
                continue
            stamp = f"{datetime.fromtimestamp(now, UTC):%m/%d/%Y %H:%M:%S}"
            host = "+".join(f"{node}/{slot}" for node, slot in held)
            text = f"user=u{int(job.split('.')[0]) % 9} queue=q qtime={queued} ctime={queued} start={start} {ASKED}"
            end = f" end={now} Exit_status=0 resources_used.walltime=00:05:00" if kind == "E" else ""
            rest = "" if kind == "R" else f"{text} exec_host={host}{end}"
            file.write(f"{stamp};{kind};{job};{rest}\n")


def counted(log: Path, since: float, until: float) -> tuple[int, float]:
    """The slots that the log names, and their mean number in use, by the slots themselves."""
    open_runs: dict[str, tuple[int, list[str]]] = {}
    runs: list[tuple[int, float, list[str]]] = []
    for line in log.read_text().splitlines():
        stamp, kind, job, rest = line.split(";", 3)
        now = int(datetime.strptime(stamp, "%m/%d/%Y %H:%M:%S").replace(tzinfo=UTC).timestamp())
        host = re.search(r"exec_host=(\S+)", rest)
        if kind == "S" and host:
            open_runs[job] = now, host[1].split("+")
        elif job in open_runs:
            runs.append((open_runs[job][0], now, open_runs.pop(job)[1]))
        elif kind == "E" and host:  # it began before the log
            began = re.search(r" start=(\d+)", rest)
            runs.append((int(began[1]) if began else now, now, host[1].split("+")))
    runs += [(start, until, held) for start, held in open_runs.values()]
    of_slot: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for start, end, held in runs:
        for slot in held:
            of_slot[slot].append((max(start, since), min(end, until)))
    return len(of_slot), sum(max(0.0, end - start) for spans in of_slot.values() for start, end in spans) / (
        until - since
    )


def test_what_is_in_use_is_what_a_count_of_the_log_finds(tmp_path: Path, jobsight: Jobsight) -> None:
    log, database, trace = tmp_path / "log", f"sqlite:///{tmp_path / 'site.db'}", tmp_path / "site.swf"
    written(log)
    jobsight("import", "torque", log, "--cluster", "a", on=database)
    found = jobsight("simulate", database, "--json").json
    slots, in_use = counted(log, found["since"], found["until"])
    (machine,) = found["machines"]
    assert (slots, machine["processors"]) == (NODES * SLOTS, NODES * SLOTS)
    assert in_use > 0.9 * slots
    assert found["rules"]["recorded"]["utilisation"] * slots == pytest.approx(in_use, rel=0.01)
    kinds = [line.split(";", 2)[1] for line in log.read_text().splitlines()]
    ended, requeued = (kinds.count(kind) for kind in "ER")
    assert found["assumed"][HELD] > requeued + 10 > 30
    assert machine["jobs"] == ended + found["assumed"][HELD]
    assert found["jobs"] + found["assumed"][BEFORE] == ended
    policy = jobsight("simulate", database, "--policy", "easy", "--json").json
    jobsight("export", "jobs", trace, on=database)
    exported = jobsight("simulate", trace, "--policy", "easy", "--json").json
    replayed = jobsight("simulate", trace, "--memory", "--json").json
    same = ("jobs", "processors", "mean_wait_s", "useful_utilisation", "makespan_s", "assumed")
    assert [exported[name] for name in same] == [policy[name] for name in same]
    for name in ("recorded", "as requested"):
        rule, of_trace = found["rules"][name], replayed["rules"][name]
        assert rule["mean_wait_s"][0] == pytest.approx(of_trace["mean_wait_s"][0])
        assert rule["utilisation"] == pytest.approx(of_trace["utilisation"])
    assert policy["jobs"] == replayed["jobs"] == found["jobs"]
    assert policy["processors"] == machine["processors"]
    assert policy["mean_wait_s"] == pytest.approx(found["rules"]["as requested"]["mean_wait_s"][0])
    assert policy["useful_utilisation"] == pytest.approx(found["rules"]["as requested"]["utilisation"])


def test_jobs_of_a_trace_hold_what_they_were_given(tmp_path: Path, jobsight: Jobsight) -> None:
    """Partitions of 32: half of the jobs ask for less than they get, and some state no request."""
    rng, trace = random.Random(5), tmp_path / "partitions.swf"
    runs = [(600 * n, rng.randint(0, 900), rng.randint(60, 7_200), 32 * rng.randint(1, 4)) for n in range(400)]
    lines = ["; MaxProcs: 1024"]
    for n, (submitted, wait, run, held) in enumerate(runs, 1):
        asked = rng.choice((held, held // 2, held - 31, -1))
        lines.append(f"{n} {submitted} {wait} {run} {held} -1 -1 {asked} 7200 -1 1 {n % 7} -1 -1 -1 -1 -1 -1")
    trace.write_text("\n".join(lines))
    found = jobsight("simulate", trace, "--memory", "--json").json
    since, until = found["since"], found["until"]
    in_use = sum(
        held * max(0, min(submitted + wait + run, until) - max(submitted + wait, since))
        for submitted, wait, run, held in runs
    ) / (until - since)
    assert found["rules"]["recorded"]["utilisation"] * 1_024 == pytest.approx(in_use, rel=0.01)
