"""How a site ranks its machines: by which method, with which terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from jobsight_predictor.reliability.resource_vector import VectorSettings
from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.errors import UserError
from jobsight_server.settings import Settings

RankMethod = Literal["survival", "grv"]
RANK_METHODS: tuple[RankMethod, ...] = get_args(RankMethod)


@dataclass(frozen=True, slots=True)
class RankConfig:
    """``method`` is what a question without one is answered by."""

    method: RankMethod = "survival"
    vector: VectorSettings = field(default_factory=VectorSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)


def rank_config(settings: Settings) -> RankConfig:
    """The configuration from the settings.

    Raises:
        UserError: all weights are 0, or the initial success lies beyond its cap.
    """
    try:
        vector = VectorSettings(
            weights=(settings.rank_weight_availability, settings.rank_weight_success, settings.rank_weight_capacity),
            availability_base=settings.rank_availability_base,
            availability_cap_s=settings.rank_availability_cap_s,
            success_initial=settings.rank_success_initial,
            success_reward=settings.rank_success_reward,
            success_penalty=settings.rank_success_penalty,
            success_cap=settings.rank_success_cap,
            by_work=settings.rank_success_by_work,
            blame_users=settings.rank_blame_users,
            raw_capacity=settings.rank_raw_capacity,
        )
    except ValueError as error:
        raise UserError(f"settings of ranks: {error}") from error
    return RankConfig(
        method=settings.rank_method,
        vector=vector,
        sessions=SessionSettings(silence_s=settings.machine_silence_s),
    )
