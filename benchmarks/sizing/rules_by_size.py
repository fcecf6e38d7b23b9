"""Rules of peers that also use the size that a task reads, from their papers (docs/develop/measurements.md)."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from jobsight_predictor.arrays import Floats
from sizing.rules import LeastExpectedWaste, OfProcess, least_waste
from sizing.tasks import Task


class BySize(OfProcess):
    """Keeps sizes, needs and seconds, in order of arrival, and the sums of a straight line."""

    by_size = True

    def __init__(self) -> None:
        super().__init__()
        self.columns = np.empty((3, 16))
        self.n = 0
        self.means = np.zeros(2)
        self.moments = np.zeros(3)  # sums of squares of sizes, of products, of squares of needs, about the means

    def learn(self, task: Task, need: float) -> None:
        super().learn(task, need)
        if self.n == self.columns.shape[1]:
            self.columns = np.hstack((self.columns, np.empty_like(self.columns)))
        self.columns[:, self.n] = task.size, need, task.seconds
        self.n += 1
        dx, dy = np.array((task.size, need)) - self.means
        self.means += np.array((dx, dy)) / self.n
        self.moments += np.array((dx * dx, dx * dy, dy * dy)) * (self.n - 1) / self.n

    @property
    def sizes(self) -> Floats:
        return self.columns[0, : self.n]

    @property
    def needs(self) -> Floats:
        return self.columns[1, : self.n]

    @property
    def seconds(self) -> Floats:
        return self.columns[2, : self.n]

    @property
    def slope(self) -> float:
        """Slope of the least-squares line; 0 if all sizes are equal."""
        return float(self.moments[1] / self.moments[0]) if self.moments[0] > 0.0 else 0.0

    def line(self, sizes: Floats | float) -> Floats:
        """Evaluate the line at ``sizes``."""
        return np.asarray(self.means[1] + self.slope * (sizes - self.means[0]))

    @property
    def correlation(self) -> float:
        """Return Pearson's correlation; 0 if undefined."""
        spread = sqrt(self.moments[0]) * sqrt(self.moments[2])
        return float(self.moments[1] / spread) if spread > 0.0 else 0.0


class WittLr(BySize):
    """A straight line, plus the standard deviation of its relative errors so far (Witt, Wagner and Leser 2019).

    If the line is below zero, the first attempt fails and the next gets the largest.
    """

    nothing = 1.0  # bytes

    def __init__(self) -> None:
        super().__init__()
        self.predicted: dict[int, float] = {}
        self.errors: list[float] = []

    def first(self, task: Task) -> float:
        self.predicted[id(task)] = line = float(self.line(task.size))
        spread = float(np.std(self.errors)) if self.errors else 0.0
        return max(line * (1.0 + spread), self.nothing)

    def again(self, task: Task, asked: float) -> float:
        return self.most if asked <= self.nothing else 2.0 * asked

    def learn(self, task: Task, need: float) -> None:
        if id(task) in self.predicted:
            self.errors.append((need - self.predicted.pop(id(task))) / need)
        super().learn(task, need)


class WittWastage(BySize):
    """The straight line that would have wasted least so far, with doubling (Witt et al. 2019).

    Of lines with the slope of least squares, of the quartiles' ranges, of the upper tenth, and none.
    """

    lines, growth = 64, 1.1

    def __init__(self) -> None:
        super().__init__()
        self.best = (0.0, 0.0)
        self.known = 0

    def first(self, task: Task) -> float:
        if self.n > self.known * self.growth or not self.known:
            self.fit()
        slope, intercept = self.best
        return max(slope * task.size + intercept, float(self.needs.min()))

    def fit(self) -> None:
        self.known = self.n
        wide = np.quantile(self.sizes, 0.75) - np.quantile(self.sizes, 0.25)
        high = np.quantile(self.needs, 0.75) - np.quantile(self.needs, 0.25)
        above = self.needs >= np.maximum(self.line(self.sizes), np.quantile(self.needs, 0.5))
        # Rounding may put the line above every need.
        is_wide = bool(above.any()) and np.ptp(self.sizes[above]) > 0.0
        steep = np.polyfit(self.sizes[above], self.needs[above], 1)[0] if is_wide else 0.0
        lowest, found = float(self.needs.min()), inf
        for slope in (0.0, self.slope, steep, high / wide if wide > 0.0 else 0.0):
            for intercept in np.unique(np.quantile(self.needs - slope * self.sizes, np.linspace(0.0, 1.0, self.lines))):
                asked = np.maximum(slope * self.sizes + intercept, lowest)
                doublings = np.maximum(0.0, np.ceil(np.log2(self.needs / asked) - 1e-9))
                held = float((asked * (2.0 ** (doublings + 1.0) - 1.0) * self.seconds).sum())
                if held < found:
                    found, self.best = held, (float(slope), float(intercept))


