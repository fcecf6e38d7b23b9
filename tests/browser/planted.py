"""A site with answers planted in it: who wastes, who improved, what broke, what is silent, what failed."""

from __future__ import annotations

import random
from typing import Any

from sqlalchemy import Connection, insert

from jobsight_server.storage import schema
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.job_counts import count_all

from .conftest import add_node

DAY_S = 86400.0
DAYS = 60
GIB = 2**30
PROCESSORS = 4
BROKEN_DAYS_AGO = 14

# GiB requested of 4 used, share of the processors busy, hours of limit for one of run time, jobs a day.
USERS = {
    "memo": (40, 0.9, 1.5, 1),
    "idle": (6, 0.1, 1.5, 1),
    "slow": (6, 0.9, 24.0, 1),
    "imp": (20, 0.9, 1.5, 1),
    "kim": (5, 0.95, 1.1, 4),
    "fit": (5, 0.95, 1.1, 4),
}


def plant(connection: Connection, now: float) -> None:
    """Sixty days of jobs, four nodes of which n03 is silent for two hours, and what went wrong."""
    rng = random.Random(3)
    for number in range(1, 5):
        add_node(connection, number, "alpha", f"n{number:02}", now, rng)
    ids = iter(range(1, 10_000))
    for day in range(DAYS):
        for user, (gib, busy, limit_h, each) in USERS.items():
            for number in range(each):
                end = now - (DAYS - day) * DAY_S + 3600.0 * (2 + 5 * number) + rng.uniform(0, 600)
                asked = 5 if user == "imp" and day >= DAYS // 2 else gib
                row = {"requested_memory_bytes": asked * GIB, "requested_walltime_s": limit_h * 3600, "user": user}
                add_run(connection, next(ids), end, busy, off_by(user, day, rng), row)
    for task in range(1, 7):
        row = {"job_id": f"4711_{task}", "user": "ari", "requested_memory_bytes": 8 * GIB}
        add_run(connection, next(ids), now - 7200 + task, 0.5, 1.0, row, used_gib=task)
    for number in range(5):  # a node that loses what runs on it
        lost: dict[str, Any] = {"user": "fit", "job_id": f"lost{number}", "state": "requeued", "profiled": False}
        add_run(connection, next(ids), now - DAY_S * (number + 1), None, 1.0, lost, node="n02")
    for number, (node, left_s) in enumerate((("n01", 9 * 3600.0), ("n02", 2400.0), ("n04", 5 * 3600.0))):
        runs: dict[str, Any] = {"user": "fit", "job_id": f"runs{number}", "state": "running", "profiled": False}
        runs |= {"requested_walltime_s": 3600.0 + left_s}
        add_run(connection, next(ids), None, None, 1.0, runs, node=node, start=now - 3600.0)
    add_event_counts(connection, {("batches_rejected", "the time runs backwards"): 7, ("batches_received", ""): 900})
    reject = {"cluster": "alpha", "path": "20261120", "line": 7, "reason": "no key=value", "text": "x"}
    connection.execute(insert(schema.accounting_rejects), [reject])
    add_event_counts(connection, {("accounting_rejected_because", "no key=value"): 1})
    log = {"cluster": "alpha", "path": "/log", "head_digest": "", "offset": 1, "lines": 1, "updated": now - 90}
    connection.execute(insert(schema.accounting_files), [log])
    count_all(connection)


def off_by(user: str, day: int, rng: random.Random) -> float:
    """What a forecast of memory is times the use: kim's broke."""
    off = 0.5 if user == "kim" and day >= DAYS - BROKEN_DAYS_AGO else 0.06
    return 1 + off * rng.uniform(0.8, 1.2) * rng.choice((-1, 1))


def add_run(
    connection: Connection,
    run_id: int,
    end: float | None,
    busy: float | None,
    off: float,
    changes: dict[str, Any],
    used_gib: float = 4,
    node: str = "n01",
    start: float | None = None,
) -> None:
    """A run of an hour on four processors of a node, with what it used if ``busy`` is the share of them."""
    begin = (end or 0.0) - 3600 if start is None else start
    row: dict[str, Any] = {column.name: None for column in schema.jobs.c}
    row |= {"id": run_id, "cluster": "alpha", "job_id": f"{run_id}.s", "start": begin, "end": end, "state": "ended"}
    row |= {"user": "fit", "name": f"app-{changes['user']}", "queue": "batch", "processors": PROCESSORS}
    row |= {"recorded_at": end or begin, "profiled": True, "submitted": begin - 60, "queued": begin - 60}
    row |= {"exit_status": 0 if changes.get("state") is None else None, "requested_walltime_s": 5400.0, **changes}
    connection.execute(insert(schema.jobs), [row])
    connection.execute(insert(schema.job_nodes), [{"run_id": run_id, "node": node, "processors": PROCESSORS}])
    if busy is None:
        return
    memory = used_gib * GIB / PROCESSORS
    used = {
        "memory": (memory, memory * off, 1.2 * memory),
        "runtime": (3600.0, 3600.0, 4000.0),
        "cpu": (busy, busy, None),
    }
    profiles = [
        {"run_id": run_id, "metric": metric, "learn_seq": run_id, "value": value, "forecast": forecast, "bound": bound}
        | {"source": "accounting", "attribution": "exclusive"}
        for metric, (value, forecast, bound) in used.items()
    ]
    connection.execute(insert(schema.profiles), profiles)
