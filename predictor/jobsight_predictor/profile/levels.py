"""Which groups say what a job may need, from specific to general."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobsight_predictor.job_groups import GroupKey

from .group import Group
from .keys import JobKeys
from .prospect import Level, Witness

BETWEEN = 3  # 1 / share; how far down the groups, from specific to general, the one between them lies


def levels_of(
    present: Sequence[tuple[GroupKey, Group]], shares: Sequence[Group | None], request: float | None
) -> list[Level]:
    """Of the groups that hold jobs like this one: the most specific, one between, the user's, the site's."""
    by_user = [group for key, group in present if key[0] & 1]
    chosen = [present[len(present) // BETWEEN][1], by_user[-1] if by_user else None, present[-1][1]]
    levels: list[Level] = [[Witness(present[0][1], 1.0, present[0][0][0] & 1 == 1)]]
    n, n_shares = present[0][1].mode.n, 0
    for place, (group, share) in enumerate(zip(chosen, shares, strict=True)):
        level = []
        bursts = place < len(chosen) - 1 and bool(by_user)
        if group is not None and group.mode.n > n:  # of no more jobs than the one before, it says nothing new
            level.append(Witness(group, 1.0, bursts))
            n = group.mode.n
        if request is not None and share is not None and share.mode.n > n_shares:
            level.append(Witness(share, request, bursts))
            n_shares = share.mode.n
        if level:
            levels.append(level)
    return levels


def firsts(groups: Mapping[GroupKey, Group], keys: JobKeys) -> list[Level]:
    """For a job of a kind that was not seen before: the first jobs of other kinds, the user's and the site's.

    A thousand jobs of one application say little of what the user's next application will need.
    """
    levels: list[Level] = []
    n = 0
    for key in keys.firsts:
        group = groups.get(key)
        if group is not None and group.mode.n > n:
            levels.append([Witness(group, 1.0 if keys.request is None else keys.request)])
            n = group.mode.n
    return levels
