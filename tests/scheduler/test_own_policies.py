"""Policies of one's own: an order for EASY, what a class must have, and decisions that cannot be carried out."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from jobsight_scheduler.policies import EasyByKey
from jobsight_scheduler.policies.base import JobRequests, Policy, PolicyError
from jobsight_scheduler.policies.own import entry_of
from jobsight_scheduler.prediction import Predictor
from jobsight_scheduler.simulator.event_loop import Simulation
from own_policy import F1, Wfp3

from .by_rows import starts_of, workload_of
from .test_policies_oracle import oracle

CAPACITY = 8


def starts(own: type, jobs: list[tuple[float, float, float, int]]) -> list[float]:
    return starts_of(entry_of(own, own.__name__).make, CAPACITY, jobs)


BUSY = (0, 100, 100, 8)


def test_the_order_of_f1_by_hand() -> None:
    """log10(requested) * processors + 870 log10(submitted): small and early first; at 1 s the second term is 0."""
    jobs = [BUSY, (1, 1000, 1000, 8), (1, 10, 10, 8), (2, 10, 10, 1)]
    # 24, 8, 1 + 262: job 3, then job 2; job 4 last, and nothing is free beside them.
    assert starts(F1, jobs) == [0, 110, 100, 1110]


class Lifo(EasyByKey):
    """A key that changes with every submission."""

    def keys(self, now: float, jobs: NDArray[np.int64]) -> NDArray[np.float64]:
        return -jobs.astype(float)


def test_any_order_second_by_second() -> None:
    rng = np.random.default_rng(7)
    for _ in range(400):
        count = int(rng.integers(2, 20))
        estimate = rng.integers(1, 12, count)
        run = np.where(rng.random(count) < 0.5, estimate, rng.integers(1, estimate + 1))
        columns = (np.sort(rng.integers(0, 25, count)), run, estimate, rng.integers(1, CAPACITY + 1, count))
        jobs = [tuple(row) for row in np.stack(columns, axis=1).tolist()]
        by_key = partial(oracle, "easy", jobs, CAPACITY, [0] * len(jobs))
        wfp3 = by_key(key=lambda now, j, jobs=jobs: -(((now - jobs[j][0]) / jobs[j][2]) ** 3) * jobs[j][3])
        assert starts(Wfp3, jobs) == wfp3, jobs
        assert starts(Lifo, jobs) == by_key(key=lambda _now, j: -j), jobs


class Plain:
    """Not derived from anything: all that a policy must have."""

    def __init__(self, requests: JobRequests) -> None:
        self.requests, self.line, self.free = requests, [], requests.capacity  # type: ignore[var-annotated]

    def submitted(self, now: float, job: int) -> list[int]:
        self.line.append(job)
        return self.start()

    def ended(self, now: float, job: int) -> list[int]:
        self.free += self.requests.processors[job]
        return self.start()

    def start(self) -> list[int]:
        begun = []
        while self.line and self.requests.processors[self.line[0]] <= self.free:
            begun.append(np.int64(self.line.pop(0)))
            self.free -= self.requests.processors[begun[-1]]
        return begun  # type: ignore[return-value]


def test_a_plain_class_is_a_policy() -> None:
    assert starts(Plain, [BUSY, (1, 5, 5, 8), (2, 1, 1, 1)]) == [0, 100, 105]


class Broken(Policy):
    """Returns ``answer`` at the second submission."""

    answer: ClassVar[Any] = ()
    wake: ClassVar[Any] = float("inf")

    def submitted(self, now: float, job: int) -> Any:
        if job == 0:
            return [0]
        self.wake_s = self.wake
        return self.answer(now) if callable(self.answer) else self.answer

    def ended(self, now: float, job: int) -> Any:
        return ()

    def woken(self, now: float) -> Any:
        return ()


def divided(now: float) -> float:
    return now / 0.0


@pytest.mark.parametrize(
    ("answer", "wake", "message"),
    [
        ([1], 1e9, r"own: submitted\(1, 1\) starts job 1 on 1 processors; 0 are free"),
        ([0], 1e9, "starts job 0, which runs already"),
        ([2], 1e9, "starts job 2, which does not wait"),
        ([99], 1e9, "starts job 99, which does not exist"),
        ([-1], 1e9, "starts job -1, which does not exist"),
        ([10**30], 1e9, "which does not exist"),
        (["1"], 1e9, "returned '1' among the jobs: give their indices"),
        ([1.0], 1e9, "returned 1.0 among the jobs"),
        (None, 1e9, "returned None: return a list of the jobs that start"),
        (divided, 1e9, r"submitted\(1, 1\) raised ZeroDivisionError"),
        ((), 0.0, "wake_s is 0.0 at 1 s: set a time to come"),
        ((), float("nan"), "wake_s is nan"),
        ((), "soon", "wake_s is 'soon'"),
        ((), 5.0, r"wake_s is still 5 after woken\(5\)"),
        ((), float("inf"), "2 jobs wait for ever, the first of them job 2: nothing runs at 100 s"),
    ],
)
def test_decisions_that_cannot_be_carried_out(
    monkeypatch: pytest.MonkeyPatch, answer: object, wake: object, message: str
) -> None:
    monkeypatch.setattr(Broken, "answer", staticmethod(answer) if callable(answer) else answer)
    monkeypatch.setattr(Broken, "wake", wake)
    simulation = Simulation(workload_of([BUSY, (1, 5, 5, 1), (2, 5, 5, 1)]), CAPACITY, entry_of(Broken, "own").make)
    with pytest.raises(PolicyError, match=message):
        simulation.advance(10_000)


class TwoArguments(Plain):
    def __init__(self, requests: JobRequests, run_times: Predictor) -> None:
        super().__init__(requests)
        self.run_times = run_times


class MayPredict(Plain):
    def __init__(self, requests: JobRequests, run_times: Predictor | None = None) -> None:
        super().__init__(requests)


class ThreeArguments(Plain):
    def __init__(self, requests: JobRequests, run_times: Predictor, more: int) -> None:
        super().__init__(requests)


class NoArgument(Plain):
    def __init__(self) -> None:
        pass


class HalfAPolicy:
    def submitted(self, now: float, job: int) -> list[int]:
        return []


class WrongRules(Plain):
    rules = "all"


def test_classes_that_do_not_fit() -> None:
    for own, message in (
        (HalfAPolicy, r"own lacks ended\(\)"),
        (Policy, r"own lacks submitted\(\), ended\(\)|own lacks ended\(\), submitted\(\)"),
        (EasyByKey, r"own lacks keys\(\)"),
        (ThreeArguments, r"own\(requests: .* does not fit: its constructor takes \(requests\), or"),
        (NoArgument, r"own\(\).* does not fit"),
        (WrongRules, "rules is 'all'; give a tuple"),
        (starts, "own is a function, not a class"),
        (pytest, "own is a module"),
        (7, "own is 7, not a class"),
    ):
        with pytest.raises(PolicyError, match=message):
            entry_of(own, "own")
    requests = JobRequests(CAPACITY, [1], [1.0])
    assert entry_of(MayPredict, "own").takes_predictor
    assert not entry_of(Plain, "own").takes_predictor
    assert entry_of(MayPredict, "own").make(requests).wake_s == float("inf")
    with pytest.raises(PolicyError, match="own needs a run-time predictor: give --predictor"):
        entry_of(TwoArguments, "own").make(requests)


class BadKeys(EasyByKey):
    wrong: ClassVar[Any] = None

    def keys(self, now: float, jobs: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array(self.wrong)


def test_keys_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong, message in (([np.nan], r"returned NaN for job 1 at 0 s"), ([1.0, 2.0], r"returned shape \(2,\) for 1")):
        monkeypatch.setattr(BadKeys, "wrong", wrong)
        with pytest.raises(PolicyError, match=message):
            starts(BadKeys, [BUSY])
