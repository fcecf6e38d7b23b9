"""Users X, Y and Z, and the campaign of 600 jobs, against what the paper says of them."""

from __future__ import annotations

import pytest

from jobsight_emulator.emulation import make_emulation
from jobsight_emulator.plan import SitePlan
from jobsight_papers.profile_guided.published import campaign_jobs, campaign_users, three_users

END = 1_700_000_040
DAY = 86_400


def plan(seed: int = 1, nodes: int = 8, days: float = 4.2) -> SitePlan:
    return SitePlan(nodes, 1, END - int(days * DAY), END, seed=seed)


def alike(values: list[float]) -> float:
    """PQM, computed independently."""
    return sum(abs(value - values[0]) < 0.2 * values[0] for value in values) / len(values)


@pytest.mark.parametrize("seed", range(20))
def test_the_three_users_are_as_published(seed: int) -> None:
    x, y, z = (user.memory for user in three_users(plan(seed)))
    assert len(x) > 30
    assert round(alike(x), 2) == 0.89
    assert all(abs(value / 30e6 - 1) < 0.05 for value in x[-20:])
    assert all(abs(value / 200e6 - 1) < 0.1 for value in y[:2])
    assert all(abs(value / 800e6 - 1) < 0.1 for value in y[2:])
    near = [value for value in z if abs(value / 50e6 - 1) < 0.1]
    assert len(near) == 0.7 * len(z)
    assert all(value >= 80e6 for value in z if value not in near)


@pytest.mark.parametrize("seed", range(20))
def test_the_campaign_has_the_published_shares(seed: int) -> None:
    users = campaign_users(plan(seed))
    assert len(users) == 62
    assert sum(len(user.memory) for user in users) == 600
    assert min(len(user.memory) for user in users) >= 5
    assert sum(alike(user.memory) > 0.8 for user in users) == 38  # 61 %
    assert sum(alike(user.bandwidth) > 0.8 for user in users) == 25  # 40 %


def test_the_jobs_of_the_campaign_end_in_the_order_of_submission_with_their_nodes_to_themselves() -> None:
    emulation = make_emulation(plan(), 100, campaign_jobs)
    truths = emulation.truths["alpha"]
    assert len(truths) == 600
    assert all(truth.exclusive for truth in truths)
    of_plan = {user.user.name: iter(user.memory) for user in campaign_users(plan())}
    for truth in truths:
        assert truth.memory_bytes_per_processor == pytest.approx(next(of_plan[truth.user]), abs=0.1)
