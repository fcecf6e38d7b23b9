"""The integer program and its relaxation, solved by HiGHS within a deadline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

from .program import Program

Floats = NDArray[np.float64]
Clock = Callable[[], float]

_WALL = 10.0
"""HiGHS itself stops after so many times the time that is left: a clock of processor time is slow on a busy machine."""

_STRICT = 1e-9

_SOLVED = (highspy.HighsModelStatus.kOptimal,)


@dataclass(frozen=True, slots=True)
class Solved:
    """``values`` of the columns, None where none were found; ``bound`` on the objective, None where none is known.

    ``duals`` of the rows are those of a relaxation.
    """

    values: Floats | None
    bound: float | None
    is_optimal: bool
    duals: Floats | None = None


def solve(
    program: Program,
    costs: Floats,
    is_max: bool,
    clock: Clock,
    until: float,
    start: Floats | None = None,
    is_relaxed: bool = False,
    is_strict: bool = False,
) -> Solved:
    """The optimum of ``costs`` over the program, from the known solution ``start``; the best there is at ``until``.

    ``clock`` is asked while HiGHS runs. With ``is_relaxed``, no column has to be whole; with ``is_strict``, rows hold
    within 1e-9 instead of 1e-6, which takes a third longer.
    """
    left = until - clock()
    if left <= 0.0:
        return Solved(None, None, False)
    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("parallel", "off"),
        ("random_seed", 0),
        ("time_limit", _WALL * left),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 1e-9),
    ):
        solver.setOptionValue(option, value)
    if is_strict:
        solver.setOptionValue("mip_feasibility_tolerance", _STRICT)
        solver.setOptionValue("primal_feasibility_tolerance", _STRICT)
    solver.passModel(_model(program, costs, is_max, is_relaxed))
    if start is not None and not is_relaxed:
        known = highspy.HighsSolution()
        known.col_value = start
        solver.setSolution(known)

    def stop_when_due(event: highspy.HighsCallbackEvent) -> None:
        if clock() >= until:
            event.interrupt()

    solver.cbMipInterrupt += stop_when_due
    solver.cbSimplexInterrupt += stop_when_due
    solver.cbIpmInterrupt += stop_when_due
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    is_optimal = status in _SOLVED
    if is_relaxed:
        if not is_optimal:
            return Solved(None, None, False)
        solution = solver.getSolution()
        return Solved(np.array(solution.col_value), info.objective_function_value, True, np.array(solution.row_dual))
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = np.array(solver.getSolution().col_value) if feasible else None
    # Without a whole column it is no integer program to HiGHS.
    bound = info.mip_dual_bound if program.is_whole.any() else info.objective_function_value
    return Solved(values, bound if np.isfinite(bound) else None, is_optimal)


def _model(program: Program, costs: Floats, is_max: bool, is_relaxed: bool) -> highspy.HighsLp:
    rows, columns, values = program.coefficients
    order = np.argsort(rows, kind="stable")
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.columns, program.rows
    lp.col_cost_ = costs
    lp.col_lower_, lp.col_upper_ = program.column_bounds
    lp.row_lower_, lp.row_upper_ = program.row_bounds
    lp.sense_ = highspy.ObjSense.kMaximize if is_max else highspy.ObjSense.kMinimize
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=program.rows)))).astype(np.int32)
    lp.a_matrix_.index_ = columns[order].astype(np.int32)
    lp.a_matrix_.value_ = values[order]
    if not is_relaxed:
        whole = highspy.HighsVarType.kInteger
        lp.integrality_ = [whole if flag else highspy.HighsVarType.kContinuous for flag in program.is_whole.tolist()]
    return lp
