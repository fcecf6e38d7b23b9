"""The integer program of a batch as text: LP format (of CPLEX), and AMPL with its data.

Names are made of positions, since names of jobs and resources may hold anything: Z3 is job 3 of the batch, X3_1_7 its
dependency 1 on resource 7, both counted from 0; comments say which is which. Identical jobs are one Z with their number
as the upper bound. Of several objectives the first is written: the optimum of each would have to be known for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from .classes import job_classes
from .eligibility import Eligibility
from .problem import Problem
from .program import Program
from .stages import stages_of

Floats = NDArray[np.float64]

_WIDTH = 6
"""Terms a line."""


def lp_text(problem: Problem) -> str:
    """The program in LP format."""
    return "\n".join(_lp(*_program(problem))) + "\n"


def ampl_text(problem: Problem) -> str:
    """The program as an AMPL model with its data, for ``option solver ...; solve;``."""
    return "\n".join(_ampl(*_program(problem))) + "\n"


WRITERS: dict[str, Callable[[Problem], str]] = {"lp": lp_text, "ampl": ampl_text}


def _program(problem: Problem) -> tuple[Program, Floats, bool, list[str], list[str]]:
    eligibility = Eligibility(problem)
    candidates = eligibility.eligible()
    stages = stages_of(problem.objectives[:1], eligibility, candidates)
    classes = job_classes(problem, tuple(job.priority for job in problem.jobs))
    program = Program(eligibility, candidates, classes, [stage.form for stage in stages if stage.form is not None])
    comments = [f"objective {_plain(problem.objectives[0].name)}"]
    comments += [f"job {index}: {_plain(job.name)}" for index, job in enumerate(problem.jobs)]
    comments += [f"resource {index}: {_plain(resource.name)}" for index, resource in enumerate(problem.resources)]
    return program, stages[0].costs(program), stages[0].is_max, program.names(), comments


def _plain(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode().replace("\n", "\\n").replace("\r", "\\r")


def _lp(program: Program, costs: Floats, is_max: bool, names: list[str], comments: list[str]) -> Iterator[str]:
    yield from (f"\\ {comment}" for comment in comments)
    yield "Maximize" if is_max else "Minimize"
    yield f" objective: {_terms(costs, names)}"
    yield "Subject To"
    lower, upper = program.row_bounds
    for row, terms in enumerate(_rows(program)):
        text = _terms(terms, names)
        if lower[row] == upper[row]:
            yield f" r{row}: {text} = {lower[row]:.17g}"
        else:
            if np.isfinite(upper[row]):
                yield f" r{row}: {text} <= {upper[row]:.17g}"
            if np.isfinite(lower[row]):
                yield f" l{row}: {text} >= {lower[row]:.17g}"
    yield "Bounds"
    for name, low, high in zip(names, *program.column_bounds, strict=True):
        yield f" {low:.17g} <= {name}" + (f" <= {high:.17g}" if np.isfinite(high) else "")
    yield "General"
    whole = [name for name, flag in zip(names, program.is_whole, strict=True) if flag]
    for start in range(0, len(whole), 2 * _WIDTH):
        yield " " + " ".join(whole[start : start + 2 * _WIDTH])
    yield "End"


def _ampl(program: Program, costs: Floats, is_max: bool, names: list[str], comments: list[str]) -> Iterator[str]:
    yield from (f"# {comment}" for comment in comments)
    for name, low, high, whole in zip(names, *program.column_bounds, program.is_whole, strict=True):
        bounds = f" >= {low:.17g}" + (f", <= {high:.17g}" if np.isfinite(high) else "")
        yield f"var {name}{' integer' if whole else ''}{',' if whole else ''}{bounds};"
    yield f"{'maximize' if is_max else 'minimize'} objective: {_product(costs, names)};"
    lower, upper = program.row_bounds
    for row, terms in enumerate(_rows(program)):
        text = _product(terms, names)
        if lower[row] == upper[row]:
            yield f"subject to r{row}: {text} = {lower[row]:.17g};"
        else:
            if np.isfinite(upper[row]):
                yield f"subject to r{row}: {text} <= {upper[row]:.17g};"
            if np.isfinite(lower[row]):
                yield f"subject to l{row}: {text} >= {lower[row]:.17g};"


def _rows(program: Program) -> Iterator[dict[int, float]]:
    rows, columns, values = program.coefficients
    order = np.argsort(rows, kind="stable")
    ends = np.searchsorted(rows[order], np.arange(program.rows + 1))
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        part = order[start:end]
        yield dict(zip(columns[part].tolist(), values[part].tolist(), strict=True))


def _entries(terms: Floats | dict[int, float]) -> list[tuple[int, float]]:
    if isinstance(terms, dict):
        return list(terms.items())
    return [(column, float(terms[column])) for column in np.flatnonzero(terms).tolist()]


def _terms(terms: Floats | dict[int, float], names: list[str]) -> str:
    return _joined(
        [f"{'-' if value < 0 else '+'} {abs(value):.17g} {names[at]}" for at, value in _entries(terms)], names
    )


def _product(terms: Floats | dict[int, float], names: list[str]) -> str:
    return _joined([f"{'-' if value < 0 else '+'} {abs(value):.17g}*{names[at]}" for at, value in _entries(terms)], [])


def _joined(parts: list[str], names: list[str]) -> str:
    """Lines of a few terms each; an empty sum is nothing times some column, where a format wants one."""
    if not parts:
        return f"0 {names[0]}" if names else "0"
    lines = [" ".join(parts[start : start + _WIDTH]) for start in range(0, len(parts), _WIDTH)]
    return "\n  ".join(lines)
