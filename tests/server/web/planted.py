"""Sixty days of a site with answers planted in them: who wastes, who improved, whose forecasts broke, what runs now."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Engine, insert
from tests import make

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.learning.finished import KEEP_PEAKS
from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all

DAY_S = 86400.0
FIRST = 1_699_833_600.0  # Monday, 2023-11-13
DAYS = 60
NOW = FIRST + DAYS * DAY_S
BROKEN = 46
BROKEN_ON = f"{datetime.fromtimestamp(FIRST + BROKEN * DAY_S, UTC):%Y-%m-%d}"
GIB = 2**30
PROCESSORS = 4
SCRIPT = "<script>alert(1)</script>"


class Habit(NamedTuple):
    """GiB requested of 4 used, the share of processors busy, hours of limit for one of run time, jobs a day, and how
    far forecasts of memory are off in the mean."""

    gib: float = 5
    busy: float = 0.95
    limit_h: float = 1.1
    a_day: int = 4
    off: float = 0.06


USERS = {
    "memo": Habit(40, 0.9, 1.5, 1),
    "idle": Habit(6, 0.1, 1.5, 1),
    "slow": Habit(6, 0.9, 24.0, 1),
    "imp": Habit(20, 0.9, 1.5, 1),  # from the middle on as was recommended
    "low": Habit(off=0.4),
    "ann": Habit(),  # a tenth of the bounds is too small, where a twentieth was promised
    "kim": Habit(),  # the forecasts broke
    "zoe": Habit(),  # and recovered
    SCRIPT: Habit(),
    "fit": Habit(),
}


def plant(engine: Engine) -> None:
    """Jobs of ``USERS``, an array, jobs that a node lost, four nodes of which n2 is silent, and four running jobs."""
    runs, profiles = [], []
    for number, (run, used) in enumerate((*ended(random.Random(3)), *array()), 1):
        runs.append(run_row(number, **run))
        for metric, (value, forecast, bound) in used.items():
            entry = {"run_id": number, "metric": metric, "learn_seq": number, "source": "accounting"}
            profiles.append(entry | {"value": value, "forecast": forecast, "bound": bound})
    nodes = [node(0, 30, 1e9, 0.5), node(1, 30, 3e9, 0.9), node(2, 7200, 5e9, 0.2), node(3, 30, 0, 0.0)]
    # A node, the processors on it, and memory in use; two jobs share n1.
    held = [("n0", 4, GIB), ("n1", 4, 0.5 * GIB), ("n1", 2, 1.9 * GIB), ("n3.site.org", 4, None)]
    now = [running(1, 5.0), running(2, 0.5), running(3, 5.0), running(4, 5.0, requested_walltime_s=None)]
    log = {"cluster": "alpha", "path": "/log", "head_digest": "", "offset": 1, "lines": 1, "updated": NOW - 90}
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs), runs)
        connection.execute(insert(schema.profiles), profiles)
        connection.execute(KEEP_PEAKS, {"runs": [run["id"] for run in runs]})
        for number in range(5):
            lost = {"state": "requeued", "profiled": False, "user": "fit", "start": NOW - DAY_S * (number + 1)}
            lost["id"] = 20_000 + number
            make.job(connection, f"lost{number}", on={"n1": 4}, processors=4, end=lost["start"] + 3600, **lost)
        connection.execute(insert(schema.nodes), [row for row, _ in nodes])
        for row, samples in nodes:
            make.readings(connection, row["id"], samples)
        for run, (name, processors, memory) in zip(now, held, strict=True):
            connection.execute(insert(schema.jobs).values(run))
            connection.execute(insert(schema.job_nodes).values(run_id=run["id"], node=name, processors=processors))
            use = {"memory": memory, "reason": None if memory else "no samples of n3", "until": NOW, "idle_bytes": 0.0}
            connection.execute(insert(schema.running_use).values(run_id=run["id"], **use))
        connection.execute(insert(schema.accounting_files), [log])
        make.follow(connection)
        add_event_counts(connection, {("batches_rejected", "not JSON"): 7, ("accounting_rejected_because", "cut"): 1})
        mark_all(connection)
        count_all(connection)
    count_marked(engine)


Used = dict[str, tuple[float, float | None, float | None]]


def ended(rng: random.Random) -> Iterator[tuple[dict[str, Any], Used]]:
    number = 0
    for day in range(DAYS):
        for user, habit in USERS.items():
            for of_day in range(habit.a_day):
                number += 1
                gib = 5 if user == "imp" and day >= DAYS // 2 else habit.gib
                bad = (user == "kim" and day >= BROKEN) or (user == "zoe" and 20 <= day < 30)
                off = 1 + (0.45 if bad else habit.off) * rng.uniform(0.8, 1.2) * rng.choice((-1, 1))
                bound = 0.9 if user == "ann" and number % 10 == 0 else 1.6 if habit.a_day > 1 else 1.2
                run = {"end": FIRST + day * DAY_S + 3600 * (2 + 5 * of_day) + rng.uniform(0, 600), "user": user}
                run |= {"cluster": "beta" if user == "fit" else "alpha", "name": f"app-{user[:4]}"}
                run |= {"requested_memory_bytes": gib * GIB, "requested_walltime_s": habit.limit_h * 3600}
                run |= {"account": "astro" if user in ("memo", "imp") else None}
                yield run, used(1.0, habit.busy, off, bound)


def array() -> Iterator[tuple[dict[str, Any], Used]]:
    for task in range(1, 7):
        run = {"job_id": f"4711_{task}", "user": "ari", "end": NOW - 7200 + task, "name": "array", "account": None}
        run |= {"cluster": "alpha", "requested_memory_bytes": 8 * GIB, "requested_walltime_s": 5400.0}
        yield run, used(task / 4, 0.5, 1.0, 1.6)


def used(gib: float, busy: float, off: float, bound: float) -> Used:
    """Use, forecast and bound of each processor."""
    memory = gib * GIB
    return {
        "memory": (memory, memory * off, memory * bound),
        "runtime": (3600.0, 3600.0, 4000.0),
        "cpu": (busy, busy, None),
    }


def run_row(number: int, **run: Any) -> dict[str, Any]:
    run |= {"id": number, "start": run["end"] - 3600, "submitted": run["end"] - 4000, "queue": "batch"}
    run["queued"] = run["start"] - 400 * (number % 3 + 1)
    run["queue"] = "long" if run["requested_walltime_s"] > 7200 else "batch"
    return make.job_row(run.pop("job_id", f"{number + 100}.s"), **run, processors=PROCESSORS, exit_status=0)


def running(number: int, hours_left: float, **changes: Any) -> dict[str, Any]:
    job = {"id": 10_000 + number, "user": f"u{number}", "start": NOW - 3600, "processors": 4, "profiled": False}
    job |= {"requested_memory_bytes": 8 * GIB, "requested_walltime_s": 3600 * (1 + hours_left)}
    return make.job_row(f"{number}.s", **job | changes)


def node(number: int, age_s: float, bps: float, load: float) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """One of 10 processors and 64 GiB, with a reading a minute for ten minutes."""
    last = NOW - age_s
    agent = {"version": "0.3.0" if number else "0.2.0", "batches_spooled": 3 * (number == 1), "batches_dropped": 0}
    row = {"id": number + 1, "cluster": "alpha", "name": f"n{number}", "boot_id": "b", "cpus": 10, "interfaces": "[]"}
    row |= {"memory_total_bytes": 64 * GIB, "agent": json.dumps(agent), "first_time": last - 600}
    row |= {"last_time": last, "received_at": last, "samples": 11, "wraps": 0, "resets": 0, "boots": 1, "missing": 0}
    samples = [
        (last - 60 * (10 - minute), int(bps * 60 * minute / 8), 0, load * 10 * 60 * minute, 16 * GIB, 0.0)
        for minute in range(11)
    ]
    return row, samples
