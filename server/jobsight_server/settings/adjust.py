"""Limits of `jobsight adjust` for changing waiting jobs: ``[[adjust]]`` tables, one for a cluster."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct


class AdjustLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of changes to the jobs of ``cluster``.

    ``users_share``: the share of the users whose jobs are changed, always the same ones. ``memory`` and ``time``: the
    resources to change. No job gets less than the share ``keep_share`` of its user's request, nor more than
    ``raise_to`` times that. Running jobs that reach their limit within ``running_within_s``, and should need longer,
    get more; 0: running jobs are left alone. ``command`` is `scontrol` or `qalter`, an argument list.

    ``FIXED`` are no settings: no job gets less than ``memory_at_least`` and ``time_at_least_s``; changes by less than
    the share ``least_change`` are not made; one run makes ``jobs_at_most`` changes; a command is ended after
    ``timeout_s``.
    """

    FIXED: ClassVar[frozenset[str]] = frozenset(
        {"memory_at_least", "time_at_least_s", "least_change", "jobs_at_most", "timeout_s"}
    )

    cluster: Annotated[str, Meta(min_length=1)]
    users_share: Annotated[float, Meta(ge=0, le=1)] = 0.1
    memory: bool = True
    time: bool = False
    keep_share: Annotated[float, Meta(ge=0, le=1)] = 0.1
    raise_to: Annotated[float, Meta(ge=1)] = 1.0
    running_within_s: Annotated[float, Meta(ge=0)] = 0.0
    command: tuple[str, ...] = ()

    memory_at_least: str = "100M"
    time_at_least_s: float = 600.0
    least_change: float = 0.1
    jobs_at_most: int = 1000
    timeout_s: float = 30.0
