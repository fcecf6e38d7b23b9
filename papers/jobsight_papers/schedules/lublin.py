"""Synthetic workloads (Lublin and Feitelson 2003).

Sizes are two-stage uniform in their logarithm, with serial jobs and powers of two; the logarithm of the run time is
hyper-gamma, longer for larger jobs; the logarithm of the time between submissions is gamma, stretched by the time of
day. The parameters are the published ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats
from jobsight_scheduler.workload.swf import FIELDS, UNKNOWN, Trace

BUCKET_S = 1800.0
BUCKETS = 48  # half hours of a day
DAY_BEGINS = 11  # the bucket in which the model's day begins
_MOST = 10_000_000  # jobs, and processors
LONGEST_RUN, LONGEST_GAP = 12.0, 13.0  # natural logarithms of seconds: 45 h, 5 d


@dataclass(frozen=True, slots=True)
class LublinParameters:
    """Parameters of one kind of jobs. ``low``, ``medium`` and ``high`` are logarithms to base 2 of processors;
    ``medium`` and ``high`` lie that far below the logarithm of the machine's size.
    """

    serial: float
    power_of_two: float
    low: float
    medium: float
    high: float
    first_stage: float
    run_1: tuple[float, float]
    run_2: tuple[float, float]
    share_1: tuple[float, float]
    gap: tuple[float, float]
    daily: tuple[float, float]
    all_day: float


BATCH = LublinParameters(
    serial=0.2927,
    power_of_two=0.6686,
    low=1.2,
    medium=2.0,
    high=0.0,
    first_stage=0.875,
    run_1=(6.57, 0.823),
    run_2=(639.1, 0.0156),
    share_1=(-0.003, 0.6986),
    gap=(6.0415, 0.8531),
    daily=(6.1271, 5.2740),
    all_day=1.0519,
)
INTERACTIVE = LublinParameters(
    serial=0.1541,
    power_of_two=0.625,
    low=1.0,
    medium=4.0,
    high=1.5,
    first_stage=0.705,
    run_1=(3.8351, 0.6605),
    run_2=(7.073, 0.6856),
    share_1=(-0.0118, 0.9156),
    gap=(6.5510, 0.6621),
    daily=(8.9186, 3.6680),
    all_day=0.9797,
)


def lublin(jobs: int, capacity: int, seed: int) -> Trace:
    """Return ``jobs`` batch and interactive jobs for a machine of ``capacity`` processors, beginning at midnight.

    Queue 0 is interactive, 1 batch. The model knows no requested times and no users: those fields are unknown.

    Raises:
        ValueError: fewer than 1 job, fewer processors than 8, the model's smallest machine, or too many.
    """
    if not 1 <= jobs <= _MOST or not 8 <= capacity <= _MOST:
        raise ValueError(
            f"{jobs} jobs on {capacity} processors: the model takes 1 to {_MOST:,} jobs and 8 to {_MOST:,} processors"
        )
    rng = np.random.default_rng(seed)
    kinds = []
    for queue, kind in ((0.0, INTERACTIVE), (1.0, BATCH)):
        nodes = sizes(kind, jobs, capacity, rng)
        kinds.append(np.stack([submissions(kind, jobs, rng), run_times(kind, nodes, rng), nodes, np.full(jobs, queue)]))
    both = np.concatenate(kinds, axis=1)
    both = both[:, np.argsort(both[0], kind="stable")[:jobs]]
    columns = {name: np.full(jobs, UNKNOWN) for name in FIELDS}
    columns |= {"job": np.arange(1.0, jobs + 1.0), "status": np.ones(jobs)}
    columns |= {"submit_s": np.floor(both[0]), "run_s": np.floor(both[1]), "queue": both[3]}
    columns |= {"processors": both[2], "requested_processors": both[2].copy()}
    header = [
        "Version: 2.2",
        "Computer: synthetic, model of Lublin and Feitelson (2003)",
        f"Note: seed {seed}",
        f"MaxJobs: {jobs}",
        f"MaxProcs: {capacity}",
        "Queue: 0 interactive",
        "Queue: 1 batch",
    ]
    return Trace(columns, header)


def sizes(kind: LublinParameters, jobs: int, capacity: int, rng: np.random.Generator) -> Floats:
    """Draw processors, shape (jobs,)."""
    largest = math.log2(capacity)
    high = max(kind.low, largest - kind.high)
    medium = min(max(kind.low, largest - kind.medium), high)
    first = rng.random(jobs) <= kind.first_stage
    power = np.where(first, rng.uniform(kind.low, medium, jobs), rng.uniform(medium, high, jobs))
    which = rng.random(jobs)
    power = np.where(which <= kind.serial + kind.power_of_two, np.floor(power + 0.5), power)
    nodes = np.where(which <= kind.serial, 1.0, np.floor(2.0**power + 0.5))
    fitting: Floats = np.minimum(nodes, float(capacity))
    return fitting


def run_times(kind: LublinParameters, nodes: Floats, rng: np.random.Generator) -> Floats:
    """Draw run times in seconds, at least 1, for jobs on these ``nodes``; same shape."""
    share = np.clip(kind.share_1[0] * nodes + kind.share_1[1], 0.0, 1.0)

    def draw(chosen: NDArray[np.intp]) -> Floats:
        first = rng.random(len(chosen)) <= share[chosen]
        return np.where(first, rng.gamma(*kind.run_1, len(chosen)), rng.gamma(*kind.run_2, len(chosen)))

    seconds: Floats = np.exp(_below(LONGEST_RUN, len(nodes), draw))
    return seconds


def submissions(kind: LublinParameters, jobs: int, rng: np.random.Generator) -> Floats:
    """Draw seconds since midnight, ascending, shape (jobs,): gaps of busy hours, spread by each half hour's share."""
    shape, scale = kind.gap[0] * kind.all_day, kind.gap[1]  # over the whole day instead of its busiest hours
    gaps = np.exp(_below(LONGEST_GAP, jobs, lambda chosen: rng.gamma(shape, scale, len(chosen))))
    points = np.cumsum(gaps / BUCKET_S)
    edges = np.concatenate([[0.0], np.cumsum(daily_cycle(kind) * BUCKETS)])
    days, rest = np.divmod(points, edges[-1])
    seconds: Floats = (days * BUCKETS + np.interp(rest, edges, np.arange(BUCKETS + 1.0))) * BUCKET_S
    return seconds


def daily_cycle(kind: LublinParameters) -> Floats:
    """Return the share of a day's jobs in each half hour from midnight on, shape (48,)."""
    from scipy.special import gammainc  # slow to import, and only generating a workload needs it

    shape, scale = kind.daily
    edges = gammainc(shape, (np.arange(DAY_BEGINS, DAY_BEGINS + BUCKETS + 1) - 0.5) / scale)
    rolled = np.roll(np.diff(edges), DAY_BEGINS - 1)
    shares: Floats = rolled / rolled.sum()
    return shares


def _below(limit: float, count: int, draw: Callable[[NDArray[np.intp]], Floats]) -> Floats:
    """Draw until none is above ``limit``."""
    values: Floats = np.full(count, np.inf)
    while len(above := np.flatnonzero(values > limit)):
        values[above] = draw(above)
    return values
