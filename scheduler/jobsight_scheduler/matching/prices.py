"""The price heuristic: a price for each capacity, found by subgradient steps on the Lagrangian dual.

With the capacity rows priced instead of kept, every job chooses the cheapest instances and is matched if it is worth
more than they cost. The value of that, plus the price of all capacities, is an upper bound on the optimum at any prices
(Geoffrion 1974). Prices rise where more is chosen than there is and fall elsewhere (Held, Wolfe and Crowder 1974, with
the step of Polyak). Relations are left out, which keeps the bound valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, Integers
from .eligibility import Eligibility
from .objectives import LinearForm

Singles = NDArray[np.float32]

_STEPS = 60
_TYPE_STEPS = 120
_PATIENCE = 5
_ROUNDING = 1e-6  # of the sums in single precision
_OUT_OF_REACH = np.float32(1e30)


@dataclass(frozen=True, slots=True)
class Priced:
    """The ``bound`` that the prices prove; ``margins`` (jobs,), what each job is worth beyond its cost."""

    bound: float
    margins: Floats


@dataclass(slots=True)
class _Type:
    """Dependencies of one type that can be matched at all, (D, K) needs in shares of a capacity ``scale`` (R, K)."""

    numbers: Integers
    jobs: Integers
    counts: Integers
    several: Integers
    needs: Singles
    inverse: Singles
    penalty: Singles


class PriceSearch:
    """Subgradient steps on one batch, for an objective in Z and X that is maximised."""

    def __init__(self, eligibility: Eligibility, candidates: list[Integers], form: LinearForm) -> None:
        self._weights = form.z
        self._possible = eligibility.possible(candidates)
        self._types: dict[str, _Type] = {}
        for name, of in eligibility.types.items():
            rows = [number for number in eligibility.rows[name] if self._possible[eligibility.dependencies[number].job]]
            if not rows or not len(of.members):
                continue
            entries = [eligibility.dependencies[number] for number in rows]
            counts = np.array([entry.of.count for entry in entries], dtype=np.int64)
            penalty = np.full((len(rows), len(of.members)), _OUT_OF_REACH, dtype=np.float32)
            for row, number in enumerate(rows):
                penalty[row, candidates[number]] = 0.0 if form.x is None else -form.x[number]
            self._types[name] = _Type(
                np.array(rows, dtype=np.int64),
                np.array([entry.job for entry in entries], dtype=np.int64),
                counts,
                np.flatnonzero(counts > 1),
                of.needs[[entry.row for entry in entries]].astype(np.float32),
                (1.0 / np.maximum(of.free, 1)).astype(np.float32),
                penalty,
            )
        self.prices = self._by_type()

    def search(self, target: float, clock: Callable[[], float], until: float) -> Priced:
        """``target`` is the value of known matches, to which steps are scaled."""
        best, best_margins = np.inf, self._weights
        pace, stalled = 0.3, 0
        direction = {name: np.zeros_like(prices) for name, prices in self.prices.items()}
        for _ in range(_STEPS):
            bound, margins, slopes = self._step()
            if bound < best - 1e-4 * abs(best if np.isfinite(best) else 1.0):
                stalled = 0
            else:
                stalled += 1
                if stalled >= _PATIENCE:
                    pace, stalled = pace / 2.0, 0
            if bound < best:
                best, best_margins = bound, margins
            length = 0.0
            for name, slope in slopes.items():
                direction[name] = 0.7 * slope + 0.3 * direction[name]
                length += float((direction[name] ** 2).sum())
            distance = bound - target
            if length <= 1e-12 or distance <= 1e-9 * max(1.0, abs(target)) or clock() >= until:
                break
            for name in self.prices:
                self.prices[name] = np.maximum(self.prices[name] + pace * distance / length * direction[name], 0.0)
        return Priced(best * (1.0 + _ROUNDING), best_margins)

    def _by_type(self) -> dict[str, Floats]:
        """Prices to start from: those of the batch with all resources of a type as one, in proportion to capacities.

        So few prices are found by multiplicative steps in no time, and where most jobs may use most resources they are
        nearly the best ones.
        """
        shares, each = {}, {}
        rows = sum(of.needs.shape[1] for of in self._types.values())
        for name, of in self._types.items():
            free = 1.0 / of.inverse.astype(np.float64)
            totals = free.sum(axis=0)
            shares[name] = of.needs.astype(np.float64) * of.counts[:, None] / totals
            each[name] = free / totals
        worth = float(np.maximum(self._weights + self._gains(), 0.0).sum())
        prices = {name: np.full(of.needs.shape[1], worth / (2.0 * rows)) for name, of in self._types.items()}
        best, least = prices, np.inf
        for step in range(_TYPE_STEPS):
            cost, bound = -self._gains(), 0.0
            for name, of in self._types.items():
                cost += np.bincount(of.jobs, shares[name] @ prices[name], len(cost))
                bound += float(prices[name].sum())
            margins = np.where(self._possible, self._weights - cost, 0.0)
            bound += float(np.maximum(margins, 0.0).sum())
            if bound < least:
                best, least = prices, bound
            taken = margins > 0.0
            pace = 0.5 / (1.0 + step / 10.0)
            prices = {
                name: prices[name] * np.exp(pace * np.clip(shares[name][taken[of.jobs]].sum(axis=0) - 1.0, -1.0, 1.0))
                for name, of in self._types.items()
            }
        return {name: each[name] * best[name] for name in self._types}

    def _gains(self) -> Floats:
        """For each job the most that X adds to its weight, wherever its instances are."""
        gains = np.zeros(len(self._weights))
        for of in self._types.values():
            if of.penalty.size:
                gains += np.bincount(of.jobs, -of.penalty.min(axis=1).astype(np.float64) * of.counts, len(gains))
        return gains

    def _step(self) -> tuple[float, Floats, dict[str, Floats]]:
        """The bound that the present prices prove, the margins, and how far each capacity is overdrawn, in shares."""
        cost = np.zeros(len(self._weights))
        choices: dict[str, list[tuple[Integers, Integers]]] = {}
        for name, of in self._types.items():
            priced = of.needs @ (self.prices[name].astype(np.float32) * of.inverse).T
            priced += of.penalty
            choice = priced.argmin(axis=1)
            rows = np.arange(len(choice))
            least = priced[rows, choice].astype(np.float64)
            choices[name] = [(rows, choice)]
            for row in of.several.tolist():
                count = int(of.counts[row])
                cheapest = np.argpartition(priced[row], count - 1)[:count]
                least[row] = float(priced[row, cheapest].sum(dtype=np.float64))
                more = cheapest[cheapest != choice[row]][: count - 1]
                choices[name].append((np.full(len(more), row), more))
            cost += np.bincount(of.jobs, least, len(cost))
        margins = np.where(self._possible, self._weights - cost, -np.inf)
        taken = margins > 0.0
        bound = float(margins[taken].sum())
        slopes = {}
        for name, of in self._types.items():
            used: Floats = np.zeros(of.inverse.shape)
            for rows, positions in choices[name]:
                keep = taken[of.jobs[rows]]
                chosen, on = rows[keep], positions[keep]
                share = of.needs[chosen] * of.inverse[on]
                for kind in range(of.needs.shape[1]):
                    used[:, kind] += np.bincount(on, share[:, kind], len(used))
            slopes[name] = used - 1.0
            bound += float(self.prices[name].sum())
        return bound, margins, slopes
