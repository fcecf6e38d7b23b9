"""Makes docs/use/asking-again.md: forecasts at submission, and asked again at the start of each job.

    python benchmarks/asked_again.py [--output FILE] [--jobs N] [--case TRACE:METRIC ...]

Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces; one at a time, in one process. ``--jobs`` takes
the first jobs of each only, for a quick look. The same traces give the same document.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np
from accuracy import ROOT, TRACES, workload

from jobsight_predictor.evaluation.cost import reservation_cost
from jobsight_predictor.evaluation.jobs import Jobs, first_jobs, grouped
from jobsight_predictor.evaluation.replay import Replayed, replay_both
from jobsight_predictor.evaluation.scores import summary

TEXT = Path(__file__).with_name("asked_again_text.md.in")
SEEN_AFTER_S = 300.0
RUNNING_OUT = "## Running out"

CASES = (
    ("METACENTRUM", "memory"),
    ("METACENTRUM", "runtime"),
    ("KTH-SP2", "runtime"),
    ("UniLu-Gaia", "memory"),
    ("UniLu-Gaia", "runtime"),
    ("SDSC-SP2", "runtime"),
    ("LANL-CM5", "memory"),
    ("LANL-CM5", "runtime"),
)


def rows_of(trace: str, jobs: Jobs) -> tuple[list[str], list[str]]:
    """The lines of one workload: accuracy; then what bounds held, and what they reserved.

    All answers are compared on the jobs that each of them has one for. Run times have no evidence of running jobs.
    """
    answers = replay_both(jobs)
    if jobs.metric != "runtime":
        answers += replay_both(jobs, seen_after_s=SEEN_AFTER_S)
    users = grouped([question.user for question in jobs.questions])
    compared = ~np.isnan([said.forecasts for said in answers]).any(axis=0)
    bounded = ~np.isnan([said.bounds for said in answers]).any(axis=0)
    waited_h = (jobs.started - jobs.submitted) / 3600.0
    name = [trace, jobs.metric, f"{len(jobs):,}", f"{waited_h.mean():.1f} h"]
    accuracy = []
    for said in answers:
        scores = summary(said.forecasts, jobs.values, users, compared)
        accuracy.append(f"{scores['micro']:.3f} / {scores['macro']:.3f}")
    accuracy += ["-"] * (4 - len(accuracy))
    return [*name, *accuracy], [trace, jobs.metric, *(_bounds(said, jobs, bounded) for said in answers[:2])]


def _bounds(said: Replayed, jobs: Jobs, among: np.ndarray) -> str:  # type: ignore[type-arg]
    """``held; reserved / used``: what was reserved at first, in value x time, as a multiple of what was used."""
    cost = reservation_cost(np.where(among, said.bounds, np.nan), jobs.values, jobs.seconds)
    if cost is None:
        return "-"
    reserved = (said.bounds[among] * jobs.seconds[among]).sum()
    used = (jobs.values[among] * jobs.seconds[among]).sum()
    return f"{cost.coverage:.3f}; {reserved / used:.2f}; {cost.maq:.3f}"


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", "---", *["--:"] * (len(names) - 2)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (names, rule, *rows))


def measured_apart(document: Path) -> str:
    """The section of the document that ``running_out.py`` makes, to be kept; empty if there is none."""
    known = document.read_text(encoding="utf-8") if document.exists() else ""
    _, heading, section = known.partition(RUNNING_OUT)
    return f"\n{heading}{section}" if heading else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/use/asking-again.md", metavar="FILE")
    parser.add_argument("--jobs", type=int, metavar="N", help="the first N jobs of each trace only")
    parser.add_argument("--case", nargs="+", default=[":".join(case) for case in CASES], metavar="TRACE:METRIC")
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces"))
    chosen = [case for case in CASES if ":".join(case) in args.case]
    if unknown := set(args.case) - {":".join(case) for case in CASES}:
        parser.error(f"unknown case {', '.join(sorted(unknown))}; choose from {', '.join(map(':'.join, CASES))}")
    missing = [trace for trace, _ in chosen if not (folder / TRACES[trace]).exists()]
    chosen = [case for case in chosen if case[0] not in missing]
    if not chosen:
        print(f"no trace in {folder}. Set JOBSIGHT_TRACES to the folder of the traces.", file=sys.stderr)
        return 1
    accuracy, bounds = [], []
    for trace, metric in chosen:
        jobs = workload(folder, trace, metric)
        lines = rows_of(trace, jobs if args.jobs is None else first_jobs(jobs, args.jobs))
        accuracy.append(lines[0])
        bounds.append(lines[1])
        print(" | ".join(lines[0] + lines[1][2:]), flush=True)
        twice = ("at submission", "at start")
        left_out = f"Left out, because the trace was not there: {', '.join(missing)}.\n\n" if missing else ""
        if args.jobs is not None:
            left_out += f"Of each trace, the first {args.jobs:,} jobs only.\n\n"
        written = Template(TEXT.read_text(encoding="utf-8")).substitute(
            left_out=left_out,
            accuracy=table(
                ("workload", "metric", "jobs", "mean wait", *twice, *(f"{when}, with running jobs" for when in twice)),
                accuracy,
            ),
            bounds=table(("workload", "metric", *twice), bounds),
        )
        args.output.write_text(written + measured_apart(args.output), encoding="utf-8")
    print(f"wrote {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
