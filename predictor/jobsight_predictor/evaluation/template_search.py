"""The search for a site's own set of templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from jobsight_predictor.template_text import template_text
from jobsight_predictor.templates import FIELDS, Question, Template

START: tuple[Template, ...] = (("user",), ())
"""Part of every set, and the start of the search: the user, and the whole site for unknown users."""

MOST = 12  # templates; in a set: each one costs time in every question
GAIN = 3e-4  # score; gain that makes a template worth its time

Score = Callable[[Sequence[Template]], float]


def ordered(templates: Sequence[Template]) -> tuple[Template, ...]:
    """From specific to general: those by user first, then by the number of fields, then as in ``FIELDS``."""
    return tuple(sorted(templates, key=lambda t: ("user" not in t, -len(t), [FIELDS.index(field) for field in t])))


def candidates(questions: Sequence[Question]) -> list[Template]:
    """Templates by fields that differ between these jobs: all that have the user; of the others some.

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

    templates: tuple[Template, ...]
    score: float
    tried: int
    doing: str


def search(pool: Sequence[Template], score: Score) -> Iterator[Found]:
    """Grows a set from ``START`` by the template that adds the most, then drops templates not needed; a step per trial.

    Greedy and lazy: what a template added to a smaller set is taken as the most it can add to a larger one, so that
    few are tried again. ``score`` is to be as great as possible. The last step is the result.
    """
    chosen = list(START)
    best = score(chosen)
    tried = 1
    # At first the gains are unknown, so all are tried once.
    gains = {template: 1.0 for template in pool if template not in START}
    fresh: set[Template] = set()
    while gains and len(chosen) < MOST:
        template = max(gains, key=gains.__getitem__)
        if gains[template] < GAIN:
            break
        if template in fresh:
            chosen.append(template)
            best += gains.pop(template)
            fresh.clear()
            continue
        yield Found(ordered(chosen), best, tried, f"adds {template_text(template)}")
        gains[template] = score(ordered([*chosen, template])) - best
        fresh.add(template)
        tried += 1
    dropped = True
    while dropped:
        dropped = False
        for template in [template for template in ordered(chosen) if template not in START]:
            yield Found(ordered(chosen), best, tried, f"drops {template_text(template)}")
            without = [other for other in chosen if other != template]
            tried += 1
            if (reached := score(ordered(without))) >= best:
                chosen, best, dropped = without, reached, True
    yield Found(ordered(chosen), best, tried, "done")
