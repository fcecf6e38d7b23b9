"""What one job adds, worked out by hand."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsight_server.savings.sums.add import COLUMNS, amounts_of

GIB = 2**30
HOUR = 3600.0


class Job(NamedTuple):
    processors: int | None = 2
    asked_memory_bytes: int | None = 16 * GIB
    asked_walltime_s: float | None = 4 * HOUR
    start: float = 0.0
    end: float = HOUR
    ran_out: bool = False
    failed: bool = False
    failure: str | None = None
    gpus: int | None = None
    mean: float | None = None

    @property
    def asked_processors(self) -> int | None:
        return self.processors


def amounts(job: Job, metric: str, value: float | None, *attempts: float) -> dict[str, float]:
    found = dict(zip(COLUMNS, amounts_of(job, metric, value, attempts), strict=True))
    return {name: amount for name, amount in found.items() if amount}


def test_memory_counts_per_processor_and_second() -> None:
    found = amounts(Job(), "memory", 1.0 * GIB, 2.0 * GIB)
    assert found == {
        "jobs": 1,
        "weight": 2 * HOUR,
        "requested": 16 * GIB * HOUR,
        "used": 2 * GIB * HOUR,
        "reserved": 4 * GIB * HOUR,
        "request_held": 16 * GIB * HOUR,
        "bound_held": 4 * GIB * HOUR,
    }


def test_a_killed_job_repeats_with_twice_its_request_and_one_that_ran_on_repeats_on_neither_side() -> None:
    """1 GiB was requested per processor, and 3 are needed; 2 were recommended, then 4."""
    attempts = (2.0 * GIB, 4.0 * GIB, 9.0 * GIB)
    found = amounts(Job(asked_memory_bytes=2 * GIB), "memory", 3.0 * GIB, *attempts)
    assert (found["needed_more"], found.get("request_failures"), found["bound_failures"]) == (1, None, 1)
    assert found["used"] == 6 * GIB * HOUR
    assert found["request_held"] == found["requested"] == 2 * 1 * GIB * HOUR
    assert found["bound_held"] == found["reserved"] == 2 * 2 * GIB * HOUR
    failed = amounts(Job(asked_memory_bytes=2 * GIB, failed=True), "memory", 3.0 * GIB, *attempts)
    assert failed == found | {"request_failures": 1}, "why it failed is unknown: it is charged once"
    killed = Job(asked_memory_bytes=2 * GIB, ran_out=True, failed=True)
    found = amounts(killed, "memory", 3.0 * GIB, *attempts)
    assert found["request_held"] == 2 * (1 + 2 + 4) * GIB * HOUR
    assert found["bound_held"] == 2 * (2 + 4) * GIB * HOUR
    assert amounts(killed, "memory", 1.0 * GIB, GIB)["request_held"] == 2 * (1 + 2) * GIB * HOUR
    assert amounts(killed, "memory", 1.0 * GIB, GIB)["bound_held"] == 2 * (1 + 2) * GIB * HOUR


def test_gpus_count_with_their_mean_or_with_a_maximum_that_proves_them_idle() -> None:
    """Two GPUs for an hour."""
    assert amounts(Job(gpus=2, mean=0.5), "gpu_utilisation", 1.9)["used"] == 0.5 * HOUR
    assert amounts(Job(gpus=2), "gpu_utilisation", 0.04)["used"] == 0.04 * HOUR
    assert amounts(Job(gpus=2), "gpu_utilisation", 0.0)["requested"] == 2 * HOUR
    assert amounts(Job(gpus=2), "gpu_utilisation", 1.9) == {"weight": 2 * HOUR, "without_use": 1}, (
        "it may have been busy for a moment"
    )


def test_a_job_that_ran_on_beyond_its_time_limit_ran_out_of_no_limit() -> None:
    """It ran 5 h of 4; 3 were recommended. One that was killed ran out of both, and one of 3.5 h of the lower."""
    attempts = (3.0 * HOUR,)
    ran_on = amounts(Job(), "runtime", 5.0 * HOUR, *attempts)
    assert "needed_more" not in ran_on
    assert "bound_failures" not in ran_on
    assert ran_on["used"] == 2 * 5 * HOUR
    killed = amounts(Job(ran_out=True, failed=True), "runtime", 4.0 * HOUR, *attempts)
    assert (killed["request_failures"], killed["bound_failures"]) == (1, 1)
    within = amounts(Job(), "runtime", 3.5 * HOUR, *attempts)
    assert (within.get("request_failures"), within["bound_failures"]) == (None, 1)


@pytest.mark.parametrize(
    ("attempts", "held"),
    [
        ((4.0,), 4.0),  # more than is needed
        ((1.0, 2.5, 3.5, 8.0), 1.0 + 2.5 + 3.5),
        ((1.0,), 1.0 + 2.0 + 3.25),  # nothing is known of what comes next: twice as much, the request before more
        ((2.0, 2.5), 2.0 + 2.5 + 3.25),
    ],
)
def test_a_job_that_would_run_out_is_charged_with_the_attempts_of_its_answer(
    attempts: tuple[float, ...], held: float
) -> None:
    """3 GiB are needed per processor, 3.25 were requested."""
    found = amounts(Job(asked_memory_bytes=int(6.5 * GIB)), "memory", 3.0 * GIB, *(GIB * each for each in attempts))
    assert found["bound_held"] == 2 * held * GIB * HOUR


@given(st.floats(0.1, 99.0), st.floats(0.1, 99.0), st.lists(st.floats(0.1, 99.0), min_size=1, max_size=5, unique=True))
def test_nothing_is_freed_where_more_is_reserved_than_requested(
    value: float, request: float, attempts: list[float]
) -> None:
    found = amounts(
        Job(asked_memory_bytes=int(2 * request * GIB)), "memory", value * GIB, *sorted(GIB * a for a in attempts)
    )
    if found["reserved"] > found["requested"]:
        assert found["bound_held"] > found["request_held"] == found["requested"]
    held = max(found["reserved"], found["used"] - 2 * HOUR * 2**20)
    assert found["bound_held"] >= held if not found.get("needed_more") else found["bound_held"] == found["reserved"]


def test_run_time_counts_by_processors() -> None:
    found = amounts(Job(), "runtime", 1.0 * HOUR, 1.5 * HOUR)
    assert found == {
        "jobs": 1,
        "weight": 2,
        "requested": 8 * HOUR,
        "used": 2 * HOUR,
        "reserved": 3 * HOUR,
        "request_held": 8 * HOUR,
        "bound_held": 3 * HOUR,
    }


@pytest.mark.parametrize(
    ("job", "value", "bound", "reason"),
    [
        (Job(asked_memory_bytes=None), 1.0, 2.0, "without_request"),
        (Job(asked_memory_bytes=0), 1.0, 2.0, "without_request"),
        (Job(), None, 2.0, "without_use"),
        (Job(processors=None), 1.0, 2.0, "without_use"),
        (Job(), 1.0, None, "without_bound"),
    ],
)
def test_what_lacks_something_is_counted_apart(job: Job, value: float | None, bound: float | None, reason: str) -> None:
    assert amounts(job, "memory", value, *([] if bound is None else [bound])) == {reason: 1}
