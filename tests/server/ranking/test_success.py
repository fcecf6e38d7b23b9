"""The default rank is the chance that a job succeeds: machines that fail jobs stand last, and recover."""

from __future__ import annotations

import pytest

from .conftest import HOUR_S, Farm

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

NAMES = ("hole", "n1", "n2", "n3")


def a_day(farm: Farm, *failing: str, jobs: int = 0) -> None:
    """All machines stay for another day, with ``jobs`` on each; those on ``failing`` ones fail at once."""
    start = farm.now
    for _ in range(4):
        farm.now += 6 * HOUR_S
        for name in NAMES:
            farm.report(name, farm.now - 6 * HOUR_S, farm.now - 60)
        farm.round()
    for number in range(jobs):
        for name in NAMES:
            begin = start + number * HOUR_S / 2
            bad = name in failing
            user, length = f"u{number % 5}", 10.0 if bad else HOUR_S
            farm.job([name], start=begin, end=begin + length, exit_status=int(bad), user=user)
    farm.round()


def scores(farm: Farm) -> dict[str, float]:
    found = farm.ranks()
    return {found.columns.names[number][1]: float(found.ranking.score[number]) for number in found.order}


def test_failures_that_follow_a_user_count_against_no_machine(farm: Farm) -> None:
    a_day(farm, jobs=10)
    before = scores(farm)
    for number in range(12):
        farm.job([NAMES[number % 4]], start=farm.now - 60, end=farm.now - 50, exit_status=1, user="bob", name="broken")
        for name in NAMES:
            farm.report(name, farm.now - 4, farm.now - 1)
        farm.round()
    assert farm.outcomes_of("n1")[-2:] == ["user-failed", "user-failed"]
    after = scores(farm)
    assert all(after[name] > 0.97 * before[name] for name in NAMES)
