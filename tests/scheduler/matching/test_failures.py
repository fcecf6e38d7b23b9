"""Whatever fails on the way, the best answer so far leaves; the clock, which every rung asks, is what fails here."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import pytest

from jobsight_scheduler.experiments.matching_workload import MatchingWorkload, matching_file
from jobsight_scheduler.matching import match, read_problem


class Clock:
    """Processor time; the call of this number fails."""

    def __init__(self, at: int | None = None, error: type[Exception] = Exception) -> None:
        self.calls, self._at, self._error = 0, at, error

    def __call__(self) -> float:
        self.calls += 1
        if self.calls == self._at:
            raise self._error("out of luck")
        return time.process_time()


@pytest.mark.parametrize(
    ("error", "objective"), [(MemoryError, "throughput"), (ZeroDivisionError, "preferences"), (MemoryError, "fewest")]
)
def test_the_answer_survives_a_rung_that_fails(error: type[Exception], objective: str, referee: Any) -> None:
    batch = matching_file(MatchingWorkload(jobs=20, jobs_at_load=16, seed=3))
    batch["objectives"] = list(dict.fromkeys(["throughput", objective, "balance"]))
    problem = read_problem(batch)
    whole = Clock()
    match(problem, clock=whole, deadline_s=0.3)
    failed = set()
    for at in range(2, whole.calls, max(1, whole.calls // 12)):  # the first call is that of the start
        answer = match(problem, clock=Clock(at, error), deadline_s=0.3)
        referee(batch, asdict(answer) | {"matches": [asdict(one) for one in answer.matches]})
        assert len(answer.matches) >= 14 or at == 2  # before greedy matching there is nothing
        failed |= {one.split(":")[0] for one in answer.failed}
        assert all(f"{error.__name__}: out of luck" in one for one in answer.failed)
        assert [f"failed: {one}" for one in answer.failed] == [one for one in answer.warnings if "failed" in one]
    assert {"throughput", "relaxation"} <= failed
