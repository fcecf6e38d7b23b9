"""Halves and doubles each constant of the predictor or switches it off, on two traces, for docs/develop/constants.md.

    python benchmarks/constants.py [--jobs 10000] [--only PACE ..] [--output docs/develop/constants.md]

Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces. What was measured is kept in .constants.jsonl:
a run that was interrupted goes on where it was, unless the code gives other results by now.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from constants_document import Effect, document
from numpy.typing import NDArray
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from jobsight_predictor.evaluation.jobs import Jobs, first_jobs
from jobsight_predictor.evaluation.replay import replay_jobsight
from jobsight_predictor.profile.steps import wasted
from jobsight_predictor.question import Objective
from jobsight_predictor.series import NEAR
from jobsight_scheduler.workload.backtest_jobs import jobs_of_trace
from jobsight_scheduler.workload.swf import read_swf

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "predictor/jobsight_predictor"
STATE = ROOT / ".constants.jsonl"
TRACES = {"UniLu-Gaia": "UniLu-Gaia-2014-2.swf.gz", "LANL-CM5": "LANL-CM5-1994-4.1-cln.swf.gz"}
MODULES = ("forecasters/decayed_mode.py", *(f"profile/{file.name}" for file in sorted(PACKAGE.glob("profile/*.py"))))
"""Where the constants are on which Jobsight's answers rest."""

LINE = re.compile(r"^([A-Z_]+)(?:: [^=]+)? = (.+?)  # ([^;\n]+); (.+)$", re.MULTILINE)
"""A line of a module's table: name, value, unit, meaning."""

NOT_VARIED = {
    "AGREEING": "bounds the model, not the answers",
    "BEYOND": "what counts as rounding",
    "DIFFERENT": "for display",
    "GROWTH_S": "of running jobs, which no backtest has",
    "HELD_WITHIN": "of running jobs, which no backtest has",
    "LEAST_FIT": "changes no result, saves a twelfth of the CPU",
    "MEASURED_LAST": "of running jobs, which these replays leave out",
    "NEARLY_ALL": "of running jobs, which no backtest has",
    "NEAR_LIMIT": "of running jobs, which no backtest has",
    "RETRIES": "part of how waste is measured",
    "ROUNDED": "no trace reports failed reservations",
    "SHOWN": "for display",
    "STAYS": "bounds the model: backtests forget nothing",
    "USUAL": "where the first price holds, which is varied",
}
OFF: dict[str, Any] = {
    "BURST": math.inf,
    "CAUTION": 0.0,
    "CAUTIOUS": math.inf,
    "DOUBTED": 0.0,
    "FADE": 1.0,
    "FAINT": 0.0,
    "FAINTEST": 0.0,
    "FALL": 1.0,
    "HASTE": 0.0,
    "HIGHEST": math.inf,
    "LOWEST": -math.inf,
    "MEAN_OF": 10**9,
    "SAME": 0.0,
    "SHIFT": 1.0,
    "SPREAD": ((1.0, 1.0),),
    "STEADY": 0.0,
    "STEEPNESS": 0.0,
    "UNSEEN": 0.0,
}
"""Values with which what a constant is for does not happen at all, where there is one."""

BLOCK = 100
"""Jobs in a row whose differences are taken as one observation: those of a burst are not independent."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is replayed: constants that only matter elsewhere are varied there."""

    metric: str = "memory"
    objective: Objective = "coverage"
    coverage: float = 0.95

    def __str__(self) -> str:
        return f"{self.metric}, {self.objective}, {self.coverage:.0%}"


