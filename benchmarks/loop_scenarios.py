"""Jobs in closed loops for ``benchmarks/loops.py``, one function for each kind of evidence that misleads.

``S`` has, by name, a label, a sentence and the function that makes the jobs, the same ones for the same SEED.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

Need = float | Callable[[float | None], float]
Scenario = tuple[str, str, Callable[[], "list[LoopJob]"]]

S: dict[str, Scenario] = {}


@dataclass(slots=True, kw_only=True)
class LoopJob:
    """One job; memory in GiB of the whole job, times in seconds. It asks for ``asked`` and ``limit``, None is nothing.

    ``at`` None: a minute after the job before it in the chain has finished for good. ``need`` may follow from what the
    job is given; below ``min_need`` it is killed. ``seen``: memory in the log, if not the need. ``state``: how the job
    ends in any case, after ``after`` seconds. ``oom_state`` and ``oom_exit``: how a kill for memory looks in the log.
    """

    user: str = "ann"
    name: str = "model"
    at: float | None = None
    need: Need = 1.0
    min_need: float | None = None
    run: float = 1200.0
    asked: float | None = 8.0
    limit: float | None = 7200.0
    cpus: int = 1
    nodes: int = 1
    node: str = "n1"
    gpus: int = 0
    queue: str = "batch"
    account: str = "acc"
    array: str = ""
    comment: str = ""
    facts: dict[str, float] = field(default_factory=dict)
    seen: float | None = None
    state: str | None = None
    after: float | None = None
    oom_state: str = "OUT_OF_MEMORY"
    oom_exit: str = "0:125"


def scenario(label: str) -> Callable[[Callable[[], list[LoopJob]]], Callable[[], list[LoopJob]]]:
    def keep(make: Callable[[], list[LoopJob]]) -> Callable[[], list[LoopJob]]:
        S[make.__name__] = (label, make.__doc__ or "", make)
        return make

    return keep


def drawn() -> random.Random:
    return random.Random(int(os.environ.get("SEED", "1")))


def about(rng: random.Random, value: float, spread: float = 0.04) -> float:
    """Return a value with a relative spread, never below a half of it."""
    return value * max(0.5, rng.gauss(1.0, spread))


@scenario("control")
def steady() -> list[LoopJob]:
    """Forty equal jobs that use a fifth of their request."""
    rng = drawn()
    return [LoopJob(need=about(rng, 3.0), asked=16.0) for _ in range(40)]


@scenario("ended early")
def node_lost_first() -> list[LoopJob]:
    """Six runs that lose their node within two minutes, before those that need most of their request."""
    rng = drawn()
    lost = [LoopJob(need=0.1, asked=12.0, state="NODE_FAIL", after=100.0) for _ in range(6)]
    return lost + [LoopJob(need=about(rng, 9.0), asked=12.0) for _ in range(15)]


@scenario("other requests")
def trial_then_campaign() -> list[LoopJob]:
    """Ten trials of five minutes at the request of the campaign, which needs a hundred times as much."""
    rng = drawn()
    trials = [LoopJob(need=about(rng, 0.4), asked=48.0, run=150.0, limit=300.0) for _ in range(10)]
    return trials + [LoopJob(need=about(rng, 40.0), asked=48.0, run=20000.0, limit=43200.0) for _ in range(8)]


@scenario("bursts")
def large_task_in_array() -> list[LoopJob]:
    """Four arrays of 60 tasks; one task in forty needs five times as much."""
    rng = drawn()
    return [
        LoopJob(at=1e4 * burst, array=f"{700 + burst}_{task}", need=about(rng, 5.0 if rng.random() < 1 / 40 else 1.0))
        for burst in range(4)
        for task in range(60)
    ]


@scenario("names")
def dated_names() -> list[LoopJob]:
    """A new date in each name."""
    rng = drawn()
    return [LoopJob(name=f"fit-2026-{1 + k // 28:02}-{1 + k % 28:02}T06", need=about(rng, 2.0)) for k in range(30)]


@scenario("kills in disguise")
def killed_as_exit_1() -> list[LoopJob]:
    """Each job needs more than it asks for, and its kill looks like a failure of its own."""
    return [LoopJob(need=10.0, asked=6.0, oom_state="FAILED", oom_exit="1:0") for _ in range(4)]


@scenario("lower bounds")
def short_steps() -> list[LoopJob]:
    """Jobs so short that the log misses most of their memory."""
    rng = drawn()
    return [LoopJob(need=about(rng, 6.0), seen=0.01, run=15.0) for _ in range(20)]


@scenario("input size")
def grows_with_input() -> list[LoopJob]:
    """Need of 2 GiB and 1.5 GiB for each GB of input."""
    rng = drawn()
    sizes = [rng.uniform(0.5, 12.0) for _ in range(50)]
    return [
        LoopJob(need=about(rng, 2.0 + 1.5 * size, 0.01), asked=24.0, comment=f"jobsight:input_bytes={size * 1e9:.0f}")
        for size in sizes
    ]


@scenario("growth")
def grows() -> list[LoopJob]:
    """A need that doubles after thirty runs, still below the request."""
    rng = drawn()
    return [LoopJob(need=about(rng, 3.0 if k < 30 else 6.0), asked=10.0) for k in range(50)]
