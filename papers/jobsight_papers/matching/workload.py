"""The workload of the matching experiment: a fixed repository of four types, and random jobs that depend on them.

Source: our own, since the paper gives none, but its sizes: 5 compute servers, 5 file systems, 4 databases and 5
networks. A job has a dependency on a compute server, and with probability 1/2 one on each other type. Amounts are
uniform: 1 to 8 slots and 1 to 12 GiB, 10 to 800 GB, 1 to 60 connections, 50 to 3,000 Mb/s. Instances vary eightfold;
capacities are scaled so that a batch of ``jobs_at_load`` asks for ``load`` times all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

PUBLISHED = {"compute": 5, "filesystem": 5, "database": 4, "network": 5}
LOAD, JOBS_AT_LOAD = 1.3, 30
_AMOUNTS: dict[str, dict[str, tuple[int, int]]] = {
    "compute": {"slots": (1, 8), "memory_gib": (1, 12)},
    "filesystem": {"capacity_gb": (10, 800)},
    "database": {"connections": (1, 60)},
    "network": {"bandwidth_mbps": (50, 3_000)},
}
_LOCATIONS = ("hall-1", "hall-2", "hall-3")
_VALUES = {
    "compute": ("os", ("linux", "aix")),
    "filesystem": ("fs", ("nfs", "gpfs")),
    "database": ("engine", ("db2", "postgresql")),
    "network": ("domain", ("campus", "grid")),
}
_PREFERENCES = {"compute": "speed", "filesystem": "size_gb", "database": "speed", "network": "-latency_ms"}


@dataclass(frozen=True, slots=True)
class MatchingWorkload:
    """``predicates`` of each dependency; ``dependencies`` of a job, None for 1 to 4 as published."""

    jobs: int = JOBS_AT_LOAD
    instances: Mapping[str, int] | None = None
    load: float = LOAD
    jobs_at_load: int | None = JOBS_AT_LOAD
    predicates: int = 2
    dependencies: int | None = None
    seed: int = 0


def repository(workload: MatchingWorkload) -> list[dict[str, Any]]:
    """Return the resources, as ``jobsight match`` reads them; equal for all batches of a seed."""
    rng = np.random.default_rng((workload.seed, 1))
    found = []
    jobs = workload.jobs_at_load or workload.jobs
    for of_type, count in (workload.instances or PUBLISHED).items():
        weights = 2.0 ** rng.uniform(0.0, 3.0, count)
        weights /= weights.sum()
        wanted = jobs * _dependencies_of_type(workload, of_type) / workload.load
        values = _values(of_type, count, rng)
        for index in range(count):
            capacities = {
                kind: {"total": max(round(wanted * (low + high) / 2.0 * weights[index]), high), "used": 0}
                for kind, (low, high) in _AMOUNTS[of_type].items()
            }
            found.append(
                {
                    "name": f"{of_type}-{index + 1}",
                    "type": of_type,
                    "attributes": {name: column[index] for name, column in values.items()},
                    "capacities": capacities,
                }
            )
    return found


def batch(workload: MatchingWorkload, number: int) -> list[dict[str, Any]]:
    """Return the jobs of batch ``number``, as ``jobsight match`` reads them."""
    rng = np.random.default_rng((workload.seed, 2, number))
    return [_job(workload, f"job-{number}-{index + 1}", rng) for index in range(workload.jobs)]


def matching_file(workload: MatchingWorkload, number: int = 0, objective: str = "throughput") -> dict[str, Any]:
    """Return a whole batch with its repository: the content of a file for ``jobsight match``."""
    return {"resources": repository(workload), "jobs": batch(workload, number), "objectives": [objective]}


def _dependencies_of_type(workload: MatchingWorkload, of_type: str) -> float:
    if workload.dependencies is not None:
        return workload.dependencies / len(PUBLISHED)
    return 1.0 if of_type == "compute" else 0.5


def _values(of_type: str, count: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    name, choices = _VALUES[of_type]
    order = rng.permutation(count)
    return {
        "location": [_LOCATIONS[place % len(_LOCATIONS)] for place in order],
        name: [choices[place % len(choices)] for place in rng.permutation(count)],
        "speed": rng.integers(10, 41, count).tolist(),
        "latency_ms": rng.integers(1, 21, count).tolist(),
        "size_gb": rng.integers(100, 4_001, count).tolist(),
    }


def _job(workload: MatchingWorkload, name: str, rng: np.random.Generator) -> dict[str, Any]:
    types = list(PUBLISHED)
    if workload.dependencies is None:
        chosen = [of_type for of_type in types if of_type == "compute" or rng.random() < 0.5]
    else:
        chosen = [types[index % len(types)] for index in range(workload.dependencies)]
    return {
        "name": name,
        "class": str(rng.choice(["batch", "interactive"])),
        "priority": int(rng.integers(1, 11)),
        "dependencies": [_dependency(workload, index, of_type, rng) for index, of_type in enumerate(chosen)],
    }


def _dependency(workload: MatchingWorkload, index: int, of_type: str, rng: np.random.Generator) -> dict[str, Any]:
    amounts = {kind: int(rng.integers(low, high + 1)) for kind, (low, high) in _AMOUNTS[of_type].items()}
    return {
        "name": f"{of_type}-{index + 1}",
        "type": of_type,
        "where": " and ".join(_predicate(of_type, position, rng) for position in range(workload.predicates)),
        "amounts": amounts,
        "prefer": _PREFERENCES[of_type],
    }


def _predicate(of_type: str, position: int, rng: np.random.Generator) -> str:
    """Draw a predicate that most instances satisfy, so that several together still leave some."""
    name, choices = _VALUES[of_type]
    match position % 4:
        case 0:
            return f"speed >= {int(rng.integers(5, 21))}"
        case 1:
            return f"location != '{rng.choice(_LOCATIONS)}'" if rng.random() < 0.5 else f"{name} in {list(choices)}"
        case 2:
            return f"latency_ms <= {int(rng.integers(14, 31))}"
        case _:
            return f"size_gb / speed >= {int(rng.integers(1, 5))}"
