"""Whatever fails on the way, the best answer so far leaves; the clock, which every rung asks, is what fails here."""

from __future__ import annotations

import sys

import pytest
from msgspec import to_builtins
from tests.scheduler.matching.conftest import check

from jobsight_papers.matching.workload import MatchingWorkload, matching_file
from jobsight_scheduler.matching import match, read_problem

# So long that every rung ends by itself: HiGHS' own limit is in time on the wall.
LOOK_S, DEADLINE_S = 0.02, 60.0


class Clock:
    """Each look takes as long, so that every run is the same; the rungs' look of this number fails.

    ``match`` itself looks when it begins and ends.
    """

    def __init__(self, at: int | None = None, error: type[Exception] = Exception) -> None:
        self.calls, self._looks, self._at, self._error = 0, 0, at, error

    def __call__(self) -> float:
        caller = sys._getframe(1).f_code
        self._looks += 1
        self.calls += caller is not match.__code__
        if caller is not match.__code__ and self.calls == self._at:
            raise self._error("out of luck")
        return self._looks * LOOK_S


@pytest.mark.parametrize(
    ("error", "objective"), [(MemoryError, "throughput"), (ZeroDivisionError, "preferences"), (MemoryError, "priority")]
)
def test_the_answer_survives_a_rung_that_fails(error: type[Exception], objective: str) -> None:
    batch = matching_file(MatchingWorkload(jobs=8, jobs_at_load=6, seed=3))
    batch["objectives"] = list(dict.fromkeys(["throughput", objective, "utilisation"]))
    problem = read_problem(batch)
    whole = Clock()
    assert match(problem, clock=whole, deadline_s=DEADLINE_S).status == "within 1e-6"  # shares have no step
    failed = set()
    for at in sorted({*range(1, 12), *range(1, whole.calls, max(1, whole.calls // 12))}):
        answer = match(problem, clock=Clock(at, error), deadline_s=DEADLINE_S)
        check(batch, to_builtins(answer))
        assert len(answer.matches) >= 6 or at == 1  # before greedy matching there is nothing
        failed |= {one.split(":")[0] for one in answer.failed}
        assert all(f"{error.__name__}: out of luck" in one for one in answer.failed)
        assert [f"failed: {one}" for one in answer.failed] == [one for one in answer.warnings if "failed" in one]
    assert {"throughput", "integer"} <= failed
