"""How fast the database grows: bytes per reading in an SQLite file, and the table of docs/operate/operations.md.

    python benchmarks/growth.py [--nodes 20] [--hours 24] [--cards 1] [--jobs 0]

Batches as agents send them, in one boot, are stored by the server's own store; the file is measured
once it is at rest. A node has `--cards` of Ethernet; `--jobs` adds the cgroups of so many jobs to every reading.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from jobsight_agent.config import OPTIONS
from jobsight_server.ingest.merging import AFTER_S
from jobsight_server.ingest.packing import KEPT_S
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.submission import Submission
from jobsight_server.ingest.wire import AgentReport, Batch, BatchInterface, BatchJob
from jobsight_server.storage.engine import open_engine, refresh_statistics, used_bytes
from jobsight_server.storage.migrate import upgrade
from jobsight_server.storage.samples import CHUNK_S

DEFAULT = {option.name: option.default for option in OPTIONS}
BEGIN, GROUP = 1.7e9, 64
# Interval and batch_age_s, in seconds: the agents' defaults first.
CHOICES = (
    (float(DEFAULT["interval"]), float(DEFAULT["batch_age_s"])),
    (10.0, 90.0),
    (30.0, 30.0),
    (30.0, 90.0),
    (60.0, 30.0),
    (60.0, 90.0),
)
SITES = ((50, 90), (300, 30), (300, 90), (1000, 90))


def batches(nodes: int, hours: float, interval_s: float, readings: int, cards: int, jobs: int) -> Iterator[Batch]:
    """Of all nodes, in the order in which they would arrive."""
    rng = random.Random(1)
    interfaces = [BatchInterface(f"eno{number}", "ethernet", 64, 1e10) for number in range(cards)]
    boots = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(nodes)]
    totals = [[rng.randrange(10**13) for _ in range(2 * cards)] for _ in range(nodes)]
    busy_s = [0.0] * nodes
    count = int(hours * 3600 / interval_s / readings)
    for sequence in range(count + 1):
        # The newest readings stay rows: of all that are measured, the last batch is that much later.
        later_s = CHUNK_S + KEPT_S if sequence == count else 0.0
        for node in range(nodes):
            begin = BEGIN + node * 0.37 + sequence * readings * interval_s + later_s
            columns = [[total + rng.randrange(10**9) * i for i in range(readings)] for total in totals[node]]
            totals[node] = [column[-1] + rng.randrange(10**9) for column in columns]
            cpu_s = [round(busy_s[node] + 14.3 * interval_s * i, 2) for i in range(readings)]
            busy_s[node] = cpu_s[-1] + 14.3 * interval_s
            memory = [rng.randrange(2**36) // 4096 * 4096 for _ in range(readings)]
            cgroups = [
                BatchJob(f"{4711000 + number}", list(range(readings)), cpu_s, memory, [0] * readings, memory, memory)
                for number in range(jobs)
            ]
            yield Batch(
                format=2, cluster="alpha", node=f"n{node:04d}", boot_id=boots[node], sequence=sequence, cpus=16,
                interfaces=interfaces, time=[round(begin + interval_s * i, 3) for i in range(readings)],
                bytes_in=columns[:cards], bytes_out=columns[cards:], memory_used_bytes=memory, cpu_busy_s=cpu_s,
                memory_total_bytes=2**37, marks=[], agent=AgentReport(version="0.2"), jobs=cgroups,
            )  # fmt: skip


def bytes_per_reading(
    nodes: int, hours: float, interval_s: float, batch_age_s: float, cards: int, jobs: int
) -> tuple[float, float]:
    """Of a file of this many nodes and hours: at first, and when its readings and batches share rows."""
    now = BEGIN
    readings = max(1, min(int(DEFAULT["batch"]), round(batch_age_s / interval_s)))
    stored = 0
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"sqlite:///{Path(folder) / 'growth.db'}")
        upgrade(engine)
        empty = used_bytes(engine, ())
        store, group = SampleStore(engine, 1e10, 2**28, clock=lambda: now), []
        for batch in batches(nodes, hours, interval_s, readings, cards, jobs):
            group.append(Submission(batch, random.getrandbits(32), batch.time[-1] + 1.0))
            if len(group) == GROUP:
                stored += sum(outcome.samples for outcome in store.apply(group))
                group.clear()
        stored += sum(outcome.samples for outcome in store.apply(group))
        sizes = []
        for now in (BEGIN, BEGIN + hours * 3600.0 + CHUNK_S + KEPT_S + AFTER_S):  # noqa: B007 - the store's clock
            while store.merger.step():
                pass
            refresh_statistics(engine)
            sizes.append(used_bytes(engine, ()) - empty)
        engine.dispose()
    return sizes[0] / stored, sizes[1] / stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--cards", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=0, help="jobs on each node whose cgroup is read")
    args = parser.parse_args()
    sites = " | ".join(f"{nodes:,} nodes, {days} days" for nodes, days in SITES)
    print(f"| `interval` | `batch_age_s` | bytes per reading | after a day | {sites} |")
    print("|---|---|---|---|" + "---|" * len(SITES))
    for interval_s, batch_age_s in CHOICES:
        new, old = bytes_per_reading(args.nodes, args.hours, interval_s, batch_age_s, args.cards, args.jobs)
        bytes_of_node = [(AFTER_S * new + (days * 86400.0 - AFTER_S) * old) / interval_s for _, days in SITES]
        total = [f"{nodes * size / 1e9:.3g} GB" for (nodes, _), size in zip(SITES, bytes_of_node, strict=True)]
        print(f"| {interval_s:g} s | {batch_age_s:g} s | {new:.0f} | {old:.0f} | {' | '.join(total)} |", flush=True)


if __name__ == "__main__":
    main()
