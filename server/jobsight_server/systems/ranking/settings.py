"""Settings of ranking."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from jobsight_server.settings.declared import Section, setting

RankMethod = Literal["survival", "grv"]


class RankingSettings(Section, frozen=True, kw_only=True):
    """The table ``[ranking]``."""

    SECTION: ClassVar[str] = "ranking"

    method: Annotated[
        RankMethod,
        setting(
            "ranking of machines: survival, the probability that a job succeeds there; grv, the grid resource vector"
        ),
    ] = "survival"

    interval_s: float = 15.0  # interval of updates of the machines' sessions and scores
    silence_s: float = 600.0  # silence of an agent that ends its machine's session; no eviction by itself


SETTINGS = RankingSettings
