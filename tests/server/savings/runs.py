"""Ended runs, written like accounting's, and learned."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, insert
from tests import make

from jobsight_server.ground.amounts import DAY_S
from jobsight_server.ground.job_names import application
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.storage.schema import jobs

NOON = 1_700_049_600.0  # 2023-11-15
GIB = 2**30


def ended(number: int, **changes: Any) -> dict[str, Any]:
    """A run of an hour on two processors that requested 8 GiB and two hours, ended but not profiled."""
    name = changes.get("name", "fluid_7")
    row = {"start": NOON, "end": NOON + 3600, "user": "ann", "name": name, "queue": "batch", "processors": 2}
    row |= {"application": None if name is None else application(name), "profiled": False}
    row |= {"requested_memory_bytes": 8 * GIB, "requested_walltime_s": 7200.0, "used_memory_bytes": 2 * GIB}
    return make.job_row(f"{number}.s", **row | {"submitted": changes.get("start", NOON) - 60} | changes)


def write(engine: Engine, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Store them; return their ids."""
    with engine.begin() as connection:
        return [int(connection.execute(insert(jobs).values(row).returning(jobs.c.id)).scalar_one()) for row in rows]


def run(engine: Engine, number: int, **changes: Any) -> int:
    """Store one; return its id."""
    return write(engine, [ended(number, **changes)])[0]


def many(engine: Engine, count: int, seed: int = 1) -> list[int]:
    """Runs of some users over some months, a few without one thing or the other."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        start = NOON + rng.randrange(100) * DAY_S / 2
        found.append(
            ended(
                number,
                start=start,
                end=start + rng.randrange(10, 20_000),
                user=rng.choice(["ann", "bob", "eve"]),
                cluster=rng.choice(["alpha", "beta"]),
                name=rng.choice(["fluid_1", "fluid_2", "mesh", None]),
                queue=rng.choice(["batch", None]),
                account=rng.choice(["astro", None]),
                used_cpu_s=rng.choice([None, 1.0, 900.0, 30_000.0]),
                requested_memory_bytes=rng.choice([None, *range(10**8, 10**10, 10**9)]),
                used_memory_bytes=rng.choice([None, *range(10**8, 10**9, 10**8)]),
                requested_walltime_s=rng.choice([None, 600.0, 7200.0]),
            )
        )
    return write(engine, found)


def learn(engine: Engine, **more: Any) -> int:
    return profile_finished(engine, 0.0, lambda: 1e10, LearningOptions(**more))
