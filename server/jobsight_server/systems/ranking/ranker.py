"""What a process keeps in order to rank machines."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobsight_server.systems.ranking.board import MachineBoard
from jobsight_server.systems.ranking.config import RankConfig


@dataclass(frozen=True, slots=True)
class MachineRanker:
    """The site's configuration, and what is known of its machines."""

    config: RankConfig
    board: MachineBoard = field(default_factory=MachineBoard)
