"""Share held, waste and savings of requests that recommendations lower, and time limits that they raise.

    python benchmarks/lowered.py [--jobs N] [WORKLOAD ...] > benchmarks/results/lowered.md

Each job of a trace asks before it starts and is learned when it ends. Beside the decision stand the forecast's own
reservation, a margin above the largest use of similar jobs, and the figures of release 0.3. In brackets are the ends
of the 90 % interval over users (bootstrap-t). A job that ran for its limit and at most 1 % more counts as killed for
time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from recorded_accuracy import FOLDER, first_jobs, workload
from sizing.decided import MARGIN, Ran, Recommender

from jobsight_predictor.arrays import Floats
from jobsight_predictor.evaluation.jobs import Jobs, in_time
from jobsight_scheduler.figures import resampled
from jobsight_server.decision.evidence import Resource
from jobsight_server.savings.confidence import FEWEST_USERS, LEVEL

WORKLOADS = (
    "LANL-CM5 memory",
    "METACENTRUM memory",
    "eager memory",
    "mag memory",
    "LANL-CM5 runtime",
    "SDSC-SP2 runtime",
    "KTH-SP2 runtime",
    "UniLu-Gaia runtime",
)
RULES = ("Jobsight", "forecast alone", f"largest x {MARGIN}")
DAYS = 30
HEADS = {
    "memory": ("lowered", "held of these", "wasted over used", "waste of requests", "saved", f"saved in {DAYS} days"),
    "runtime": ("lowered", "held of these", "raised", "needed by these", "more processor-hours requested"),
}
RELEASE = {
    "LANL-CM5 memory": ("0.299", "0.970 of 28,248", "0.482", "1.245", "", "18.3%"),
    "METACENTRUM memory": ("0.995", "0.952 of 101,984", "1.336", "", "", ""),
    "eager memory": ("0.626", "0.956 of 986", "0.464", "0.594", "8.2%", "8.2%"),
    "mag memory": ("0.840", "0.994 of 5,242", "3.395", "5.440", "31.8%", "31.8%"),
    "LANL-CM5 runtime": ("0.088", "0.920 of 9,706", "0.701", "0.460", ""),
    "SDSC-SP2 runtime": ("0.022", "0.888 of 1,201", "0.028", "0.101", ""),
    "KTH-SP2 runtime": ("0.000", "", "0.009", "0.108", ""),
    "UniLu-Gaia runtime": ("0.050", "0.888 of 2,570", "0.114", "0.092", ""),
}
"""Figures of release 0.3 for whole traces, in the order of ``HEADS``."""
DAY_S = 86400.0
Mask = NDArray[np.bool_]


def amounts(jobs: Jobs, resource: Resource) -> Floats:
    """Return what each rule recommends for each job, (rules, jobs), in the unit of the values, NaN where nothing."""
    product, found = Recommender(resource), np.full((len(RULES), len(jobs)), np.nan)
    columns = (jobs.values, jobs.seconds, jobs.submitted, jobs.ended, jobs.requested)
    for event, i in in_time(jobs, "completion"):
        question, count = jobs.questions[i], product.count(jobs.questions[i])
        value, seconds, submitted, ended, asked = (float(column[i]) for column in columns)
        if event == "finish":
            is_killed = resource == "runtime" and asked <= value <= 1.01 * asked
            product.learn(i, Ran(value, seconds, submitted, ended, "time" if is_killed else None))
        else:
            advised = product.ask(i, question, count * asked if asked > 0.0 else None)
            found[:, i] = np.array(advised, dtype=float) / count
    return found


class Users:
    """Ratios of sums over jobs, with intervals over the users of the jobs."""

    def __init__(self, names: list[str | None]) -> None:
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self._user, self._count = np.array([places[name] for name in names]), len(places)

    def ratio(self, part: Floats | Mask, whole: Floats | Mask, form: str = ".3f") -> str:
        """Write the sum of ``part`` over that of ``whole``, with its interval; empty if the latter is 0."""
        if not whole.sum():
            return ""
        value = f"{part.sum() / whole.sum():{form}}"
        if self._count < FEWEST_USERS:
            return value
        _, low, high = resampled(part, self._user, whole, LEVEL)
        return value if low is None or high is None else f"{value} ({low:{form}} to {high:{form}})"

    def held(self, holds: Mask, of: Mask) -> str:
        """Write the share that holds, with the number of jobs."""
        return f"{self.ratio(holds, of)} of {of.sum():,}" if of.any() else ""


def rows(name: str, jobs: Jobs, resource: Resource) -> Iterator[str]:
    """Yield a line for each rule: of the jobs with a request; where none has one, of all, and nothing is saved."""
    found, of = amounts(jobs, resource), jobs.requested > 0.0
    has_requests = bool(of.any())
    of |= not has_requests
    cells_of = memory_cells if resource == "memory" else limit_cells
    users = Users([question.user for question, counts in zip(jobs.questions, of, strict=True) if counts])
    trace = f"{name}, {len(jobs):,} jobs"
    for rule, amount in zip(RULES, found, strict=True):
        if has_requests or not np.isnan(amount).all():
            yield _line([trace, rule, *cells_of(jobs, of, amount[of], users, has_requests=has_requests)])
            trace = ""
    yield _line([trace, "release 0.3, all jobs", *RELEASE.get(name, [""] * len(HEADS[resource]))])


def memory_cells(jobs: Jobs, of: Mask, amount: Floats, users: Users, *, has_requests: bool) -> list[str]:
    """Return the cells of ``HEADS``; a job that its amount does not hold gets what it requested, or used, as well."""
    used, seconds = jobs.values[of], jobs.seconds[of]
    asked = jobs.requested[of] if has_requests else used
    lowered = amount < asked if has_requests else amount > 0.0
    holds = lowered & (used <= amount)
    reserved = np.where(lowered, amount, asked) + asked * (lowered & ~holds)
    wasted = [users.ratio((given - np.minimum(used, given)) * seconds, used * seconds) for given in (reserved, asked)]
    cells = [users.ratio(lowered, np.ones_like(lowered)), users.held(holds, lowered), wasted[0]]
    if not has_requests:
        return [*cells, "", "", ""]
    is_early = jobs.ended[of] - jobs.submitted.min() <= DAYS * DAY_S
    saved = [
        users.ratio((asked - reserved) * weight, asked * weight, ".1%") for weight in (seconds, seconds * is_early)
    ]
    return [*cells, wasted[1], *saved]


def limit_cells(jobs: Jobs, of: Mask, amount: Floats, users: Users, *, has_requests: bool) -> list[str]:
    """Return the cells of ``HEADS``; a job needed a longer limit if it ran beyond the one that it requested."""
    used, asked = jobs.values[of], jobs.requested[of] if has_requests else np.full(int(of.sum()), np.inf)
    lowered, raised = amount < asked, amount > asked
    processors = np.array([question.processors or 1 for question in jobs.questions], dtype=float)[of]
    more = np.where(raised, amount - asked, 0.0) * processors
    return [
        users.ratio(lowered, np.ones_like(lowered)),
        users.held(lowered & (used <= amount), lowered),
        users.ratio(raised, np.ones_like(raised)),
        users.held(raised & (used > asked), raised),
        users.ratio(more, asked * processors, ".1%"),
    ]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, help="such as 'LANL-CM5 memory' (default: all)")
    parser.add_argument("--jobs", type=int, help="first jobs of a trace (default: all)")
    args = parser.parse_args()
    print("# Requests that are lowered, and limits that are raised\n\n`python benchmarks/lowered.py`; .95 should hold.")
    headed = None
    for name in args.workloads:
        trace, metric = name.split(" ")
        resource: Resource = "memory" if metric == "memory" else "runtime"
        if resource != headed:
            heads = ["trace", "rule", *HEADS[resource]]
            print(f"\n{_line(heads)}\n|{'---|' * len(heads)}")
            headed = resource
        for line in rows(name, first_jobs(workload(FOLDER, trace, metric), args.jobs), resource):
            print(line, flush=True)


if __name__ == "__main__":
    main()
