"""The search for a site's own set of job groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from jobsight_predictor.question import FIELDS, JobGroup, Question, job_group_text

START: tuple[JobGroup, ...] = (("user",), ())
"""Part of every set, and the start of the search: the user, and the whole site for unknown users."""

MOST = 12  # job groups; in a set: each one costs time in every question
GAIN = 3e-4  # score; gain that makes a job group worth its time

Score = Callable[[Sequence[JobGroup]], float]


def ordered(job_groups: Sequence[JobGroup]) -> tuple[JobGroup, ...]:
    """From specific to general: those by user first, then by the number of fields, then as in ``FIELDS``."""
    return tuple(sorted(job_groups, key=lambda t: ("user" not in t, -len(t), [FIELDS.index(field) for field in t])))


def candidates(questions: Sequence[Question]) -> list[JobGroup]:
    """Job groups by fields that differ between these jobs: all that have the user; of the others some.

    Those are pairs, single fields and all fields together. More would make the search much longer for little gain.
    """
    known = [field for field in FIELDS if len({getattr(question, field) for question in questions}) > 1]
    others = [field for field in known if field != "user"]
    by_user = [("user", *some) for size in range(1, len(others) + 1) for some in combinations(others, size)]
    sizes = sorted({1, 2, len(others)} & set(range(1, len(others) + 1)))
    return [*(by_user if "user" in known else ()), *(some for size in sizes for some in combinations(others, size))]


@dataclass(frozen=True, slots=True)
class Found:
    """The best set so far, its score, and the number of sets tried; ``doing`` describes the next trial."""

    job_groups: tuple[JobGroup, ...]
    score: float
    tried: int
    doing: str


def search(pool: Sequence[JobGroup], score: Score) -> Iterator[Found]:
    """Grows a set from ``START`` by the job group that adds the most, then drops those not needed; a step per trial.

    Greedy and lazy: what a job group added to a smaller set is taken as the most it can add to a larger one, so that
    few are tried again. ``score`` is to be as great as possible. The last step is the result.
    """
    chosen = list(START)
    best = score(chosen)
    tried = 1
    # At first the gains are unknown, so all are tried once.
    gains = {job_group: 1.0 for job_group in pool if job_group not in START}
    fresh: set[JobGroup] = set()
    while gains and len(chosen) < MOST:
        job_group = max(gains, key=gains.__getitem__)
        if gains[job_group] < GAIN:
            break
        if job_group in fresh:
            chosen.append(job_group)
            best += gains.pop(job_group)
            fresh.clear()
            continue
        yield Found(ordered(chosen), best, tried, f"adds {job_group_text(job_group)}")
        gains[job_group] = score(ordered([*chosen, job_group])) - best
        fresh.add(job_group)
        tried += 1
    dropped = True
    while dropped:
        dropped = False
        for job_group in [job_group for job_group in ordered(chosen) if job_group not in START]:
            yield Found(ordered(chosen), best, tried, f"drops {job_group_text(job_group)}")
            without = [other for other in chosen if other != job_group]
            tried += 1
            if (reached := score(ordered(without))) >= best:
                chosen, best, dropped = without, reached, True
    yield Found(ordered(chosen), best, tried, "done")
