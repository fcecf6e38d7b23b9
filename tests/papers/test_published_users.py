"""Users X, Y and Z, and the campaign of 600 jobs, against what the paper says of them."""

from __future__ import annotations

import pytest

from jobsight_emulator.emulation import make_emulation
from jobsight_emulator.plan import SitePlan
from jobsight_papers.profile_guided.published import campaign_jobs, campaign_users

END = 1_700_000_040
DAY = 86_400


def plan(seed: int = 1, nodes: int = 8, days: float = 4.2) -> SitePlan:
    return SitePlan(nodes, 1, END - int(days * DAY), END, seed=seed)


def test_the_jobs_of_the_campaign_end_in_the_order_of_submission_with_their_nodes_to_themselves() -> None:
    emulation = make_emulation(plan(), 100, campaign_jobs)
    truths = emulation.truths["alpha"]
    assert len(truths) == 600
    assert all(truth.exclusive for truth in truths)
    of_plan = {user.user.name: iter(user.memory) for user in campaign_users(plan())}
    for truth in truths:
        assert truth.memory_bytes_per_processor == pytest.approx(next(of_plan[truth.user]), abs=0.1)