class Ponder(BySize):
    """A straight line if size matters, else the largest, with an offset (Lehmann et al. 2024)."""

    offset, few, related = 128 * 2**20, 5, 0.3

    def first(self, task: Task) -> float:
        if self.n < self.few:  # larger ones are known to fit
            return self.most + self.offset if (self.sizes > task.size).any() else task.request
        if self.correlation <= self.related:
            return self.most + self.offset
        largest = float(self.sizes.max())
        line = max(float(self.line(task.size)), float(self.needs.min()))
        if (line > self.most and task.size < largest) or (line < self.most and task.size >= largest):
            line = self.most
        return line + max(self.offset, 2.0 * self.spread(task.size))

    def spread(self, size: float) -> float:
        """Return the standard deviation about the line, weighting near sizes more."""
        far = np.abs(self.sizes - size)
        furthest = float(far.max())
        few = max(1.0 - self.n / 10.0, 0.0) / 100.0
        weights = 1.0 - far / furthest + few if furthest > 0.0 else np.ones(self.n)
        residuals = self.needs - self.line(self.sizes)
        total = float(weights.sum())
        mean = float(weights @ residuals) / total
        freedom = total - float(weights @ weights) / total
        return sqrt(max(0.0, float(weights @ (residuals - mean) ** 2) / freedom)) if freedom > 0.0 else 0.0

    def again(self, task: Task, asked: float) -> float:
        return task.request if asked < task.request else 2.0 * asked


class Sizey(BySize):
    """Models weighted by their accuracy, with the offset of least past waste (Bader et al. 2024).

    An approximation: a straight line, the five nearest by size and the mean stand for its four models.
    """

    near = 5

    def __init__(self) -> None:
        super().__init__()
        self.predicted: list[tuple[float, float, float]] = []  # combined prediction, need, seconds
        self.errors = np.zeros(3)
        self.models = np.zeros(3)

    def predict(self, task: Task) -> float:
        nearest = np.argsort(np.abs(self.sizes - task.size), kind="stable")[: self.near]
        self.models = np.array((float(self.line(task.size)), self.needs[nearest].mean(), self.means[1]))
        weights = np.exp(-self.errors / self.n)
        return float(max(weights @ self.models / weights.sum(), self.needs.min()))

    def first(self, task: Task) -> float:
        return self.predict(task) * (1.0 + self.offset())

    def offset(self) -> float:
        if not self.predicted:
            return 0.05
        predicted, needs, seconds = np.array(self.predicted[-200:]).T
        errors = (needs - predicted) / needs
        under = errors[errors > 0.0]
        tried = [np.median(np.abs(errors)), np.std(errors)]
        tried += [np.median(under), np.std(under)] if len(under) else []

        def waste(offset: float) -> float:
            asked = predicted * (1.0 + offset)
            return float((np.where(asked >= needs, asked - needs, asked + self.most - needs) * seconds).sum())

        return float(min(tried, key=waste))

    def again(self, task: Task, asked: float) -> float:
        return self.most if 1.05 * asked < self.most else 2.0 * asked

    def learn(self, task: Task, need: float) -> None:
        if self.n:
            self.predicted.append((self.predict(task), need, task.seconds))
            self.errors += np.minimum(1.0, np.abs(need - self.models) / need)
        super().learn(task, need)


class NearestInSize(BySize):
    """A prototype: ``LeastExpectedWaste`` of the tasks nearest in size."""

    nearest = 50

    def first(self, task: Task) -> float:
        chosen = np.argsort(np.abs(self.sizes - task.size), kind="stable")[: self.nearest]
        margin = LeastExpectedWaste.margin
        return least_waste(self.needs[chosen], self.seconds[chosen], margin, margin * self.most)

    def again(self, task: Task, asked: float) -> float:
        last = LeastExpectedWaste.margin * self.most
        return last if asked < last else 2.0 * asked
