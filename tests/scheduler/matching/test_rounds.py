"""Continuous matching: weights, reservations, backfilling, and no starvation under sustained overload."""

from __future__ import annotations

import random
import time
from dataclasses import replace as aged

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import not_none

from jobsight_scheduler.matching.policies import PolicyRule
from jobsight_scheduler.matching.problem import Capacity, Dependency, Hold, MatchJob, Problem, Resource
from jobsight_scheduler.matching.reservations import earliest
from jobsight_scheduler.matching.rounds import RESERVE_AFTER_ROUNDS, WINDOW, JobInRounds, match_round


def node(name: str, slots: float, *holds: tuple[str, float, float]) -> Resource:
    """A node of ``slots``, some held: (job, until, slots)."""
    return Resource(
        name,
        "node",
        capacities={"slots": Capacity(slots, sum(held for *_, held in holds))},
        holds=tuple(Hold(job, until, {"slots": held}) for job, until, held in holds),
    )


def job(name: str, slots: float, duration_s: float | None = 100.0, count: int = 1, priority: float = 1.0) -> MatchJob:
    return MatchJob(
        name,
        (Dependency("d", "node", amounts={"slots": slots}, count=count),),
        priority=priority,
        duration_s=duration_s,
    )


def test_weights_grow_by_a_fifth_a_round() -> None:
    """Four jobs of priority 1 weigh as much as one of 4 and less than one that has waited for a round."""
    four = [JobInRounds(job(f"small-{number}", 1), 0) for number in range(4)]
    for age, priority, matched in ((0, 3.9, 4), (1, 3.3, 4), (1, 3.4, 1), (5, 1.9, 4), (5, 2.1, 1)):
        waiting = [*four, JobInRounds(job("large", 4, priority=priority), age)]
        found = match_round([node("a", 4)], waiting, now_s=0.0, clock=time.process_time)
        assert len(found.matches) == matched, (age, priority)


def test_the_earliest_time_of_a_gang_is_when_enough_holds_have_ended() -> None:
    resources = (node("a", 8, ("x", 50.0, 4), ("y", 90.0, 4)), node("b", 8, ("z", 70.0, 8)))
    problem = Problem(resources, (), now_s=10.0)
    one = not_none(earliest(problem, job("one", 4)))
    assert (one.start_s, one.resources["d"]) == (50.0, ("a",))
    gang = not_none(earliest(problem, job("gang", 8, count=2)))
    assert (gang.start_s, set(gang.resources["d"])) == (90.0, {"a", "b"})
    assert earliest(problem, job("never", 9)) is None


def test_a_large_job_is_reserved_and_only_what_ends_before_passes_it() -> None:
    resources = [node("a", 8, ("x", 60.0, 6))]
    waiting = [
        JobInRounds(job("large", 8), 10),
        JobInRounds(job("short", 1, 60.0), 0),
        JobInRounds(job("long", 1, 61.0), 0),
        JobInRounds(job("unknown", 1, None), 0),
    ]
    found = match_round(resources, waiting, now_s=0.0, clock=time.process_time)
    reservation = not_none(found.reservation)
    assert (reservation.job, reservation.start_s) == ("large", 60.0)
    assert [one.job for one in found.matches] == ["short"]
    tiers = {one.job: one.tier for one in found.unmatched}
    assert tiers == {"large": "held", "long": "reserved", "unknown": "reserved"}
    reason = {one.job: one.reason for one in found.unmatched}["large"]
    assert "reserved to start in 60 s" in reason
    # Nine rounds old, it is passed over.
    younger = [aged(waiting[0], age=9), *waiting[1:]]
    found = match_round(resources, younger, now_s=0.0, clock=time.process_time)
    assert found.reservation is None
    assert len(found.matches) == 2


def test_what_is_left_beside_a_reservation_may_be_held_for_longer() -> None:
    resources = [node("a", 8, ("x", 60.0, 6)), node("b", 4)]
    waiting = [
        JobInRounds(job("large", 7), 12),
        JobInRounds(job("long", 4, 1e6), 0),
        JobInRounds(job("one", 1, 1e6), 0),
    ]
    found = match_round(resources, waiting, now_s=0.0, clock=time.process_time)
    assert {one.job: one.resources["d"] for one in found.matches} == {"long": ("b",), "one": ("a",)}


def test_what_is_matched_together_is_bounded_and_the_others_know_that_it_is_not_their_turn() -> None:
    waiting = [JobInRounds(job(f"j{index}", 1), index % 7) for index in range(300)]
    found = match_round([node("a", 4)], waiting, now_s=0.0, clock=time.process_time)
    assert len(found.matches) == 4
    assert {int(one.job[1:]) % 7 for one in found.matches} == {6}
    tiers = [one.tier for one in found.unmatched]
    assert (tiers.count("turn"), len(tiers)) == (300 - WINDOW, 296)


DENIED = PolicyRule("deny", classes=("batch",), hours=(8.0, 18.0))


