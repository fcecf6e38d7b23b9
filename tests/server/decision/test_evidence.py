"""Runs of one application, summed up by burst and request."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from jobsight_server.decision.evidence import BURSTS, Evidence, RunUse, Shape, similar_runs

GIB = 2.0**30
JOB = Shape(1, 0, 8 * GIB, 3600.0)


def run(used: float = GIB, submitted: float = 0.0, end: float | None = None, shape: Shape = JOB) -> RunUse:
    return RunUse(shape, submitted, submitted + 600.0 if end is None else end, "exact", used, shape.memory_bytes)


def learned(runs: Sequence[RunUse]) -> Evidence:
    found = Evidence()
    for one in sorted(runs, key=lambda one: one.end):
        found.add(one)
    return found


def test_an_array_is_one_row_with_its_largest_use() -> None:
    array = [run(GIB * (3.0 if task == 77 else 1.0), 0.0, 600.0 + task) for task in range(200)]
    (row,) = learned(array).rows
    assert (row.runs, row.exact, row.least, row.most, row.end) == (200, 200, GIB, 3 * GIB, 799.0)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 100)), min_size=1, max_size=40))
def test_a_burst_was_submitted_before_one_of_its_jobs_had_ended(spans: list[tuple[int, int]]) -> None:
    """Against the definition: in the order of submission, a burst ends with the first end of its jobs."""
    runs = [run(1.0, float(submitted), float(submitted + length)) for submitted, length in spans]
    # What ends after a later job was submitted is known only then: those that were submitted before the first end.
    rest, expected = sorted(runs, key=lambda one: one.end), 0
    while rest:
        first_end = rest[0].end
        rest = [one for one in rest if one.submitted >= first_end]
        expected += 1
    assert len({row.burst for row in learned(runs).rows}) == expected


def test_a_daily_job_does_not_displace_a_monthly_one_of_another_request() -> None:
    monthly = Shape(1, 0, 48 * GIB, 3600.0)
    days = [run(GIB, day * 86400.0) for day in range(300)]
    months = [run(40 * GIB, day * 86400.0 + 43200.0, shape=monthly) for day in range(0, 300, 30)]
    found = learned([*days, *months])
    assert similar_runs(found.rows, JOB).bursts == BURSTS
    assert similar_runs(found.rows, monthly).exact == 10


def test_state_restores_evidence_and_a_late_use_is_filled_in() -> None:
    sized = JOB._replace(facts=(("input_bytes", 3e9),))
    found = learned([run(), run(2 * GIB, 1000.0, shape=sized)])
    found.add(RunUse(JOB, 2000.0, 2600.0, "nothing"))
    restored = Evidence([list(row) for row in found.state()])
    assert restored.rows == found.rows
    restored.fill_in(RunUse(JOB, 2000.0, 2600.0, "exact", 5 * GIB))
    (_, _, late) = restored.rows
    assert (late.runs, late.exact, late.most) == (1, 1, 5 * GIB)
    assert similar_runs(restored.rows, JOB).runs == 3


def test_similar_jobs_have_as_many_gpus_and_processors_and_ask_for_about_as_much() -> None:
    shapes = [JOB, JOB._replace(gpus=4), JOB._replace(processors=2), JOB._replace(memory_bytes=40 * GIB),
              JOB._replace(walltime_s=86400.0), JOB._replace(processors=8)]  # fmt: skip
    found = learned([run(number * GIB, number * 1000.0, shape=shape) for number, shape in enumerate(shapes, 1)])
    similar = similar_runs(found.rows, JOB)
    assert [row.most for row in similar.rows] == [GIB]
    assert (similar.is_alike, similar.has_other_counts) == (True, True)
    assert [row.most for row in similar_runs(found.rows, JOB._replace(gpus=None)).rows] == [2 * GIB, GIB]
    others = similar_runs(found.rows, JOB._replace(processors=4))
    assert [row.most for row in others.rows] == [6 * GIB, 3 * GIB, GIB]
    assert not others.is_alike


def test_address_space_and_resident_memory_are_not_mixed() -> None:
    found = learned([run(GIB), run(GIB, 1000.0)])
    found.add(run(30 * GIB, 2000.0)._replace(is_virtual=True))
    assert [row.most for row in similar_runs(found.rows, JOB).rows] == [30 * GIB]
