"""How a site ranks its machines: by which method, with which terms."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobsight_predictor.reliability.resource_vector import VectorSettings
from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.settings import Settings
from jobsight_server.systems.ranking.settings import RankingSettings, RankMethod


@dataclass(frozen=True, slots=True)
class RankConfig:
    """``method`` is what a question without one is answered by."""

    method: RankMethod = "survival"
    vector: VectorSettings = field(default_factory=VectorSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)


def rank_config(settings: Settings) -> RankConfig:
    """The configuration from the settings."""
    ranking = settings.section(RankingSettings)
    return RankConfig(ranking.method, sessions=SessionSettings(silence_s=ranking.silence_s))
