"""What a site chooses by its settings. Apart from what follows it, which takes a fifth of a second to import."""

from __future__ import annotations

from typing import Literal

Limit = Literal["auto", "yes", "no"]
"""Whether the scheduler ends jobs that exceed their request; with ``auto``, the jobs show it."""

LIMITS: tuple[Limit, ...] = ("auto", "yes", "no")

Objective = Literal["coverage", "waste"]
"""What reservations aim at: that a chosen share of jobs fits, with little waste; or the least waste, failed attempts
included."""

OBJECTIVES: tuple[Objective, ...] = ("coverage", "waste")

WINDOW_AT_MOST = 1000  # values; kept for each user and metric
BINS_AT_MOST = 200
