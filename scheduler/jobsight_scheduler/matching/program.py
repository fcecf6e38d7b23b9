"""The batch as an integer program.

Columns: Z for each class of identical jobs (the number of matched ones), X for each of its dependencies and candidates,
then, if an objective needs them, S for each resource (used or not), F (the largest share) and the square of each
share. Rows: gangs whole, instances distinct, capacities (scaled to 1), relations, and the definitions of S, F and the
squares (docs/use/definitions.md, Matching).
"""

from __future__ import annotations

from collections.abc import Sequence

import highspy
import numpy as np

from jobsight_predictor.arrays import Floats, Integers

from .eligibility import Eligibility
from .highs import Clock, HighsProgram
from .objectives import PIECES, LinearForm, Shares, inverse_totals
from .packing import Placement
from .problem import Relation


class Program(HighsProgram):
    """The program of a batch, for objectives of these forms."""

    def __init__(
        self,
        eligibility: Eligibility,
        candidates: list[Integers],
        classes: list[list[int]],
        forms: Sequence[LinearForm],
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
        self._s: dict[str, int] = {}
        if any(form.s for form in forms):
            for name, of in eligibility.types.items():
                self._s[name] = self.add_columns(of.is_held.astype(np.float64), np.ones(len(of.members)), is_whole=True)
        self._capacities()
        if self._s:
            self._used(any(_is_sought(form) for form in forms))
        self._f: dict[str, Integers] = {form.name: self._shares(form) for form in forms if form.shares is not None}
        """The columns of F or of the squares, by the name of the objective."""
        for jobs in classes:
            for relation in eligibility.problem.jobs[jobs[0]].relations:
                self._relation(jobs[0], relation)

    def costs(self, form: LinearForm) -> Floats:
        """Return the coefficient of each column in an objective."""
        found = np.zeros(self.columns)
        found[: len(self.classes)] = [form.z[jobs[0]] for jobs in self.classes]
        if form.x is not None:
            for number in self._numbers:
                found[self._x[number]] = form.x[number]
        for name, values in form.s.items():
            found[self._s[name] : self._s[name] + len(values)] = values
        if form.shares is not None:
            found[self._f[form.name]] = form.f
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
        """Exclude a solution that exceeds capacities by less than HiGHS's tolerance; whether there is such a capacity.

        Of the instances on it, all but one may stay; so may those of larger needs in their place. Where the needs of
        identical jobs differ from the others', this holds only while no column counts several jobs.
        """
        found = False
        for name, of in self._eligibility.types.items():
            columns, positions, rows = self._of_type[name]
            used = np.rint(values[columns]).astype(np.int64)
            for kind in range(len(of.kinds)):
                needs, left = of.needs[rows, kind], of.free[:, kind]
                held = np.zeros(len(left), dtype=np.int64)
                np.add.at(held, positions, used * needs)
                for at in np.flatnonzero(held > np.maximum(left, 0)):
                    here = (positions == at) & (needs > 0)
                    cover = here & (used > 0)
                    least, count = needs[cover].min(), int(used[cover].sum())
                    cut = (
                        here & (needs >= least)
                        if count * least > left[at]
                        else cover | here & (needs >= needs[cover].max())
                    )
                    if count * least <= left[at] and (self.upper[columns[cover]] > 1.0).any():
                        continue
                    x = columns[cut]
                    self.at_most(np.zeros_like(x), x, np.ones(len(x)), np.array([count - 1.0]))
                    found = True
        return found

    def values(self, placed: dict[int, Placement]) -> Floats:
        """Return the whole columns of given placements; NaN for the others, which HiGHS completes."""
        found = np.full(self.columns, np.nan)
        found[: self._starts[-1]] = 0.0
        for index, jobs in enumerate(self.classes):
            for job in [job for job in jobs if job in placed]:
                found[index] += 1.0
                for number, chosen in zip(self._eligibility.numbers[jobs[0]], placed[job], strict=True):
                    found[self._x[number][np.searchsorted(self._candidates[number], chosen)]] += 1.0
        for name, first in self._s.items():
            columns, positions, _ = self._of_type[name]
            in_use = self._eligibility.types[name].is_held.copy()
            in_use[positions[found[columns] > 0.0]] = True
            found[first : first + len(in_use)] = in_use
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
                kept = most > (0.0 if self._s else 1.0)  # other rows hold for all matches
                row_of = np.cumsum(kept) - 1
                of_row = kept[on]
                chosen = np.flatnonzero(kept)
                terms = [(row_of[on[of_row]], x[of_row], share[of_row])]
                if self._s:
                    terms.append((np.arange(len(chosen)), self._s[name] + chosen, -np.ones(len(chosen))))
                rows_of, columns_of, values = (np.concatenate(parts) for parts in zip(*terms, strict=True))
                self.at_most(rows_of, columns_of, values, np.full(len(chosen), 0.0 if self._s else 1.0))

    def _used(self, is_sought: bool) -> None:
        """Add X <= S, which tightens the relaxation, and S <= sum of X where S is sought."""
        for name, of in self._eligibility.types.items():
            columns, positions, _ = self._of_type[name]
            self._at_most_times(columns, self._s[name] + positions, self.upper[columns])
            if is_sought:
                idle = ~of.is_held
                row_of, kept, count = np.cumsum(idle) - 1, idle[positions], int(idle.sum())
                self.at_most(
                    np.concatenate((row_of[positions[kept]], np.arange(count))),
                    np.concatenate((columns[kept], self._s[name] + np.flatnonzero(idle))),
                    np.concatenate((-np.ones(int(kept.sum())), np.ones(count))),
                    np.zeros(count),
                )

    def _shares(self, form: LinearForm) -> Integers:
        """Add the columns of F, which no share exceeds, or of the square of each, no less than any of its lines."""
        shares = form.shares or Shares({}, np.empty(0))
        pieces, slopes, found = np.zeros(1), np.ones(1), np.empty(0, dtype=np.int64)
        if form.is_squared:
            pieces = np.arange(float(PIECES))
            slopes = (2.0 * pieces + 1.0) / PIECES
        else:
            least = np.array([shares.others.max(initial=0.0)])
            found = np.array([self.add_columns(least, np.array([highspy.kHighsInf]), False)])
        for name, of in self._eligibility.types.items():
            columns, positions, rows = self._of_type[name]
            for kind in range(len(of.kinds)):
                counted, inverse = shares.counted[name][:, kind], inverse_totals(of)[:, kind]
                kept = counted[positions] & (of.amounts[rows, kind] > 0.0)
                row_of, count = np.cumsum(counted) - 1, int(counted.sum())
                share = of.amounts[rows[kept], kind] * inverse[positions[kept]]
                used = (of.used[:, kind] * inverse)[counted]
                if form.is_squared:
                    first = self.add_columns(np.zeros(count), np.full(count, highspy.kHighsInf), False)
                    found = np.append(found, np.arange(first, first + count))
                of_share = found[len(found) - count :] if form.is_squared else np.repeat(found, count)
                for piece, slope in zip(pieces, slopes, strict=True):
                    cut = piece * (piece + 1.0) / PIECES**2
                    self.at_most(
                        np.concatenate((row_of[positions[kept]], np.arange(count))),
                        np.concatenate((columns[kept], of_share)),
                        np.concatenate((slope * share, -np.ones(count))),
                        cut - slope * used,
                    )
        return found

    def _relation(self, job: int, relation: Relation) -> None:
        """Add ``n_e X(j,d,r) <= sum of X(j,e,s) over the s related to r``, for each r, and the same from e to d."""
        numbers = {self._eligibility.dependencies[number].of.name: number for number in self._eligibility.numbers[job]}
        first, second = (numbers[end] for end in relation.between)
        for mine, other in ((first, second), (second, first)):
            count = float(self._eligibility.dependencies[other].of.count)
            for x, position in zip(self._x[mine], self._candidates[mine].tolist(), strict=True):
                related = self._eligibility.related(relation, other, mine, self._candidates[other], position)
                columns = np.append(self._x[other][related], x)
                values = np.append(-np.ones(len(columns) - 1), count)
                self.at_most(np.zeros_like(columns), columns, values, np.zeros(1))


def _is_sought(form: LinearForm) -> bool:
    """Whether the use of some resource improves an objective."""
    return any(bool((values > 0.0).any() if form.is_max else (values < 0.0).any()) for values in form.s.values())


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
