"""Freshness of a node's samples: up, late or silent."""

from __future__ import annotations

from typing import Literal

UP_WITHIN_S = 120.0
LATE_WITHIN_S = 3600.0

Status = Literal["up", "late", "silent"]
STATUSES: tuple[Status, ...] = ("up", "late", "silent")


def status(age_s: float) -> Status:
    """``up``, ``late`` or ``silent`` for a node that sent its last batch ``age_s`` seconds ago.

    An agent sends at least once a minute, so two minutes are one batch lost, an hour is more than a restart.

    >>> [status(age) for age in (5, 600, 86400)]
    ['up', 'late', 'silent']
    """
    if age_s <= UP_WITHIN_S:
        return "up"
    return "late" if age_s <= LATE_WITHIN_S else "silent"
