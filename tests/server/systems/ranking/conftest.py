"""Machines whose agents report, and jobs that run on them: rows as the writer and the accounting log make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import Engine, select, update
from tests import make

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import AgentReport, Batch, BatchMachine, Submission
from jobsight_server.storage.readings.sent import BatchInterface
from jobsight_server.storage.schema import jobs
from jobsight_server.systems.ranking.board import MachineBoard, MachineRanks, RankQuestion, rank_machines
from jobsight_server.systems.ranking.periodic import update_machines
from jobsight_server.systems.ranking.tables import machine_outcomes, machine_sessions, machines

START = 1_700_000_000.0
HOUR_S = 3600.0


@dataclass
class Farm:
    """A site of machines with a manual clock; everything is received now."""

    engine: Engine
    now: float = START
    settings: SessionSettings = field(default_factory=SessionSettings)
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)
    jobs: int = 0

    def report(
        self,
        name: str,
        since: float,
        until: float,
        boot: str = "boot-1",
        *,
        cluster: str = "alpha",
        sequence: int | None = None,
        **machine: Any,
    ) -> None:
        """A batch with readings from ``since`` to ``until``."""
        number = self.sequences.get((name, boot), 0) + 1 if sequence is None else sequence
        self.sequences[name, boot] = max(number, self.sequences.get((name, boot), 0))
        times = [since, until] if until > since else [since]
        counted = [[*range(len(times))]]
        batch = Batch(
            format=1, cluster=cluster, node=name, boot_id=boot, sequence=number, cpus=16, memory_total_bytes=64 * 2**30,
            interfaces=[BatchInterface("eth0", "ethernet", 64, 1e9)], agent=AgentReport(), time=times, bytes_in=counted,
            bytes_out=counted, memory_used_bytes=[0] * len(times), cpu_busy_s=[0.0] * len(times),
            machine=BatchMachine(**{"benchmark_flops": 5e7, "cores": 16, "system": "linux-x86_64", **machine}),
        )  # fmt: skip
        SampleStore(self.engine, 1e10, 10**6).apply([Submission(batch, number, self.now)])

    def up(self, name: str, hours: float, boot: str = "boot-1", **more: Any) -> None:
        """Half-hour batches over the last ``hours``, up to now."""
        begin = self.now - hours * HOUR_S
        for number in range(int(hours * 2)):
            self.report(name, begin + number * 1800.0, begin + (number + 1) * 1800.0 - 60.0, boot, **more)

    def job(
        self,
        nodes: Sequence[str],
        *,
        start: float,
        end: float | None,
        exit_status: int | None = 0,
        failure: str | None = None,
        state: str = "ended",
        user: str = "ada",
        name: str = "cfd",
        cluster: str = "alpha",
    ) -> int:
        """A run on ``nodes``, recorded now."""
        self.jobs += 1
        row = {"cluster": cluster, "user": user, "name": name, "start": start, "end": end, "recorded_at": self.now}
        row |= {"state": state if end is not None else "running", "exit_status": exit_status, "failure": failure}
        with self.engine.begin() as connection:
            on = dict.fromkeys(nodes, 16)
            return make.job(connection, f"{self.jobs}.server", on=on, profiled=True, **row)

    def finish(self, number: int, end: float, state: str = "ended", exit_status: int | None = 0) -> None:
        """The end of a running job is recorded now."""
        values = {"end": end, "state": state, "exit_status": exit_status, "recorded_at": self.now}
        make.execute(self.engine, update(jobs).where(jobs.c.id == number).values(values))

    def round(self, after_s: float = 5.0) -> None:
        """A round of the background, a little later than now."""
        self.now += after_s
        update_machines(self.engine, self.settings, lambda: self.now)

    def row(self, name: str, cluster: str = "alpha") -> Any:
        with self.engine.connect() as connection:
            query = select(machines).where(machines.c.name == name, machines.c.cluster == cluster)
            return connection.execute(query).one()

    def sessions(self, name: str) -> list[tuple[float, float, str]]:
        """Begin, end and cause of ended sessions."""
        with self.engine.connect() as connection:
            query = select(machine_sessions.c.start, machine_sessions.c.end, machine_sessions.c.ending)
            number = self.row(name).id
            return [tuple(row) for row in connection.execute(query.where(machine_sessions.c.machine_id == number))]

    def outcomes_of(self, name: str, cluster: str = "alpha") -> list[str]:
        with self.engine.connect() as connection:
            number = self.row(name, cluster).id
            query = select(machine_outcomes.c.outcome).where(machine_outcomes.c.machine_id == number)
            return list(connection.scalars(query.order_by(machine_outcomes.c.end)))

    def ranks(self, hours: float = 6.0, method: Any = "survival", **more: Any) -> MachineRanks:
        question = replace(RankQuestion(hours * HOUR_S, method), **more)
        with self.engine.connect() as connection:
            return rank_machines(MachineBoard().columns(connection), question, self.now)

    def order(self, hours: float = 6.0, method: Any = "survival", **more: Any) -> list[str]:
        """The names of the ranked machines, best first."""
        return list(self.scores(hours, method, **more))

    def scores(self, hours: float = 6.0, method: Any = "survival", **more: Any) -> dict[str, float]:
        """The ranked machines, best first."""
        found = self.ranks(hours, method, **more)
        return {found.columns.names[number][1]: float(found.ranking.score[number]) for number in found.ranking.order}


@pytest.fixture
def farm(engine: Engine) -> Farm:
    return Farm(engine)
