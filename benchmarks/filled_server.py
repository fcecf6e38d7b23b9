"""A server with a database of many users, what is sent to it, and the cost of its answers."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from sqlalchemy import Connection, insert

from jobsight_server.storage import schema

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))
from site_run import JOBSIGHT, Site, free_address, wait_until  # noqa: F401  # for all benchmarks


def fill(connection: Connection, users: int, jobs: int) -> None:
    """Store this many finished jobs of each user, with their use."""
    rng = random.Random(1)
    typical = {"bandwidth": 1e7, "memory": 2e9, "cpu": 0.9, "runtime": 3600.0}
    for user in range(users):
        level = {metric: value * rng.lognormvariate(0, 1) for metric, value in typical.items()}
        first = user * jobs + 1
        runs, found = [], []
        for run in range(first, first + jobs):
            end = 1.7e9 + run
            runs.append(
                {"id": run, "cluster": "alpha", "job_id": f"{run}.server", "start": end - 3600, "end": end}
                | {"state": "ended", "user": f"user{user:04}", "processors": 4, "recorded_at": end, "profiled": True}
            )
            found += [
                {"run_id": run, "metric": metric, "learn_seq": run, "value": level[metric] * rng.lognormvariate(0, 0.3)}
                | {"source": "samples", "attribution": "exclusive"}
                for metric in level
            ]
        connection.execute(insert(schema.jobs), runs)
        connection.execute(insert(schema.profiles), found)


def family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cpu_seconds(pid: int) -> float:
    """Return user and system seconds of a process and its descendants."""
    return sum(sum(one.cpu_times()[:2]) for one in family(pid))


def batch(
    cluster: str, node: str, sequence: int, time: Sequence[float], columns: dict[str, list[float]], cards: int = 1
) -> bytes:
    """Write readings of a node as its agent does, with the same bytes on each of its network cards."""
    return json.dumps(
        {
            "format": 1,
            "cluster": cluster,
            "node": node,
            "boot_id": "b",
            "sequence": sequence,
            "cpus": 16,
            "interfaces": [
                {"name": f"eth{k}", "kind": "ethernet", "width_bits": 64, "speed_bps": 10**10} for k in range(cards)
            ],
            "time": list(time),
            **{name: [column] * cards if name.startswith("bytes") else column for name, column in columns.items()},
        }
    ).encode()
