"""The batch as an integer program in arrays, as solvers take it.

Columns: Z for each class of identical jobs (how many of it are matched), X for each of its dependencies and candidates,
then, where an objective needs them, S for each resource (used or not), F (the largest share) and four pieces of each
share. Rows: gangs whole, instances distinct, capacities (scaled to 1), relations, and the definitions of S, F and the
pieces (docs/definitions.md, Matching).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .eligibility import Eligibility
from .objectives import LinearForm, inverse_totals
from .packing import Placement
from .problem import Relation
from .sparse import SparseProgram

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PIECES = 4
TIGHT_AT_MOST = 20_000
"""X <= S row by row only in programs of up to so many X: it tightens the relaxation; the capacities imply it."""


@dataclass(frozen=True, slots=True)
class _Balance:
    """What is balanced, by type, and its columns: F, and from ``first`` on the pieces of ``shares`` shares."""

    balanced: dict[str, Flags]
    others: Floats
    f: int
    first: int
    shares: int

    def pieces(self, piece: int) -> slice:
        """The columns of one piece of each share."""
        return slice(self.first + piece * self.shares, self.first + (piece + 1) * self.shares)


class Program(SparseProgram):
    """An integer program: ``upper`` and ``lower`` of columns and rows, and its coefficients by (row, column, value)."""

    def __init__(
        self,
        eligibility: Eligibility,
        candidates: list[Integers],
        classes: list[list[int]],
        forms: Sequence[LinearForm],
    ) -> None:
        self._eligibility = eligibility
        self._candidates = candidates
        self.classes = classes
        self.dependencies = [number for jobs in classes for number in eligibility.numbers[jobs[0]]]
        sizes = np.array([len(jobs) for jobs in classes], dtype=np.float64)
        self._class_of = np.array(
            [index for index, jobs in enumerate(classes) for _ in eligibility.numbers[jobs[0]]], dtype=np.int64
        )
        lengths = [len(candidates[number]) for number in self.dependencies]
        self._starts = len(classes) + np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self._start_of = dict(zip(self.dependencies, self._starts.tolist(), strict=False))
        super().__init__(np.concatenate((sizes, np.repeat(sizes[self._class_of], lengths))))
        self._gangs(sizes)
        self._capacity_rows: list[tuple[str, int, int, Integers]] = []
        self._s: dict[str, int] = self._used_columns() if any(form.s for form in forms) else {}
        self._capacities()
        if self._s:
            self._used_rows(any(_is_sought(form) for form in forms))
        self._balances: list[_Balance] = []
        for form in forms:
            if form.f and self._balance(form) is None:
                f = self._largest_share(form)
                self._balances.append(_Balance(form.balanced, form.others, f, *self._squares(form.balanced)))
        for jobs in classes:
            for relation in eligibility.problem.jobs[jobs[0]].relations:
                self._relation(jobs[0], relation)

    def costs(self, form: LinearForm) -> Floats:
        """The coefficient of each column in an objective."""
        found = np.zeros(self.columns)
        found[: len(self.classes)] = [form.z[jobs[0]] for jobs in self.classes]
        if form.x is not None:
            for number in self.dependencies:
                start = self._start_of[number]
                found[start : start + len(form.x[number])] = form.x[number]
        for name, values in form.s.items():
            found[self._s[name] : self._s[name] + len(values)] = values
        if form.f and (balance := self._balance(form)) is not None:
            found[balance.f] = form.f
        return found

    def squares(self, form: LinearForm) -> Floats:
        """The coefficients of the sum of squared shares, in pieces, of what ``form`` balances."""
        found = np.zeros(self.columns)
        if (balance := self._balance(form)) is not None:
            for piece in range(PIECES):
                found[balance.pieces(piece)] = (2.0 * piece + 1.0) / PIECES
        return found

    def _balance(self, form: LinearForm) -> _Balance | None:
        """The columns of what ``form`` balances; several objectives may balance the same."""
        for one in self._balances:
            if np.array_equal(one.others, form.others) and all(
                np.array_equal(one.balanced[name], flags) for name, flags in form.balanced.items()
            ):
                return one
        return None

    def placements(self, values: Floats) -> dict[int, Placement]:
        """The jobs that whole ``values`` of the columns match, and on what.

        Of a class with several matched jobs, those that come first in the batch are the matched ones. The instances of
        a dependency, each as often as it is used, are dealt to them in turn: no job gets the same twice, because none
        is used more often than there are matched jobs.
        """
        found: dict[int, Placement] = {}
        at = 0
        for index, jobs in enumerate(self.classes):
            matched = round(float(values[index]))
            dealt = []
            for number in self._eligibility.numbers[jobs[0]]:
                start, end = self._starts[at], self._starts[at + 1]
                times = np.rint(values[start:end]).astype(np.int64)
                dealt.append(np.repeat(self._candidates[number], times))
                at += 1
            for position, job in enumerate(jobs[:matched]):
                found[job] = tuple(chosen[position::matched] for chosen in dealt)
        return found

    def spread(self, values: Floats) -> tuple[Floats, list[Floats]]:
        """Of a relaxed solution how far each job is matched (jobs,), and for each dependency how far on each candidate.

        Every job of a class has its share of the class.
        """
        matched = np.zeros(len(self._eligibility.problem.jobs))
        chosen: list[Floats] = [np.empty(0)] * len(self._eligibility.dependencies)
        at = 0
        for index, jobs in enumerate(self.classes):
            matched[jobs] = values[index] / len(jobs)
            for dependency in range(len(self._eligibility.numbers[jobs[0]])):
                part = values[self._starts[at] : self._starts[at + 1]] / len(jobs)
                for job in jobs:
                    chosen[self._eligibility.numbers[job][dependency]] = part
                at += 1
        return matched, chosen

    def prices(self, duals: Floats) -> dict[str, Floats]:
        """What the ``duals`` of the rows ask for each whole capacity of each type, (R, K); never negative."""
        found = {name: np.zeros(of.free.shape) for name, of in self._eligibility.types.items()}
        for name, kind, row, positions in self._capacity_rows:
            found[name][positions, kind] = np.maximum(duals[row : row + len(positions)], 0.0)
        return found

    def values(self, placed: dict[int, Placement]) -> Floats:
        """The columns for given placements, with S, F and pieces as they follow."""
        found = np.zeros(self.columns)
        at = 0
        for index, jobs in enumerate(self.classes):
            matched = [job for job in jobs if job in placed]
            found[index] = len(matched)
            for dependency, number in enumerate(self._eligibility.numbers[jobs[0]]):
                start = int(self._starts[at])
                for job in matched:
                    positions = np.searchsorted(self._candidates[number], placed[job][dependency])
                    found[start + positions] += 1.0
                at += 1
        self._derive(found)
        return found

    def _x(self, index: int) -> Integers:
        return np.arange(self._starts[index], self._starts[index + 1])

    def _gangs(self, sizes: Floats) -> None:
        count = len(self.dependencies)
        if not count:
            return
        lengths = np.diff(self._starts)
        counts = np.array(
            [self._eligibility.dependencies[number].of.count for number in self.dependencies], dtype=float
        )
        rows = np.concatenate((np.repeat(np.arange(count), lengths), np.arange(count)))
        columns = np.concatenate((np.arange(self._starts[0], self._starts[-1]), self._class_of))
        values = np.concatenate((np.ones(int(lengths.sum())), -counts))
        self._add(rows, columns, values, np.zeros(count), np.zeros(count))
        several = [index for index in np.flatnonzero(counts > 1.0).tolist() if lengths[index]]
        if several:
            x = np.concatenate([self._x(index) for index in several])
            z = np.repeat(self._class_of[several], lengths[several])
            self._at_most(x, z, np.ones(len(x)))

    def _of_type(self, name: str) -> tuple[Integers, Integers, Integers]:
        """Of all X of a type: their columns, the position of the resource, the row in ``needs``."""
        columns, positions, rows = [_NONE], [_NONE], [_NONE]
        for index, number in enumerate(self.dependencies):
            at = self._eligibility.dependencies[number]
            if at.of.type == name:
                columns.append(self._x(index))
                positions.append(self._candidates[number])
                rows.append(np.full(len(self._candidates[number]), at.row))
        return np.concatenate(columns), np.concatenate(positions), np.concatenate(rows)

    def _capacities(self) -> None:
        upper = self.column_bounds[1]
        for name, of in self._eligibility.types.items():
            columns, positions, rows = self._of_type(name)
            for kind in range(len(of.kinds)):
                needs, free = of.needs[rows, kind], of.free[positions, kind]
                asked = needs > 0
                share = needs[asked] / free[asked].astype(np.float64)
                most = np.bincount(positions[asked], share * upper[columns[asked]], len(of.members))
                if self._s:
                    count = len(of.members)
                    used = self._s[name] + np.arange(count)
                    self._capacity_rows.append((name, kind, self.rows, np.arange(count)))
                    self._add(
                        np.concatenate((positions[asked], np.arange(count))),
                        np.concatenate((columns[asked], used)),
                        np.concatenate((share, -np.ones(count))),
                        np.full(count, -np.inf),
                        np.zeros(count),
                    )
                    continue
                binding = most > 1.0  # others are kept whatever is matched
                row_of = np.cumsum(binding) - 1
                kept = binding[positions[asked]]
                count = int(binding.sum())
                self._capacity_rows.append((name, kind, self.rows, np.flatnonzero(binding)))
                self._add(
                    row_of[positions[asked][kept]],
                    columns[asked][kept],
                    share[kept],
                    np.full(count, -np.inf),
                    np.ones(count),
                )

    def _used_columns(self) -> dict[str, int]:
        resources = self._eligibility.problem.resources
        found = {}
        for name, of in self._eligibility.types.items():
            held = np.array([float(resources[member].is_held) for member in of.members])
            found[name] = self._new_columns(held, np.ones(len(held)), True)
        return found

    def _used_rows(self, is_bounded: bool) -> None:
        """X <= S where nothing is consumed, and everywhere in small programs; S <= sum of X where S is sought."""
        upper = self.column_bounds[1]
        for name, of in self._eligibility.types.items():
            columns, positions, rows = self._of_type(name)
            tight = (of.needs[rows] == 0).all(axis=1) | (len(columns) <= TIGHT_AT_MOST)
            self._at_most(columns[tight], self._s[name] + positions[tight], upper[columns[tight]])
            if is_bounded:
                resources = self._eligibility.problem.resources
                idle = np.array([not resources[member].is_held for member in of.members], dtype=np.bool_)
                row_of = np.cumsum(idle) - 1
                kept = idle[positions]
                count = int(idle.sum())
                self._add(
                    np.concatenate((row_of[positions[kept]], np.arange(count))),
                    np.concatenate((columns[kept], self._s[name] + np.flatnonzero(idle))),
                    np.concatenate((-np.ones(int(kept.sum())), np.ones(count))),
                    np.full(count, -np.inf),
                    np.zeros(count),
                )

    def _shares(self, name: str, balanced: Flags, kind: int) -> tuple[Integers, Integers, Floats, Floats]:
        """Of one kind of one type: the balanced resources that have it, and the terms of their shares.

        Terms are (which of these resources, column, coefficient); last, the share that is used already.
        """
        of = self._eligibility.types[name]
        inverse = inverse_totals(of)[:, kind]
        chosen = balanced & (inverse > 0.0)
        columns, positions, rows = self._of_type(name)
        kept = chosen[positions] & (of.amounts[rows, kind] > 0.0)
        row_of = np.cumsum(chosen) - 1
        return (
            row_of[positions[kept]],
            columns[kept],
            of.amounts[rows[kept], kind] * inverse[positions[kept]],
            (of.used[:, kind] * inverse)[chosen],
        )

    def _largest_share(self, form: LinearForm) -> int:
        f = self._new_columns(np.full(1, form.others.max(initial=0.0)), np.full(1, np.inf), False)
        for name, of in self._eligibility.types.items():
            for kind in range(len(of.kinds)):
                rows, columns, values, used = self._shares(name, form.balanced[name], kind)
                count = len(used)
                self._add(
                    np.concatenate((rows, np.arange(count))),
                    np.concatenate((columns, np.full(count, f))),
                    np.concatenate((values, -np.ones(count))),
                    np.full(count, -np.inf),
                    -used,
                )
        return f

    def _squares(self, balanced: dict[str, Flags]) -> tuple[int, int]:
        shares = [
            self._shares(name, balanced[name], kind)
            for name, of in self._eligibility.types.items()
            for kind in range(len(of.kinds))
        ]
        total = sum(len(used) for *_, used in shares)
        width = np.full(total, 1.0 / PIECES)
        first = self._new_columns(
            np.zeros(PIECES * total), np.concatenate((*[width] * (PIECES - 1), np.full(total, np.inf))), False
        )
        before = 0
        for rows, columns, values, used in shares:
            count = len(used)
            pieces = first + before + np.arange(count)
            self._add(
                np.concatenate((rows, np.tile(np.arange(count), PIECES))),
                np.concatenate((columns, *(pieces + piece * total for piece in range(PIECES)))),
                np.concatenate((values, -np.ones(PIECES * count))),
                -used,
                -used,
            )
            before += count
        return first, total

    def _relation(self, job: int, relation: Relation) -> None:
        """``n_e X(j,d,r) <= sum of X(j,e,s) over the s related to r``, for each r, and the same from e to d."""
        numbers = {self._eligibility.dependencies[number].of.name: number for number in self._eligibility.numbers[job]}
        for is_first in (True, False):
            first, second = (numbers[end] for end in relation.between)
            mine, other = (first, second) if is_first else (second, first)
            count = self._eligibility.dependencies[other].of.count
            for index, position in enumerate(self._candidates[mine].tolist()):
                related = self._eligibility.related(
                    relation, first, second, self._candidates[other], position, not is_first
                )
                columns = np.concatenate(
                    ([self._start_of[mine] + index], self._start_of[other] + np.flatnonzero(related))
                ).astype(np.int64)
                values = np.concatenate(([float(count)], -np.ones(len(columns) - 1)))
                self._add(np.zeros(len(columns)), columns, values, np.full(1, -np.inf), np.zeros(1))

    def _derive(self, found: Floats) -> None:
        for name, start in self._s.items():
            columns, positions, _ = self._of_type(name)
            in_use = np.bincount(positions, found[columns], len(self._eligibility.types[name].members)) > 0.0
            held = self.column_bounds[0][start : start + len(in_use)]
            found[start : start + len(in_use)] = np.maximum(in_use.astype(np.float64), held)
        for balance in self._balances:
            shares = []
            for name, of in self._eligibility.types.items():
                for kind in range(len(of.kinds)):
                    rows, columns, values, used = self._shares(name, balance.balanced[name], kind)
                    shares.append(used + np.bincount(rows, values * found[columns], len(used)))
            every = np.concatenate(shares) if shares else np.empty(0)
            found[balance.f] = max(every.max(initial=0.0), balance.others.max(initial=0.0))
            for piece in range(PIECES):
                width = np.inf if piece == PIECES - 1 else 1.0 / PIECES
                found[balance.pieces(piece)] = np.clip(every - piece / PIECES, 0.0, width)


def _is_sought(form: LinearForm) -> bool:
    """Whether an objective is better for some resource that is in use."""
    return any(bool((values > 0.0).any() if form.is_max else (values < 0.0).any()) for values in form.s.values())


_NONE = np.empty(0, dtype=np.int64)
