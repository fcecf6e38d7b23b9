"""Freshness of a node's samples: up, late or silent, or unknown where no agent reports."""

from __future__ import annotations

from typing import Literal

UP_WITHIN_S = 120.0
LATE_WITHIN_S = 3600.0

Status = Literal["up", "late", "silent", "unknown"]
STATUSES: tuple[Status, ...] = ("up", "late", "silent", "unknown")
"""``unknown``: no agent ever reported from the node."""


def status(age_s: float) -> Status:
    """Return ``up``, ``late`` or ``silent`` for a node last seen ``age_s`` seconds ago.

    An agent sends at least once a minute, so two minutes are one batch lost, an hour is more than a restart.

    >>> [status(age) for age in (5, 600, 86400)]
    ['up', 'late', 'silent']
    """
    if age_s <= UP_WITHIN_S:
        return "up"
    return "late" if age_s <= LATE_WITHIN_S else "silent"


def seen_at(received_at: float, last_time: float, clock_skew_s: float | None) -> float:
    """Return the time when the node was last seen, by the server's clock.

    With an agent's clock, that is the arrival of its newest batch, even if old readings waited in its spool or its
    clock is wrong. A replay has no clock: it is the time of the last reading.

    >>> seen_at(1000.0, 400.0, 0.2), seen_at(1000.0, 400.0, None), seen_at(1000.0, 1030.0, None)
    (1000.0, 400.0, 1000.0)
    """
    return received_at if clock_skew_s is not None else min(received_at, last_time)
