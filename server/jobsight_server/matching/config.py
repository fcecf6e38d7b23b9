"""How a site matches: deadlines, holds, rounds, expiry, and how many jobs wait or are kept."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_server.settings import Settings


@dataclass(frozen=True, slots=True)
class MatchConfig:
    """A round starts when ``round_jobs`` jobs wait, or one has waited ``round_s``."""

    deadline_s: float = 1.0
    hold_s: float = 900.0
    expiry_s: float = 90.0
    round_jobs: int = 30
    round_s: float = 0.5
    queued: int = 10_000
    kept: int = 10_000
    future_s: float = 300.0


def match_config(settings: Settings) -> MatchConfig:
    """The configuration from the settings."""
    return MatchConfig(
        deadline_s=settings.match_deadline_s,
        hold_s=settings.match_hold_s,
        expiry_s=settings.resource_expiry_s,
        round_jobs=settings.match_round_jobs,
        round_s=settings.match_round_s,
        queued=settings.matches_queued,
        kept=settings.matches_kept,
        future_s=settings.max_future_s,
    )
