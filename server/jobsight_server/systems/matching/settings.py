"""Settings of matching."""

from __future__ import annotations

from typing import Annotated, ClassVar

from jobsight_server.settings.declared import Section, setting


class MatchingSettings(Section, frozen=True, kw_only=True):
    """The table ``[matching]``."""

    SECTION: ClassVar[str] = "matching"

    hold_s: Annotated[
        float, setting("duration of a match, unless renewed, if its job states none", ge=1, le=366 * 86400)
    ] = 900.0

    expiry_s: float = 90.0  # age of the state from which on a resource takes no new match, unless it is static
    deadline_s: float = 1.0  # of a batch
    round_jobs: int = 30  # number of queued jobs that starts a round at once
    round_s: float = 0.5  # longest time that a queued job waits for a round
    queued_at_most: int = 10_000
    kept: int = 10_000  # ended matches; the oldest are deleted first


SETTINGS = MatchingSettings
