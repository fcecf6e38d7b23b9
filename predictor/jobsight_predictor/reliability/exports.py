"""Ranks in the words of other schedulers: HTCondor's ClassAd attributes and Rank, Slurm's node weights."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

ATTRIBUTE = "JobsightRank"
HIGHEST_WEIGHT = 1_000_000
"""Slurm prefers the lowest weight; its weights are 32-bit numbers, this leaves room for a site's own."""

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def classad(score: float | None) -> str:
    """The line of a machine's ClassAd, for a startd's cron job; ``undefined`` where the score is unknown."""
    value = "undefined" if score is None or not math.isfinite(score) else f"{score:.6f}"
    return f"{ATTRIBUTE} = {value}"


def rank_expression() -> str:
    """The line of a submit file: machines with a higher score first, those without one last."""
    return f"rank = ifThenElse(isUndefined(TARGET.{ATTRIBUTE}), -1.0, TARGET.{ATTRIBUTE})"


def slurm_weights(scores: Iterable[tuple[str, float | None]]) -> list[str]:
    """Lines of ``slurm.conf``, one per node, in the order given: the higher the score, the lower the weight.

    Weights are 1 + (1 - score) x 999,999, so that they do not depend on which other nodes there are; a score that is
    unknown gets the highest. Names are those of ``exportable``.
    """
    return [f"NodeName={name} Weight={weight(score)}" for name, score in scores]


def weight(score: float | None) -> int:
    """The weight of one node."""
    if score is None or not math.isfinite(score):
        return HIGHEST_WEIGHT
    return 1 + round((1.0 - min(max(score, 0.0), 1.0)) * (HIGHEST_WEIGHT - 1))


def exportable(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names that configuration files can hold, and those that they cannot."""
    good = [name for name in names if _NODE.fullmatch(name)]
    return good, [name for name in names if not _NODE.fullmatch(name)]
