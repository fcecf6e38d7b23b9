"""Which groups tell what a job may need, most specific first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobsight_predictor.job_groups import GroupKey

from .group import Group
from .keys import JobKeys
from .prospect import Level, Witness

BETWEEN = 3  # 1 / share; position of the group in between, from specific to general


def levels_of(
    present: Sequence[tuple[GroupKey, Group]], shares: Sequence[Group | None], request: float | None
) -> list[Level]:
    """Of the groups of jobs like this one: the most specific, one in between, the user's, the site's."""
    by_user = [group for key, group in present if key[0] & 1]
    chosen = [present[len(present) // BETWEEN][1], by_user[-1] if by_user else None, present[-1][1]]
    levels: list[Level] = [[Witness(present[0][1], 1.0, present[0][0][0] & 1 == 1)]]
    n, n_shares = present[0][1].mode.n, 0
    for place, (group, share) in enumerate(zip(chosen, shares, strict=True)):
        level = []
        bursts = place < len(chosen) - 1 and bool(by_user)
        if group is not None and group.mode.n > n:  # with no more jobs than the one before, it adds nothing
            level.append(Witness(group, 1.0, bursts))
            n = group.mode.n
        if request is not None and share is not None and share.mode.n > n_shares:
            level.append(Witness(share, request, bursts))
            n_shares = share.mode.n
        if level:
            levels.append(level)
    return levels


def firsts(groups: Mapping[GroupKey, Group], keys: JobKeys) -> list[Level]:
    """For a job of a new kind: the first jobs of other kinds, the user's and the site's.

    A thousand jobs of one application tell little about what the user's next application will need.
    """
    levels: list[Level] = []
    n = 0
    for key in keys.firsts:
        group = groups.get(key)
        if group is not None and group.mode.n > n:
            levels.append([Witness(group, 1.0 if keys.request is None else keys.request)])
            n = group.mode.n
    return levels
