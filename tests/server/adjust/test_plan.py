"""Planned changes respect the site's limits, whatever the recommendation."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsight_server.adjust.plan import KnownNeed, is_chosen, planned, planned_running, share_of
from jobsight_server.adjust.present import Amount, PresentJob
from jobsight_server.adjust.trial import Trial
from jobsight_server.settings.tables import AdjustLimits

MIB, GIB = 2**20, 2**30


def waiting(has: int = 16 * GIB, times: int = 1, start: float | None = None) -> PresentJob:
    memory = Amount("MinMemoryNode", has // times // MIB * MIB, times, MIB)
    return PresentJob("7", "ann", 0.0, start, {"memory": memory, "runtime": Amount("TimeLimit", 3600, 1, 60)})


def gets(known: KnownNeed, has: int = 16 * GIB, times: int = 1, **limits: float) -> int | None:
    """The whole job's new value; None if unchanged."""
    change = planned(waiting(has, times), "memory", known, AdjustLimits("alpha", **limits), 100 * MIB)
    return None if change is None else change.new * times


@pytest.mark.parametrize(
    ("known", "limits", "expected"),
    [
        (KnownNeed(16 * GIB, 4 * GIB), {}, 4 * GIB),
        (KnownNeed(16 * GIB, None), {}, None),
        (KnownNeed(16 * GIB, 15 * GIB), {}, None),
        (KnownNeed(16 * GIB, 15 * GIB), {"least_change": 0.01}, 15 * GIB),
        (KnownNeed(16 * GIB, 1 * GIB), {"keep_share": 0.5}, 8 * GIB),
        (KnownNeed(16 * GIB, 64 * GIB), {}, None),
        (KnownNeed(16 * GIB, 64 * GIB), {"raise_to": 2.0}, 32 * GIB),
        (KnownNeed(64 * GIB, 40 * GIB), {}, 40 * GIB),
        (KnownNeed(64 * GIB, None), {}, 64 * GIB),
        (KnownNeed(64 * GIB, 20 * GIB, failed=16 * GIB), {"least_change": 0.5}, 20 * GIB),
        (KnownNeed(64 * GIB, 20 * GIB, failed=15 * GIB), {"least_change": 0.5}, None),
    ],
)
def test_what_a_job_with_16_gib_gets(known: KnownNeed, limits: dict[str, float], expected: int | None) -> None:
    assert gets(known, **limits) == expected


def test_no_job_gets_less_than_the_settings_allow() -> None:
    found = []
    for least in (0, 100 * MIB, 20 * GIB):
        limits = AdjustLimits("alpha", keep_share=0.0)
        change = planned(waiting(), "memory", KnownNeed(16 * GIB, 5 * MIB), limits, least)
        found.append(change and (change.new, change.reason))
    least_reason = "the least that the settings allow"
    assert found == [(5 * MIB, "recommended"), (100 * MIB, least_reason), None], "nor more than its user asked for"


amounts = st.integers(1, 2**16).map(lambda mib: float(mib * MIB))


@given(
    known=st.builds(KnownNeed, amounts, st.none() | amounts, st.just(0.0) | amounts),
    has=st.integers(64, 2**16).map(lambda mib: mib * MIB),
    times=st.integers(1, 64),
    raise_to=st.floats(1, 4),
    keep=st.floats(0, 1),
)
def test_limits_hold_for_every_job(known: KnownNeed, has: int, times: int, raise_to: float, keep: float) -> None:
    job = waiting(has, times)
    limits = AdjustLimits("alpha", raise_to=raise_to, keep_share=keep)
    change = planned(job, "memory", known, limits, 100 * MIB)
    if change is None:
        return
    new, old = change.new * times, change.old.whole
    most = raise_to * known.request
    assert change.new % MIB == 0
    assert change.new > 0
    assert new != old
    if new > old:
        assert new <= most, "never above what is allowed"
    else:
        assert new >= keep * known.request or most < keep * known.request


def test_more_time_for_a_job_that_runs_out_of_it() -> None:
    def longer(attempts: tuple[float, ...], left_s: float, **limits: float) -> int | None:
        job, now = waiting(start=1000.0), 1000.0 + 3600 - left_s
        change = planned_running(job, KnownNeed(3600.0, None, attempts=attempts), now, AdjustLimits("alpha", **limits))
        return None if change is None else change.new

    assert longer((1800.0, 5400.0), 300.0, running_within_s=600.0, raise_to=4.0) == 5400
    assert longer((1800.0, 5400.0), 300.0, running_within_s=600.0) is None
    assert longer((1800.0, 5400.0), 300.0, running_within_s=600.0, raise_to=1.2) == 4320
    assert longer((1800.0, 5400.0), 900.0, running_within_s=600.0, raise_to=4.0) is None
    assert longer((1800.0, 3600.0), 300.0, running_within_s=600.0, raise_to=4.0) is None
    assert longer((inf,), 300.0, raise_to=4.0) is None


def test_users_and_arms_are_shared_out_always_the_same_way() -> None:
    users = [f"user{number}" for number in range(2000)]
    first = {user for user in users if is_chosen("alpha", user, AdjustLimits("alpha", users_share=0.2))}
    more = {user for user in users if is_chosen("alpha", user, AdjustLimits("alpha", users_share=0.4))}
    assert first < more
    assert (len(first) / 2000, len(more) / 2000) == (pytest.approx(0.2, abs=0.03), pytest.approx(0.4, abs=0.03))
    jobs = [PresentJob(f"{number}", "ann", 5.0, None) for number in range(2000)]
    arms = [Trial(0.3).arm("alpha", job) for job in jobs]
    assert arms == [Trial(0.3).arm("alpha", job) for job in jobs] != [Trial(0.3, "b").arm("alpha", job) for job in jobs]
    assert arms.count("advice") / 2000 == pytest.approx(0.3, abs=0.03)
    assert share_of("a", "b") != share_of("ab", "")