ELSEWHERE = {
    "STEEPNESS": Setting(coverage=0.9),
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A line of a module's table."""

    module: str
    name: str
    value: str
    unit: str
    meaning: str


def constants() -> list[Constant]:
    """All constants of `MODULES`, in the order of the code."""
    return [
        Constant(module, *match.groups())
        for module in MODULES
        for match in LINE.finditer((PACKAGE / module).read_text())
    ]


def varied(constant: Constant, value: Any, by: float) -> dict[str, Any]:
    """What takes the place of the constant's value, by a name for each part of it that is varied by itself.

    ``by`` 0 switches off what the constant is for.
    """
    name = constant.name
    if not by:
        return {name: OFF[name]} if name in OFF else {}
    if name == "SPREAD":  # how far above, and how many lie there
        far = tuple((1.0 + (up - 1.0) * by, share) for up, share in value)
        above = tuple((up, share * by) for up, share in value[1:])
        many = ((1.0, 1.0 - sum(share for _, share in above)), *above)
        return {"SPREAD, distance": far, "SPREAD, share": many}
    if name == "FADES":
        parts = zip(("short", "medium", "long"), range(3), strict=True)
        return {
            f"FADES, {memory}": tuple(_faded(fade, by) if i == k else fade for i, fade in enumerate(value))
            for memory, k in parts
        }
    if isinstance(value, tuple) and min(value) >= 1.0:  # factors: their distance from 1
        return {name: tuple(1.0 + (factor - 1.0) * by for factor in value)}
    if isinstance(value, tuple):
        return {name: tuple(part * by for part in value)}
    if name.endswith("FADE"):
        return {name: _faded(value, by)}
    if isinstance(value, int):
        return {name: max(1, round(value * by))}
    return {name: value * by}


def _faded(fade: float, by: float) -> float:
    """A memory of `by` times the length."""
    return 1.0 - (1.0 - fade) / by


@contextmanager
def replaced(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    """The module with another value of one of its constants."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one replay comes to, job by job, each (n,): NaN where nothing was answered."""

    hit: NDArray[np.float64]
    brier: NDArray[np.float64]
    held: NDArray[np.float64]
    waste: NDArray[np.float64]

    def digest(self) -> str:
        """Differs where results differ."""
        return hashlib.sha256(b"".join(column.tobytes() for column in (self.brier, self.waste))).hexdigest()[:16]


def outcome(jobs: Jobs, setting: Setting) -> Outcome:
    """Replays the jobs."""
    replayed = replay_jobsight(jobs, "completion", coverage=setting.coverage, objective=setting.objective)
    answered, bounded = ~np.isnan(replayed.forecasts), ~np.isnan(replayed.bounds)
    hit = np.where(answered, np.abs(replayed.forecasts - jobs.values) <= NEAR * jobs.values, np.nan)
    rows = zip(replayed.bounds.tolist(), jobs.values.tolist(), jobs.seconds.tolist(), strict=True)
    waste = np.array([wasted(bound, value) * seconds if bound == bound else np.nan for bound, value, seconds in rows])
    return Outcome(
        hit=hit,
        brier=(replayed.probabilities - hit) ** 2,
        held=np.where(bounded, jobs.values <= replayed.bounds, np.nan),
        waste=waste,
    )


def effects(before: Outcome, after: Outcome) -> dict[str, Effect]:
    """Of each column, the change of its mean and the standard error of that by blocks of jobs.

    Shares and scores in points (0.01), waste in per cent of what it was.
    """
    found = {}
    for name in ("hit", "brier", "held", "waste"):
        old, new = getattr(before, name), getattr(after, name)
        difference = (new - old)[~np.isnan(old) & ~np.isnan(new)]
        scale = 100.0 / (float(np.nanmean(old)) if name == "waste" else 1.0)
        blocks = np.array([part.sum() for part in np.array_split(difference, max(2, len(difference) // BLOCK))])
        error = float(blocks.std(ddof=1)) * len(blocks) ** 0.5 / len(difference)
        found[name] = Effect(float(difference.mean()) * scale, error * scale)
    return found


def measure(folder: Path, n: int, wanted: Sequence[Constant], state: Path) -> list[dict[str, Any]]:
    """A line for each part of each constant, direction and trace; those in `state` are not measured again."""
    settings = list(dict.fromkeys(ELSEWHERE.get(constant.name, Setting()) for constant in wanted))
    jobs = {
        (trace, metric): first_jobs(jobs_of_trace(read_swf(folder / file), metric, trace), n)
        for trace, file in TRACES.items()
        for metric in dict.fromkeys(setting.metric for setting in settings)
    }
    kept = {_key(line): line for line in map(json.loads, state.read_text().splitlines())} if state.exists() else {}
    lines = []
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress, state.open("a") as log:
        task = progress.add_task("as they are", total=None)
        found = {
            (trace, setting): outcome(jobs[trace, setting.metric], setting) for trace in TRACES for setting in settings
        }
        cases = [
            (constant, part, by, value, trace)
            for constant in wanted
            for by in (0.5, 2.0, 0.0)
            for part, value in varied(constant, getattr(_module(constant), constant.name), by).items()
            for trace in TRACES
        ]
        progress.update(task, total=len(cases))
        for constant, part, by, value, trace in cases:
            progress.update(task, description=f"{part} x {by:g}")
            setting = ELSEWHERE.get(constant.name, Setting())
            before = found[trace, setting]
            line: dict[str, Any] = {
                "module": constant.module, "constant": constant.name, "was": constant.value, "part": part, "by": by,
                "trace": trace, "setting": str(setting), "jobs": n, "digest": before.digest(),
            }  # fmt: skip
            if _key(line) in kept:
                line = kept[_key(line)]
            else:
                begin = time.process_time()
                with replaced(_module(constant), constant.name, value):
                    after = outcome(jobs[trace, setting.metric], setting)
                line["cpu_s"] = round(time.process_time() - begin, 2)
                line["effects"] = {name: effect._asdict() for name, effect in effects(before, after).items()}
                log.write(json.dumps(line) + "\n")
                log.flush()
            lines.append(line)
            progress.advance(task)
    return lines


def _module(constant: Constant) -> ModuleType:
    return importlib.import_module("jobsight_predictor." + constant.module.removesuffix(".py").replace("/", "."))


def _key(line: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("module", "constant", "was", "part", "by", "trace", "setting", "jobs", "digest")
    return tuple(line[name] for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000, metavar="N", help="of each trace, the first (10000)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these constants, and write no document")
    parser.add_argument("--state", type=Path, default=STATE, metavar="FILE", help="what was measured")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/develop/constants.md", metavar="FILE")
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces"))
    if missing := [name for name in TRACES.values() if not (folder / name).exists()]:
        print(f"not in {folder}: {', '.join(missing)}. Set JOBSIGHT_TRACES to their folder.", file=sys.stderr)
        return 1
    table = constants()
    wanted = [
        constant
        for constant in table
        if constant.name not in NOT_VARIED and (not args.only or constant.name in args.only)
    ]
    lines = measure(folder, args.jobs, wanted, args.state)
    text = document(table, NOT_VARIED, lines, args.jobs)
    if args.only:
        print(text)
    else:
        args.output.write_text(text, encoding="utf-8")
        print(f"wrote {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
