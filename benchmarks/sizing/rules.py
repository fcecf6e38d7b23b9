"""Rules of peers that use the process and the use of its tasks, from their papers (docs/develop/measurements.md)."""

from __future__ import annotations

from abc import abstractmethod
from bisect import insort
from collections import deque

import numpy as np

from jobsight_predictor.arrays import Floats
from sizing.protocols import Rule
from sizing.tasks import Task

NODE_BYTES = 128e9  # memory of a node in the published comparison


class OfProcess(Rule):
    """A rule for the tasks of one process; requests the preset until it has data."""

    def __init__(self) -> None:
        self.most = 0.0

    def ask(self, task: Task) -> float:
        return self.first(task) if self.most else task.request

    @abstractmethod
    def first(self, task: Task) -> float:
        """Return the bytes for the first attempt, after at least one task has ended."""

    def again(self, task: Task, asked: float) -> float:
        return 2.0 * asked

    def learn(self, task: Task, need: float) -> None:
        self.most = max(self.most, need)


class ByProcess(Rule):
    """A workflow's tasks, with a separate rule for each process."""

    def __init__(self, kind: type[OfProcess]) -> None:
        self.kind = kind
        self.by_size = kind.by_size
        self.rules: dict[str, OfProcess] = {}

    def of(self, task: Task) -> OfProcess:
        if task.process not in self.rules:
            self.rules[task.process] = self.kind()
        return self.rules[task.process]

    def ask(self, task: Task) -> float:
        return self.of(task).ask(task)

    def again(self, task: Task, asked: float) -> float:
        return self.of(task).again(task, asked)

    def fail(self, task: Task, asked: float) -> None:
        self.of(task).fail(task, asked)

    def learn(self, task: Task, need: float) -> None:
        self.of(task).learn(task, need)


class Presets(OfProcess):
    """The workflow's own request."""

    def first(self, task: Task) -> float:
        return task.request


class LargestSeen(OfProcess):
    """The largest use of the process so far; twice that after a failure."""

    def first(self, task: Task) -> float:
        return self.most


class OfValues(OfProcess):
    """Keeps the values in order."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def learn(self, task: Task, need: float) -> None:
        super().learn(task, need)
        insort(self.values, need)

    def quantile(self, share: float) -> float:
        """Interpolate linearly between the two nearest values."""
        place = share * (len(self.values) - 1)
        low = self.values[int(place)]
        return low + (place - int(place)) * (self.values[min(int(place) + 1, len(self.values) - 1)] - low)


class WittPercentile(OfValues):
    """The 95th percentile, doubled after a failure (Witt, Wagner and Leser 2019)."""

    def first(self, task: Task) -> float:
        return self.quantile(0.95)


def least_waste(values: Floats, seconds: Floats, margin: float, last: float) -> float:
    """Find the value, times ``margin``, that would have wasted least if larger tasks then got ``last``; values (n,)."""
    order = np.argsort(values)
    tried, known = margin * values[order], np.append(0.0, np.cumsum(seconds[order]))
    above = known[-1] - known[np.searchsorted(values[order], tried, side="right")]
    return float(tried[np.argmin(tried * known[-1] + last * above)])


class LeastWaste(OfProcess):
    """The value that would have wasted least so far if every larger task failed at it and then got ``last``."""

    margin = 1.0  # factor on the values tried
    last_margin = 1.0  # factor on the largest value, after a failure

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[float, float]] = []

    def learn(self, task: Task, need: float) -> None:
        super().learn(task, need)
        insort(self.jobs, (need, task.seconds))

    def first(self, task: Task) -> float:
        values, seconds = np.array(self.jobs).T
        return least_waste(values, seconds, self.margin, self.last_margin * self.most)

    def again(self, task: Task, asked: float) -> float:
        last = self.last_margin * self.most
        return last if asked < last else 2.0 * asked


class Tovar(LeastWaste):
    """Least waste; the largest value after a failure, then a whole node (Tovar et al. 2018)."""

    def again(self, task: Task, asked: float) -> float:
        return self.most if asked < self.most else max(NODE_BYTES, 2.0 * asked)


class LeastPastWaste(LeastWaste):
    """A prototype: least waste, 1.15 times the largest value after a failure, then twice as much."""

    last_margin = 1.15


class LeastExpectedWaste(LeastWaste):
    """A prototype: least waste of 1.1 times a value."""

    margin = last_margin = 1.1


class AutopilotP98(OfValues):
    """The 98th percentile (Rzadca et al. 2020: for most jobs)."""

    def first(self, task: Task) -> float:
        return self.quantile(0.98)


class AutopilotMax(OfProcess):
    """The largest of the last 50 (Rzadca et al. 2020: for jobs that must not run out)."""

    def __init__(self) -> None:
        super().__init__()
        self.recent: deque[float] = deque(maxlen=50)

    def first(self, task: Task) -> float:
        return max(self.recent)

    def learn(self, task: Task, need: float) -> None:
        super().learn(task, need)
        self.recent.append(need)


class Vpa(OfProcess):
    """P90 x 1.15 of a histogram that halves in a day; a fifth or 100 MB more after a failure (Kubernetes).

    Buckets grow by 5 %, the first is 10 MB wide; a quantile is the end of its bucket.
    """

    share, margin, half_life_s = 0.9, 1.15, 86_400.0
    ends = 1e7 * (1.05 ** np.arange(1, 250) - 1.0) / 0.05

    def __init__(self) -> None:
        super().__init__()
        self.weights = np.zeros(len(self.ends))
        self.last = 0.0

    def first(self, task: Task) -> float:
        sums = np.cumsum(self.weights)
        return float(self.margin * self.ends[np.searchsorted(sums, self.share * sums[-1])])

    def again(self, task: Task, asked: float) -> float:
        return max(1.2 * asked, asked + 1e8)

    def fail(self, task: Task, asked: float) -> None:
        self.count(self.last, self.again(task, asked))

    def learn(self, task: Task, need: float) -> None:
        super().learn(task, need)
        self.count(max(task.ended, self.last), need)

    def count(self, now: float, value: float) -> None:
        self.weights *= 0.5 ** ((now - self.last) / self.half_life_s) if self.last else 1.0
        self.last = now
        self.weights[min(int(np.searchsorted(self.ends, value, side="right")), len(self.ends) - 1)] += 1.0
