"""The batch as an integer program.

Columns: Z for each class of identical jobs (the number of matched ones), X for each of its dependencies and candidates.
Rows: gangs whole, instances distinct, capacities (scaled to 1) (docs/use/definitions.md, Matching).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobsight_predictor.arrays import Floats, Integers
from jobsight_scheduler.matching.check import holds
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.highs import Clock, HighsProgram
from jobsight_scheduler.matching.objectives import LinearForm
from jobsight_scheduler.matching.packing import Placement
from jobsight_scheduler.matching.problem import Capacity


class Program(HighsProgram):
    """The program of a batch."""

    def __init__(
        self,
        eligibility: Eligibility,
        candidates: list[Integers],
        classes: list[list[int]],
    ) -> None:
        super().__init__()
        self._eligibility, self._candidates = eligibility, candidates
        self.classes = classes
        self._numbers = [number for jobs in classes for number in eligibility.numbers[jobs[0]]]
        """Numbers of the dependencies that have X."""
        sizes = np.array([len(jobs) for jobs in classes], dtype=np.float64)
        self._class_of = np.repeat(np.arange(len(classes)), [len(eligibility.numbers[jobs[0]]) for jobs in classes])
        lengths = [len(candidates[number]) for number in self._numbers]
        self._starts = len(classes) + np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self._x = {
            number: np.arange(start, start + length)
            for number, start, length in zip(self._numbers, self._starts.tolist(), lengths, strict=False)
        }
        upper = np.concatenate((sizes, np.repeat(sizes[self._class_of], lengths)))
        self.add_columns(np.zeros(len(upper)), upper, is_whole=True)
        self._of_type = {name: self._x_of_type(name) for name in eligibility.types}
        self._gangs()
        self._capacities()

    def costs(self, form: LinearForm) -> Floats:
        """Return the coefficient of each column in an objective."""
        found = np.zeros(self.columns)
        found[: len(self.classes)] = [form.z[jobs[0]] for jobs in self.classes]
        if form.x is not None:
            for number in self._numbers:
                found[self._x[number]] = form.x[number]
        return found

    def placements(self, values: Floats) -> dict[int, Placement]:
        """Return the placements of whole ``values`` of the columns.

        The matched jobs of a class are the first ones in the batch. They get the instances of a dependency, each as
        often as it is used, in turn: no job gets the same twice, because none is used more often than there are matched
        jobs.
        """
        found: dict[int, Placement] = {}
        for index, jobs in enumerate(self.classes):
            matched = round(float(values[index]))
            dealt = [
                np.repeat(self._candidates[number], np.rint(values[self._x[number]]).astype(np.int64))
                for number in self._eligibility.numbers[jobs[0]]
            ]
            for position, job in enumerate(jobs[:matched]):
                found[job] = tuple(chosen[position::matched] for chosen in dealt)
        return found

    def spread(self, values: Floats) -> tuple[Floats, list[Floats]]:
        """Return how far a relaxed solution matches each job (jobs,), and each dependency on each candidate.

        All jobs of a class have equal shares.
        """
        matched = np.zeros(len(self._eligibility.problem.jobs))
        chosen: list[Floats] = [np.empty(0)] * len(self._eligibility.dependencies)
        for at, jobs in enumerate(self.classes):
            matched[jobs] = values[at] / len(jobs)
            for job in jobs:
                for index, number in enumerate(self._eligibility.numbers[job]):
                    chosen[number] = values[self._x[self._eligibility.numbers[jobs[0]][index]]] / len(jobs)
        return matched, chosen

    def exclude(self, values: Floats) -> bool:
        """Exclude a solution that exceeds capacities by less than a tolerance; whether there is such a capacity.

        Of the instances on it, all but one may stay; so may those of larger needs in their place. Where the needs of
        identical jobs differ from the others', this holds only while no column counts several jobs.
        """
        found = False
        for name, of in self._eligibility.types.items():
            columns, positions, rows = self._of_type[name]
            used = np.rint(values[columns]).astype(np.int64)
            for kind in range(len(of.kinds)):
                amounts = of.amounts[rows, kind]
                for at in np.unique(positions[(used > 0) & (amounts > 0.0)]).tolist():
                    here = (positions == at) & (amounts > 0.0)
                    cover = here & (used > 0)
                    held = np.repeat(amounts[cover], used[cover]).tolist()
                    capacity = Capacity(of.total[at, kind].item(), of.used[at, kind].item())
                    if holds(capacity, held):
                        continue
                    same = holds(capacity, [min(held)] * len(held))
                    if same and (self.upper[columns[cover]] > 1.0).any():
                        continue
                    x = columns[cover | here & (amounts >= max(held)) if same else here & (amounts >= min(held))]
                    self.at_most(np.zeros_like(x), x, np.ones(len(x)), np.array([len(held) - 1.0]))
                    found = True
        return found

    def values(self, placed: dict[int, Placement]) -> Floats:
        """Return the columns of given placements."""
        found = np.zeros(self.columns)
        for index, jobs in enumerate(self.classes):
            for job in [job for job in jobs if job in placed]:
                found[index] += 1.0
                for number, chosen in zip(self._eligibility.numbers[jobs[0]], placed[job], strict=True):
                    found[self._x[number][np.searchsorted(self._candidates[number], chosen)]] += 1.0
        return found

    def _x_of_type(self, name: str) -> tuple[Integers, Integers, Integers]:
        """Return column, position of the resource and row in ``needs`` of all X of a type."""
        numbers = [number for number in self._numbers if self._eligibility.dependencies[number].of.type == name]
        rows = [np.full(len(self._x[number]), self._eligibility.dependencies[number].row) for number in numbers]
        none = np.empty(0, dtype=np.int64)
        return (
            np.concatenate([none, *(self._x[number] for number in numbers)]),
            np.concatenate([none, *(self._candidates[number] for number in numbers)]),
            np.concatenate([none, *rows]),
        )

    def _gangs(self) -> None:
        count = len(self._numbers)
        lengths = np.diff(self._starts)
        counts = np.array([self._eligibility.dependencies[n].of.count for n in self._numbers], dtype=np.float64)
        rows = np.concatenate((np.repeat(np.arange(count), lengths), np.arange(count)))
        x = np.arange(self._starts[0], self._starts[-1])
        values = np.concatenate((np.ones(len(x)), -counts))
        self.add_rows(rows, np.concatenate((x, self._class_of)), values, np.zeros(count), np.zeros(count))
        several = np.repeat(counts > 1.0, lengths)
        self._at_most_times(x[several], np.repeat(self._class_of, lengths)[several], np.ones(int(several.sum())))

    def _at_most_times(self, smaller: Integers, larger: Integers, times: Floats) -> None:
        """Add rows ``smaller <= times * larger``."""
        rows = np.arange(len(smaller))
        self.at_most(
            np.concatenate((rows, rows)),
            np.concatenate((smaller, larger)),
            np.concatenate((np.ones(len(smaller)), -times)),
            np.zeros(len(smaller)),
        )

    def _capacities(self) -> None:
        for name, of in self._eligibility.types.items():
            columns, positions, rows = self._of_type[name]
            for kind in range(len(of.kinds)):
                needs, free = of.needs[rows, kind], of.free[positions, kind]
                asked = needs > 0
                x, on, share = columns[asked], positions[asked], needs[asked] / free[asked].astype(np.float64)
                most = np.bincount(on, share * self.upper[x], len(of.members))
                kept = most > 1.0  # other rows hold for all matches
                row_of, of_row = np.cumsum(kept) - 1, kept[on]
                self.at_most(row_of[on[of_row]], x[of_row], share[of_row], np.ones(int(kept.sum())))


def relaxed_by_type(
    eligibility: Eligibility, classes: Sequence[Sequence[int]], worth: Floats, clock: Clock, until: float
) -> tuple[float, Floats] | None:
    """Solve the linear relaxation of a batch with all resources of a type as one, for jobs worth ``worth`` (jobs,).

    It has a column for each class of identical jobs and a row for each capacity of each type, so that it is fast at any
    size, and its bound is valid. Return the bound and each job's worth beyond its cost; None when out of time.
    """
    program = HighsProgram()
    first = [jobs[0] for jobs in classes]
    program.add_columns(np.zeros(len(first)), np.array([float(len(jobs)) for jobs in classes]), is_whole=False)
    shares: list[Floats] = []
    for name, of in eligibility.types.items():
        entries = [eligibility.dependencies[number] for number in eligibility.rows[name]]
        counts = np.array([at.of.count for at in entries], dtype=np.float64)
        totals = np.maximum(np.maximum(of.free, 0).sum(axis=0, dtype=np.float64), 1.0)
        of_jobs = np.zeros((len(worth), len(of.kinds)))  # a job's dependencies of one type are one coefficient
        np.add.at(of_jobs, [at.job for at in entries], counts[:, None] * of.needs / totals)
        shares += list(of_jobs.T)
    by_kind = np.array(shares).reshape(len(shares), len(worth))
    rows, columns = np.nonzero(by_kind[:, first])
    program.at_most(rows, columns, by_kind[:, first][rows, columns], np.ones(len(shares)))
    solved = program.solve(worth[first], True, clock, until, is_relaxed=True)
    if solved.duals is None:
        return None
    prices = np.maximum(solved.duals, 0.0)
    margins = worth - prices @ by_kind
    return float(prices.sum() + np.maximum(margins, 0.0).sum()), margins  # valid at any prices
