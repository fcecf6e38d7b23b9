"""Ranks for other schedulers: HTCondor's ClassAd attributes and Rank, Slurm's node weights."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

ATTRIBUTE = "JobsightRank"
HIGHEST_WEIGHT = 1_000_000
"""Slurm prefers low weights, of 32 bits; this maximum leaves room for a site's own."""

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def classad(score: float | None) -> str:
    """Write a line of a machine's ClassAd, for a startd's cron job; ``undefined`` if the score is unknown."""
    value = "undefined" if score is None or not math.isfinite(score) else f"{score:.6f}"
    return f"{ATTRIBUTE} = {value}"


def rank_expression() -> str:
    """Write the line of a submit file that prefers high scores; machines without a score come last."""
    return f"rank = ifThenElse(isUndefined(TARGET.{ATTRIBUTE}), -1.0, TARGET.{ATTRIBUTE})"


def slurm_weights(scores: Iterable[tuple[str, float | None]]) -> list[str]:
    """Write a line of ``slurm.conf`` per node, in the order given: the higher the score, the lower the weight.

    Weights are 1 + (1 - score) x 999,999, independent of other nodes; an unknown score gets the highest weight.
    Names come from ``exportable``.
    """
    return [f"NodeName={name} Weight={weight(score)}" for name, score in scores]


def weight(score: float | None) -> int:
    """Compute the weight of one node."""
    if score is None or not math.isfinite(score):
        return HIGHEST_WEIGHT
    return 1 + round((1.0 - min(max(score, 0.0), 1.0)) * (HIGHEST_WEIGHT - 1))


def exportable(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names into those that configuration files can hold and the others."""
    good = [name for name in names if _NODE.fullmatch(name)]
    return good, [name for name in names if not _NODE.fullmatch(name)]
