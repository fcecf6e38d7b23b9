"""A mixed-integer linear program, built row by row, and solved by HiGHS within a deadline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import highspy
import numpy as np

from jobsight_predictor.arrays import Floats, Integers

Clock = Callable[[], float]

_WALL = 10.0
"""HiGHS's own limit, as a multiple of the time left: a clock of processor time is slow on a busy machine."""

DUAL_TOLERANCE = 1e-7
"""HiGHS's own: the coefficients of an objective differ from those of a bound by less."""

# The feasibility jump looks for a first solution, which greedy matching has found.
_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_feasibility_tolerance": 1e-9,
}


@dataclass(frozen=True, slots=True)
class Solved:
    """``values`` of the columns and ``bound`` on the objective, each None if not found.

    ``duals`` of the rows are those of a relaxation.
    """

    values: Floats | None
    bound: float | None
    is_optimal: bool
    duals: Floats | None = None


class HighsProgram:
    """Columns and rows with their bounds."""

    def __init__(self) -> None:
        self.columns = self.rows = 0
        self._has_whole = False
        self.upper = np.empty(0)
        """Of the columns."""
        self.highs = highspy.Highs()
        for option, value in _OPTIONS.items():
            self.highs.setOptionValue(option, value)

    def add_columns(self, lower: Floats, upper: Floats, is_whole: bool) -> int:
        """Add columns; return the number of the first."""
        first, count = self.columns, len(upper)
        self.highs.addVars(count, lower, upper)
        if is_whole and count:
            self._has_whole = True
            kinds = np.full(count, highspy.HighsVarType.kInteger)
            self.highs.changeColsIntegrality(count, np.arange(first, first + count, dtype=np.int32), kinds)
        self.upper = np.concatenate((self.upper, upper))
        self.columns += count
        return first

    def add_rows(self, rows: Integers, columns: Integers, values: Floats, lower: Floats, upper: Floats) -> None:
        """Add rows with the coefficients (row among the new ones, column, value)."""
        count = len(lower)
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(count)).astype(np.int32)
        self.highs.addRows(count, lower, upper, len(rows), starts, columns[order].astype(np.int32), values[order])
        self.rows += count

    def at_most(self, rows: Integers, columns: Integers, values: Floats, upper: Floats) -> None:
        """Add rows with an upper bound only."""
        self.add_rows(rows, columns, values, np.full(len(upper), -np.inf), upper)

    def keep(self, costs: Floats, lower: float, upper: float) -> None:
        """Add the row ``lower <= costs . columns <= upper``."""
        columns = np.flatnonzero(costs)
        self.add_rows(np.zeros_like(columns), columns, costs[columns], np.array([lower]), np.array([upper]))

    def solve(
        self,
        costs: Floats,
        is_max: bool,
        clock: Clock,
        until: float,
        start: Floats | None = None,
        is_relaxed: bool = False,
        step: float = 0.0,
    ) -> Solved:
        """Optimise ``costs`` from the known solution ``start``; return the best solution at ``until``.

        ``clock`` is read while HiGHS runs. With ``is_relaxed``, no column has to be whole. Values that differ do so by
        ``step`` at least: a smaller gap ends the search.
        """
        left = until - clock()
        if left <= 0.0:
            return Solved(None, None, False)
        highs = self.highs
        highs.clearSolver()
        highs.setOptionValue("time_limit", highs.getRunTime() + _WALL * left)
        highs.setOptionValue("solve_relaxation", is_relaxed)
        highs.setOptionValue("mip_abs_gap", max(1e-9, 0.9 * step))
        highs.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), costs)
        highs.changeObjectiveSense(highspy.ObjSense.kMaximize if is_max else highspy.ObjSense.kMinimize)
        if start is not None:
            known = np.flatnonzero(np.isfinite(start))
            highs.setSolution(len(known), known.astype(np.int32), start[known])

        def stop_when_due(event: highspy.HighsCallbackEvent) -> None:
            if clock() >= until:
                event.interrupt()

        for callback in (highs.cbMipInterrupt, highs.cbSimplexInterrupt, highs.cbIpmInterrupt):
            callback.clear()
            callback.subscribe(stop_when_due)
        highs.run()
        info, solution = highs.getInfo(), highs.getSolution()
        is_optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        values = np.array(solution.col_value)
        if is_relaxed and is_optimal:
            return Solved(values, info.objective_function_value, True, np.array(solution.row_dual))
        if is_relaxed:
            return Solved(None, None, False)
        is_feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        # Without a whole column, HiGHS sees a linear program.
        bound = info.mip_dual_bound if self._has_whole else info.objective_function_value
        return Solved(values if is_feasible else None, bound if np.isfinite(bound) else None, is_optimal)
