"""Within which limits `jobsight adjust` changes jobs that wait: ``[[adjust]]`` tables, one for a cluster."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from jobsight_server.amounts import memory_bytes


class AdjustLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """What may be changed of the jobs of ``cluster``, and for whom.

    ``users_share``: the share of the users whose jobs are changed, always the same ones. ``memory`` and ``time``: what
    is changed. No job gets less than ``memory_at_least``, ``time_at_least_s`` and the share ``keep_share`` of what its
    user requested, nor more than ``raise_to`` times that. What would change by less than the share ``least_change``
    stays. At most ``jobs_at_most`` changes are made in one run. Running jobs that reach their limit within
    ``running_within_s``, and are expected to need longer, get more; 0: running jobs are left alone.
    ``command`` is `scontrol` or `qalter`, an argument list, ended after ``timeout_s``.
    """

    cluster: Annotated[str, Meta(min_length=1)]
    users_share: Annotated[float, Meta(ge=0, le=1)] = 0.1
    memory: bool = True
    time: bool = False
    memory_at_least: str = "100M"
    time_at_least_s: Annotated[float, Meta(ge=0)] = 600.0
    keep_share: Annotated[float, Meta(ge=0, le=1)] = 0.1
    raise_to: Annotated[float, Meta(ge=1)] = 1.0
    least_change: Annotated[float, Meta(ge=0)] = 0.1
    jobs_at_most: Annotated[int, Meta(ge=1)] = 1000
    running_within_s: Annotated[float, Meta(ge=0)] = 0.0
    command: tuple[str, ...] = ()
    timeout_s: Annotated[float, Meta(ge=1)] = 30.0

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec reports with the place."""
        memory_bytes(self.memory_at_least)
