"""What is passed to ``Bounds.reserve`` and what it returns; ``reserve`` decides."""

from __future__ import annotations

from math import inf
from typing import Literal, NamedTuple

Objective = Literal["cost", "per-job"]
OBJECTIVES: tuple[Objective, ...] = ("cost", "per-job")

Basis = Literal["quantile", "largest seen", "request"]
"""What a bound rests on: the distribution of values; the largest value seen or reservation that
ran out, with a margin; the job's own request."""

BASES: tuple[Basis, ...] = ("quantile", "largest seen", "request")


class Bound(NamedTuple):
    """``value`` to reserve, the estimated ``exceed_probability`` that the job needs more, and the basis.

    ``learned`` is what would be reserved if requests were not cheaper; if they are not, it equals the value.
    """

    value: float
    exceed_probability: float
    basis: Basis
    learned: float


class Case(NamedTuple):
    """What is known about a job besides its prospect.

    ``seconds`` how long it may hold the reservation, None if unknown; ``least`` what such a job gets at least, because
    others ran out; ``request`` what the user asks for and whether that ``is_limit``; ``own`` the evidence from the
    user's jobs; ``is_new`` whether none of its kind has ended; ``largest`` the largest value seen of jobs like it,
    ``largest_of_all`` of any on the site; ``owed`` the user's excess failures, ``forecast`` the job's expected use:
    both show how similar jobs have fared.
    """

    seconds: float | None = None
    least: float = 0.0
    request: float | None = None
    is_limit: bool = False
    own: int = 1
    is_new: bool = False
    largest: float = inf
    largest_of_all: float = 0.0
    owed: float = 0.0
    forecast: float | None = None
