"""What to request, by what earlier runs prove."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import not_none

from jobsight_server.decision.evidence import Evidence, Resource, RunUse, Says, Shape
from jobsight_server.decision.rule import MARGIN, Decision, Limits, decide

MIB, GIB, HOUR = 2.0**20, 2.0**30, 3600.0
JOB = Shape(1, 0, 16 * GIB, 4 * HOUR)


class Runs:
    """Runs one after the other, each a burst of its own."""

    def __init__(self, resource: Resource = "memory") -> None:
        self.resource: Resource = resource
        self.evidence = Evidence()
        self.now = 0.0

    def add(self, used: float, n: int = 1, says: Says = "exact", shape: Shape = JOB, **more: Any) -> Runs:
        for _ in range(n):
            held = more.get("held", shape.asked(self.resource))
            self.evidence.add(RunUse(shape, self.now, self.now + 600.0, says, used, held, more.get("lowered", False)))
            self.now += 1000.0
        return self

    def burst(self, used: float, n: int, says: Says = "exact") -> Runs:
        for _ in range(n):
            self.evidence.add(RunUse(JOB, self.now, self.now + 600.0, says, used, JOB.asked(self.resource)))
        self.now += 1000.0
        return self

    def decide(self, job: Shape = JOB, forecast: float | None = None, **more: Any) -> Decision:
        limits = {name: more.pop(name) for name in ("floor", "most", "coverage", "enforced") if name in more}
        return decide(self.resource, self.evidence, job, forecast, Limits(**limits), **more)


def memory() -> Runs:
    return Runs("memory")


def runtime() -> Runs:
    return Runs("runtime")


def test_the_largest_use_with_a_margin_that_shrinks() -> None:
    few, many = memory().add(2 * GIB, 4).decide(), memory().add(2 * GIB, 36).decide()
    assert few.amount == pytest.approx(2300 * MIB)  # 2048 (1 + .15 / 2) = 2202
    assert many.amount == pytest.approx(2100 * MIB)  # 2048 (1 + .15 / 6) = 2099
    assert few.then == many.then == JOB.memory_bytes
    assert not few.is_estimate


@pytest.mark.parametrize("runs", [memory().add(GIB, 2), memory().burst(GIB, 50)])
def test_two_runs_or_one_burst_lower_nothing(runs: Runs) -> None:
    assert runs.decide().kept == "few runs"


def test_runs_that_never_finished_lower_nothing() -> None:
    assert memory().add(200 * MIB, 8, "at least").decide().kept == "not measured"
    mixed = memory().add(200 * MIB, 20, "at least").add(12 * GIB, 3)
    assert not_none(mixed.decide().amount) >= 12 * GIB


def test_a_lower_bound_counts_against_every_amount_below() -> None:
    found = memory().add(111 * MIB, 18).add(559 * MIB, 2, "at least").decide()
    assert not_none(found.amount) > 559 * MIB
    assert (found.similar.runs, found.similar.exact) == (20, 18)


@pytest.mark.parametrize(
    ("used", "enforced", "kept"),
    [(20 * GIB, False, None), (20 * GIB, True, "enough requested"), (2 * GIB, False, "not measured")],
)
def test_lower_bounds_alone_raise_a_request_that_limits_nothing(used: float, enforced: bool, kept: str | None) -> None:
    found = memory().add(used, 1, "at least", held=16 * GIB).decide(enforced=enforced)
    assert found.kept == kept
    if kept is None:
        assert not_none(found.amount) > used
        assert found.is_estimate


def test_a_run_that_asked_for_less_lowers_nothing() -> None:
    runs = memory().add(GIB, 20, shape=JOB._replace(memory_bytes=8 * GIB))
    assert runs.decide().kept == "few runs"
    assert not_none(runs.decide(JOB._replace(memory_bytes=8 * GIB)).amount) < 2 * GIB


def test_tests_say_nothing_of_production() -> None:
    tests = memory().add(300 * MIB, 8, shape=Shape(1, 0, 16 * GIB, 600.0))
    assert tests.decide(JOB._replace(walltime_s=24 * HOUR)).kept == "other requests"
    assert memory().add(300 * MIB, 8, shape=Shape(1, 0, GIB, 4 * HOUR)).decide().kept == "other requests"


def test_other_processors_raise_or_keep_but_never_lower() -> None:
    runs = memory().add(GIB, 20)
    wide = JOB._replace(processors=4)
    assert runs.decide(wide).kept == "other processors"
    found = runs.add(16 * GIB, 1, "ran out").decide(wide)
    assert not_none(found.amount) > 16 * GIB
    assert found.is_estimate


def test_half_as_much_again_after_a_run_that_ran_out_and_twice_after_two() -> None:
    runs = memory().add(16 * GIB, 1, "ran out")
    assert runs.decide().amount == 24 * GIB
    assert runs.add(24 * GIB, 1, "ran out", held=24 * GIB).decide().amount == 48 * GIB
    assert runs.decide(most=40 * GIB).amount == 40 * GIB


def test_after_a_lowered_run_ran_out_the_request_stays_until_one_ends_well() -> None:
    runs = memory().add(2 * GIB, 10).add(2 * GIB, 1, "ran out", held=2.2 * GIB)
    assert runs.decide().kept == "ran out"
    assert runs.add(2.1 * GIB).decide().amount == pytest.approx(3400 * MIB)  # 1.5 x 2.2 GiB
    assert runs.add(3 * GIB).decide().amount == pytest.approx(3300 * MIB)


def test_a_use_above_an_enforced_limit_is_not_believed() -> None:
    runs = memory().add(40 * GIB, 12)
    assert runs.decide().kept == "enough requested"
    assert not_none(runs.decide().similar.known).most == 16 * GIB
    assert not_none(runs.decide(enforced=False).amount) > 40 * GIB


def test_nothing_is_raised_without_a_run_that_needed_it() -> None:
    assert memory().add(15 * GIB, 3).decide().kept == "enough requested"
    assert memory().add(15.3 * GIB, 40).decide().kept in ("as requested", "enough requested")


def test_floor_keep_and_target() -> None:
    runs = memory().add(10 * MIB, 5)
    assert runs.decide(floor=100 * MIB).amount == 100 * MIB
    assert runs.decide(is_kept=True).kept == runs.decide(JOB._replace(facts=(("keep", 1.0),))).kept == "kept"
    careful, bold = Limits(coverage=0.99).margin, Limits(coverage=0.9).margin
    assert Limits().margin == pytest.approx(MARGIN)
    assert bold < MARGIN < careful


def test_without_a_name_only_the_last_run_may_raise() -> None:
    runs = memory().add(GIB, 20)
    assert runs.decide(is_named=False).kept == "no application"
    runs.add(16 * GIB, 1, "ran out")
    assert runs.decide(is_named=False).amount == 24 * GIB
    assert runs.add(GIB).decide(is_named=False).kept == "no application"


def test_without_a_request_the_forecast_counts() -> None:
    job = JOB._replace(memory_bytes=0.0)
    assert memory().decide(job).kept == "not measured"
    new = memory().decide(job, 3 * GIB)
    assert (new.amount, new.is_estimate) == (3100 * MIB, True)
    known = memory().add(2 * GIB, 5, shape=job).decide(job, 3 * GIB)
    assert (known.amount, known.is_estimate) == (3100 * MIB, False)
    killed = memory().add(4 * GIB, 1, "ran out", shape=job, held=4 * GIB).decide(job, 3 * GIB)
    assert killed.amount == 6200 * MIB


sizes = st.floats(150 * MIB, 100 * GIB)


@given(st.lists(st.tuples(sizes, st.sampled_from(["exact", "at least", "ran out"])), max_size=60), sizes, st.booleans())
def test_no_amount_is_below_the_evidence_or_the_request_of_a_killed_run(
    history: list[tuple[float, Says]], asked: float, enforced: bool
) -> None:
    job = JOB._replace(memory_bytes=asked)
    runs = memory()
    for used, says in history:
        runs.add(min(used, asked) if enforced else used, says=says, shape=job)
    found = runs.decide(job, enforced=enforced)
    if found.amount is None:
        assert found.kept is not None
        return
    known = found.similar.known
    assert known is None or found.amount >= known.largest * (1 - 1e-9)
    if any(says == "ran out" for _, says in history):
        assert found.amount > asked
    if found.amount < asked:
        assert sum(says == "exact" for _, says in history) >= 3
    assert not_none(found.then) > found.amount


def test_a_longer_limit_follows_kills_at_about_the_same_limit_only() -> None:
    runs = runtime().add(HOUR, 10).add(4 * HOUR, 1, "ran out")
    assert runs.decide().amount == 6 * HOUR
    assert runs.decide(JOB._replace(walltime_s=2 * HOUR)).kept == "time"
    assert runs.add(4 * HOUR, 1, "ran out").decide().amount == 8 * HOUR
    assert runs.decide(most=6 * HOUR).amount == 6 * HOUR
    assert runs.add(HOUR, 5).decide().kept == "time"


def test_a_shorter_limit_needs_twenty_runs_of_half_of_it() -> None:
    assert runtime().add(HOUR, 19).decide().shorter is None
    assert runtime().add(HOUR, 20).decide().shorter == 2 * HOUR
    assert runtime().add(HOUR, 20).decide().amount is None, "programs keep the request"
    assert runtime().burst(HOUR, 10).burst(HOUR, 20).decide().shorter is None
    assert runtime().add(2.1 * HOUR, 20).decide().shorter is None
    assert runtime().add(HOUR, 20).add(4 * HOUR, 1, "ran out").add(HOUR, 20).decide().shorter is None
    assert runtime().add(60.0, 20).decide(floor=600.0).shorter == 600.0


def test_all_runs_of_a_restarted_job_end_at_their_limit() -> None:
    found = runtime().add(4 * HOUR, 15, "ran out").decide()
    assert (found.amount, found.then) == (8 * HOUR, 16 * HOUR)
    assert found.similar.exact == 0


def test_a_limit_kills_unless_runs_went_on_far_beyond_their_own() -> None:
    short = JOB._replace(walltime_s=HOUR)
    assert runtime().add(3.9 * HOUR, 5).decide(short).kept == "time", "their own limits were longer"
    assert runtime().add(4.3 * HOUR, 5).decide().kept == "time", "some minutes of grace"
    assert runtime().add(HOUR, 5).add(6 * HOUR, 1).decide().kept == "time not enforced"
    assert runtime().add(HOUR, 5).decide(enforced=False).kept == "time not enforced"
    assert runtime().add(6 * HOUR, 1).add(4 * HOUR, 1, "ran out").add(HOUR, 5).decide().kept == "time", "one was killed"


def test_limits_do_not_shrink_to_a_limit() -> None:
    assert runtime().add(HOUR, 20).decide(most=math.inf, floor=5 * HOUR).shorter is None
