"""Settings of matching."""

from __future__ import annotations

from typing import Annotated, ClassVar

from jobsight_server.settings.declared import Section, setting


class MatchingSettings(Section, frozen=True, kw_only=True):
    """The table ``[matching]``."""

    SECTION: ClassVar[str] = "matching"

    from_agents: Annotated[
        bool,
        setting("keep a compute server for each node, with the processors, memory and link use its agent reports"),
    ] = False
    hold_s: Annotated[float, setting("how long the match of a job without a duration holds, unless renewed", ge=1)] = (
        900.0
    )

    expiry_s: float = 90.0  # a resource whose state is older takes no new match, unless it is static
    deadline_s: float = 1.0  # of a batch
    round_jobs: int = 30  # queued jobs that start a round at once
    round_s: float = 0.5  # how long a queued job waits for more before a round starts
    queued_at_most: int = 10_000
    kept: int = 10_000  # ended matches; the oldest are deleted first


SETTINGS = MatchingSettings