@pytest.mark.parametrize("age", [0, RESERVE_AFTER_ROUNDS, 1000])
def test_jobs_that_policies_deny_keep_no_other_one_waiting(age: int) -> None:
    nodes = [replace(node(f"n{index}", 8), policies=(DENIED,)) for index in range(10)]
    waiting = [JobInRounds(replace(job(f"b{index}", 1), job_class="batch"), age) for index in range(3 * WINDOW)]
    waiting.append(JobInRounds(replace(job("now", 1), job_class="interactive")))
    found = match_round(nodes, waiting, now_s=0.0, clock=time.process_time, hour=12.0)
    assert [one.job for one in found.matches] == ["now"]
    assert [one.tier for one in found.unmatched] == ["policy"] * (3 * WINDOW)
    later = match_round(nodes, waiting, now_s=0.0, clock=time.process_time, hour=18.0)
    assert len(later.matches) == 80


def test_a_job_that_needs_idle_nodes_by_policy_gets_a_reservation() -> None:
    alone = PolicyRule("allow", when="matches_running <= 0")
    busy = replace(node("a", 8, ("x", 50.0, 1), ("y", 90.0, 1)), policies=(alone,), matches_running=2)
    waiting = [JobInRounds(job("whole", 2), 10), JobInRounds(job("small", 1))]
    [reason] = match_round([busy, node("b", 1)], waiting, now_s=0.0, clock=time.process_time).unmatched
    assert (reason.job, "reserved to start in 90 s" in reason.reason) == ("whole", True)


def test_a_job_that_nothing_could_delay_keeps_no_reservation_from_others() -> None:
    """The licence is held until long after all that fits now has ended."""
    seats = Resource("seats", "licence", capacities={"seats": Capacity(1, 1)}, holds=(Hold("x", 1e5, {"seats": 1.0}),))
    licensed = MatchJob("licensed", (Dependency("l", "licence", amounts={"seats": 1.0}),), duration_s=10.0)
    waiting = [JobInRounds(licensed, 99), JobInRounds(job("large", 8), 10), JobInRounds(job("small", 1, 100.0))]
    found = match_round([node("a", 8, ("x", 60.0, 6)), seats], waiting, now_s=0.0, clock=time.process_time)
    assert (not_none(found.reservation).job, found.matches) == ("large", ())


def measured(rng: random.Random, amount: float) -> float:
    return amount * rng.uniform(0.9, 1.0)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_no_job_that_fits_on_an_idle_machine_starves(seed: int) -> None:
    """In a queue of denied, held, hopeless and large jobs at load 1.2: who came first is matched, the others know why.

    The held ones wait for licences that end long after, some of them beside a whole node.
    """
    rng = random.Random(seed)
    nodes = {f"n{index}": measured(rng, 8.0) for index in range(3)}
    policies = (PolicyRule("deny", classes=("denied",)),)
    hopeless = (
        job("never", 99.0),
        MatchJob("nowhere", (Dependency("d", "tape"),)),
        MatchJob("none", (Dependency("d", "node", "speed > 3"),)),
        # Each fits by itself; both together fit on no node.
        MatchJob("gang", tuple(Dependency(name, "node", amounts={"slots": 6.0}, count=2) for name in "de")),
    )
    licence = Dependency("l", "licence", amounts={"seats": 1.0})
    held = (
        MatchJob("l", (licence,), duration_s=10.0),
        MatchJob("both", (licence, Dependency("d", "node", amounts={"slots": 6.0})), duration_s=1e4),
    )
    seats = Resource(
        "seats", "licence", capacities={"seats": Capacity(4.0, 4.0)}, holds=(Hold("x", 1e5, {"seats": 4.0}),)
    )
    waiting = [JobInRounds(replace(job(f"x{n}", 1), job_class="denied"), rng.randint(0, 40)) for n in range(WINDOW)]
    waiting += [JobInRounds(replace(held[n % 2], name=f"z{n}"), rng.randint(0, 40)) for n in range(WINDOW)]
    waiting += [JobInRounds(replace(hopeless[n % 4], name=f"y{n}"), rng.randint(0, 40)) for n in range(WINDOW)]
    holds: list[tuple[str, str, float, float]] = []
    first = {f"j{index}" for index in range(30)}
    came = 0
    for number in range(200):
        now = 10.0 * number
        holds = [hold for hold in holds if hold[2] > now]
        for _ in range(2):
            size = measured(rng, rng.choice((1.0, 2.0, 4.0, 7.0)))
            new = job(f"j{came}", size, rng.choice((10.0, 30.0, 60.0)), rng.choice((1, 1, 2)), rng.randint(0, 3))
            waiting.append(JobInRounds(new))
            came += 1
        resources = [
            replace(node(name, slots, *((by, until, held) for by, on, until, held in holds if on == name)))
            for name, slots in nodes.items()
        ]
        resources = [*(replace(one, policies=policies) for one in resources), seats]
        found = match_round(resources, waiting, now_s=now, clock=time.process_time, rungs=())
        jobs = {one.job.name: one.job for one in waiting}
        matched = {one.job for one in found.matches}
        assert {one.job for one in found.unmatched} == jobs.keys() - matched
        assert all(one.reason for one in found.unmatched)
        holds += [
            (one.job, on, now + (jobs[one.job].duration_s or 0.0), jobs[one.job].dependencies[0].amounts["slots"])
            for one in found.matches
            for on in one.resources["d"]
        ]
        for name, slots in nodes.items():
            assert sum(held for _, on, _, held in holds if on == name) <= slots * (1 + 1e-9)
        waiting = [aged(one, age=one.age + 1) for one in waiting if one.job.name not in matched]
        first -= matched
        if not first:
            return
    raise AssertionError(f"still waiting: {sorted(first)}")
