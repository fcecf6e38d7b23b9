"""A small site written straight into the tables: nodes with readings, marks, and runs of jobs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, case, delete, insert, select, update
from tests import make

from jobsight_predictor.question import Question
from jobsight_server.forecasts.events import LearnedUntil, write_learned_until
from jobsight_server.forecasts.request import job_question
from jobsight_server.profiler.usage import Missing
from jobsight_server.storage.job_columns import JobColumns, dump_columns
from jobsight_server.storage.job_counts import recounted
from jobsight_server.storage.schema import (
    job_samples,
    late_batches,
    learned_until,
    marks,
    model_state,
    nodes,
    pending_at_start,
    pending_forecasts,
    profiles,
    series,
)

Planned = dict[str, Any]

LATE_S = 300.0
# Two more where the node has InfiniBand: of the bytes in and out what passed it.
Row = tuple[Any, ...]


class Site:
    """Writes rows like ingest and accounting."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def node(self, name: str, rows: Sequence[Row], cluster: str = "alpha") -> int:
        """A node with readings ``(time, in, out, cpu, memory, gap)``."""
        span = {"first_time": rows[0][0], "last_time": rows[-1][0]} if rows else {}
        with self.engine.begin() as connection:
            node_id = make.node(connection, name, cluster=cluster, boot_id="boot", cpus=16, **span)
            self._store(connection, node_id, rows, boot_id="")
        return node_id

    @staticmethod
    def _store(connection: Connection, node_id: int, rows: Sequence[Row], **columns: Any) -> None:
        for begin in range(0, len(rows), 100):
            make.readings(connection, node_id, rows[begin : begin + 100], **columns)

    def more(self, node_id: int, rows: Sequence[Row]) -> None:
        """Further readings of a node."""
        with self.engine.begin() as connection:
            self._store(connection, node_id, rows, boot_id="")

    def mark(self, node_id: int, job_id: str, event: str, time: float) -> None:
        make.execute(self.engine, insert(marks).values(node_id=node_id, job_id=job_id, event=event, time=time))

    def job_samples(
        self,
        node_id: int,
        job_id: str,
        rows: Sequence[tuple[float, float | None, int | None, int | None]],
        peak_bytes: int | None = None,
    ) -> None:
        """Readings of the job's cgroup: ``(time, cpu_s, used, cache)``, in batches of three."""
        values = []
        for begin in range(0, len(rows), 3):
            time, cpu_s, used, cache = (list(column) for column in zip(*rows[begin : begin + 3], strict=True))
            readings = dump_columns(JobColumns(time, cpu_s, used, cache))
            times = {"first_time": time[0], "last_time": time[-1], "samples": len(time)}
            values.append(
                {"node_id": node_id, "job_id": job_id, **times, "peak_bytes": peak_bytes, "readings": readings}
            )
        make.execute(self.engine, insert(job_samples), values)

    def batch(self, node_id: int, sequence: int, first: float, last: float) -> None:
        with self.engine.begin() as connection:
            make.readings(connection, node_id, [], boot_id="boot", sequence=sequence, first_time=first, last_time=last)

    def arrive(self, node_id: int, sequence: int, rows: Sequence[Row], received_at: float = 0.0) -> None:
        """Further readings of a node, as a batch that was received then."""
        newest = case((nodes.c.last_time > rows[-1][0], nodes.c.last_time), else_=rows[-1][0])
        with self.engine.begin() as connection:
            make.readings(connection, node_id, rows, boot_id="boot", sequence=sequence, received_at=received_at)
            if received_at - rows[0][0] >= LATE_S:
                span = {"first_time": rows[0][0], "last_time": rows[-1][0], "stored_at": received_at}
                connection.execute(insert(late_batches).values(node_id=node_id, **span))
            connection.execute(
                update(nodes).where(nodes.c.id == node_id).values(last_time=newest, received_at=received_at)
            )

    def run(
        self, job_id: str, start: float, end: float | None, on: Mapping[str, int] | None = None, **changes: Any
    ) -> int:
        """A run on ``on`` (node -> processors, none by default)."""
        row = {"start": start, "end": end, "user": "u1", "processors": sum((on or {}).values()), "recorded_at": 0.0}
        with self.engine.begin() as connection, recounted(connection, []) as new:
            run_id = make.job(connection, job_id, on=on, **row | {"profiled": False} | changes)
            new.append(run_id)
        return run_id

    def profile(self, run_id: int) -> dict[str, Any]:
        """Metric -> its row, for a run that was profiled; empty before."""
        rows = make.rows(self.engine, select(profiles).where(profiles.c.run_id == run_id))
        return {row.metric: row for row in rows}

    def model(self) -> list[Any]:
        """The learned state: everything that retraining replaces."""
        return [self.dump(table) for table in (series, model_state, pending_forecasts, pending_at_start)]

    def learned_counts(self) -> dict[tuple[str, str], int]:
        """The number of values learned, by user and metric."""
        return {(row[1], row[2]): row[3] for row in self.dump(series)}

    def forget_model(self) -> None:
        with self.engine.begin() as connection:
            for table in (series, model_state, pending_forecasts, pending_at_start, learned_until):
                connection.execute(delete(table))
            write_learned_until(connection, LearnedUntil(0, 0))

    @staticmethod
    def question(job: Planned) -> Question:
        """The question that describes a planned job."""
        names = ("user", "name", "queue", "processors")
        return job_question(*(job[name] for name in names), job["requested_memory_bytes"], job["requested_walltime_s"])

    def dump(self, table: Any) -> list[tuple[Any, ...]]:
        return make.rows(self.engine, select(table).order_by(*table.primary_key.columns))


def reason(found: object) -> str:
    """Why node n1 has no value."""
    assert isinstance(found, Missing)
    return Missing(found.kind, "n1").reason


def planned_jobs(seed: int, count: int, failing: bool = False) -> list[Planned]:
    """Overlapping jobs of few users that queue, run and end, often at the same instants."""
    rng = random.Random(seed)
    planned = []
    for number in range(count):
        submitted = float(rng.randrange(0, 2000, 10))
        start = submitted + rng.choice([0.0, 10.0, 300.0])
        given = {
            "user": rng.choice(["a", "b", 'c "\u00fc']),
            "name": rng.choice([None, "run_1", "run_2", "x/cfd.sh"]),
            "queue": rng.choice([None, "q"]),
            "processors": rng.choice([1, 8]),
            "requested_memory_bytes": rng.choice([None, 2**30]),
            "requested_walltime_s": rng.choice([None, 3600.0]),
        }
        end = start + rng.choice([10.0, 20.0, 20.0, rng.randrange(1, 900)])
        if failing:
            given["failure"] = rng.choice([None, None, None, "memory", "time"])
        planned.append({"job_id": f"{number}.s", "submitted": submitted, "start": start, "end": end, **given})
    return planned


@pytest.fixture
def plan() -> Callable[..., list[Planned]]:
    """``planned_jobs``, whose entries ``site.run`` takes."""
    return planned_jobs


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


@pytest.fixture
def sqlite_site(sqlite_engine: Engine) -> Site:
    return Site(sqlite_engine)
