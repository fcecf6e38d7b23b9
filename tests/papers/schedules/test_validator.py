"""The validator finds each kind of fault in schedules that were spoilt on purpose, and none in good ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from jobsight_papers.schedules.chosen import choose_policy, rules_of
from jobsight_papers.schedules.validator import validate
from jobsight_papers.schedules.validator.promises import check_room_is_used
from jobsight_scheduler.table import JobTable, table_of
from jobsight_scheduler.workload.canonical import Workload

Row = tuple[float, float, float, float, int]  # submit, start, run, estimate, processors


def table(*rows: Row) -> JobTable:
    submit, start, run, estimate, processors = (np.array(column) for column in zip(*rows, strict=True))
    jobs = Workload(submit * 1.0, run * 1.0, estimate * 1.0, processors, np.arange(len(rows)), Counter())
    return table_of(jobs, start * 1.0)


def rules_broken(schedule: JobTable, capacity: int, policy: str | None = None) -> list[tuple[str, int]]:
    rules = rules_of(choose_policy(policy)) if policy else ()
    return [(finding.rule, finding.job) for finding in validate(schedule, capacity, rules)]


def test_what_holds_for_every_schedule() -> None:
    good = table((0, 0, 10, 10, 2), (0, 10, 5, 9, 2), (1, 10, 5, 9, 2))
    assert rules_broken(good, 4) == []
    assert rules_broken(good, 3) == [("capacity", 3)]
    assert rules_broken(table((5, 4, 10, 10, 2)), 4) == [("submit", 1)]
    assert rules_broken(table((0, 0, 10, 10, 5)), 4) == [("size", 1), ("capacity", 1)]
    assert rules_broken(replace(good, end_s=good.end_s + 1.0), 99) == [("run time", job) for job in (1, 2, 3)]


def test_order_and_idle_heads() -> None:
    overtaken = table((0, 0, 10, 10, 4), (1, 10, 10, 10, 4), (2, 2, 1, 1, 1))
    assert rules_broken(overtaken, 5, "fcfs") == [("order", 3)]
    assert rules_broken(overtaken, 5, "easy") == []
    late = table((0, 0, 10, 10, 4), (1, 11, 10, 10, 4))
    assert rules_broken(late, 5, "fcfs") == [("head", 2)]
    assert rules_broken(late, 5, "easy") == [("head", 2), ("reservation", 2)]
    assert rules_broken(table((3, 5, 1, 1, 1)), 5, "easy") == [("head", 1), ("reservation", 1)]


def test_easy_keeps_the_reservation_of_the_head() -> None:
    # Job 2 is promised 10; job 3 runs on its processors until 12.
    broken = table((0, 0, 10, 10, 4), (1, 12, 10, 10, 5), (2, 2, 10, 10, 1))
    assert rules_broken(broken, 5, "easy") == [("reservation", 2)]
    # By the estimate of job 1 it is promised 100 only.
    assert rules_broken(replace(broken, estimate_s=np.array([100.0, 10.0, 10.0])), 5, "easy") == []


def test_conservative_keeps_every_promise() -> None:
    # Job 4 is promised 30: 8 seconds beside job 1 would hold up job 2. At 20 it holds up job 3, which is not the head.
    broken = table((0, 0, 10, 10, 4), (1, 10, 10, 10, 5), (2, 22, 10, 10, 5), (3, 20, 2, 8, 1))
    assert rules_broken(broken, 5, "conservative") == [("promise", 3)]
    kept = table((0, 0, 10, 10, 4), (1, 10, 10, 10, 5), (2, 20, 10, 10, 5), (3, 30, 2, 8, 1))
    assert rules_broken(kept, 5, "conservative") == []
    # Job 1 ends at 4 instead of 10: the others are to move up.
    assert rules_broken(table((0, 0, 4, 10, 5), (1, 4, 10, 10, 5)), 5, "conservative") == []
    assert rules_broken(table((0, 0, 4, 10, 5), (1, 10, 10, 10, 5)), 5, "conservative") == [("promise", 2)]


def test_room_is_used_in_any_order() -> None:
    """The rule of another order for EASY."""
    late, full = table((0, 0, 10, 10, 4), (1, 11, 10, 10, 4)), table((0, 0, 10, 10, 4), (1, 10, 10, 10, 4))
    found = [[(one.rule, one.job) for one in validate(of, 5, (check_room_is_used,))] for of in (late, full)]
    assert found == [[("room", 2)], []]


def test_shortest_first() -> None:
    assert rules_broken(table((0, 0, 9, 9, 5), (1, 9, 9, 9, 5), (2, 18, 2, 2, 5)), 5, "sjf") == [("shortest first", 2)]
    assert rules_broken(table((0, 0, 9, 9, 5), (1, 11, 9, 9, 5), (2, 9, 2, 2, 5)), 5, "sjf") == []
