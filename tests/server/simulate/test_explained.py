"""The search for what explains a record, on logs whose scheduler is known, and does not share code with the replay."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.server.simulate.known_schedulers import DAY_S, PROCESSORS, Known, generated, scheduled

from jobsight_server.replay.agreement import APART, Explained, apart_by_week, explained
from jobsight_server.replay.compared import BACKFILLED, LIMITS, RECORD, REPLAY, simulated
from jobsight_server.replay.explained import BY_QUEUE, EASY, FCFS, RECORDED, Way
from jobsight_server.replay.kinds import kinds_of
from jobsight_server.replay.machines import Machine, MachineJob, counted_nodes
from jobsight_server.replay.queue import Replay


def recorded(jobs: list[Known], starts: list[int]) -> Machine:
    """The log as a machine of counted processors; bounds of run time are too low for half of the jobs."""
    found = [
        MachineJob(
            job.number, "a", job.queue, job.user, job.processors, float(job.submitted), float(start),
            float(start + job.run_s), float(job.limit_s), None, None, float(job.run_s),
            bound_s=job.run_s * (0.5 if job.number % 2 else 1.0),
        )
        for job, start in zip(jobs, starts, strict=True)
    ]  # fmt: skip
    return Machine("a", counted_nodes(PROCESSORS), found, False)


def nearest(jobs: list[Known], starts: list[int]) -> Explained:
    return explained(Replay(recorded(jobs, starts), 0.0, 0.0, Counter()), lambda ended: None)


@pytest.mark.parametrize(
    ("scheduler", "way"),
    [
        ({}, Way(EASY)),
        ({"backfills": False}, Way(FCFS)),
        ({"most": 16}, Way(EASY, limits=True)),
        ({"most": 16, "backfills": False}, Way(FCFS, limits=True)),
        ({"down": lambda now: 12 * (10 * DAY_S <= now < 24 * DAY_S)}, Way(EASY, down=True)),
        ({"first": lambda job: (job.queue != "express",)}, Way(RECORDED)),
        ({"first": lambda job: ("cdefghijab".index(job.user),)}, Way(RECORDED)),
    ],
    ids=["EASY", "first come", "limits", "first come within limits", "outage", "priorities of queues", "of users"],
)
def test_the_scheduler_of_a_log_is_found(scheduler: dict[str, Any], way: Way) -> None:
    jobs = generated(1)
    found = nearest(jobs, scheduled(jobs, **scheduler))
    assert [(of.queue, of.explains) for of in found.queues] == [("batch", True), ("express", True)]
    assert found.way == way
    assert found.answered.all()


@pytest.mark.parametrize("seed", range(1, 4))
def test_waits_that_no_scheduler_made_are_not_explained(seed: int) -> None:
    """Jobs wait for something that is not in the log, as for data or another job: six hours on average."""
    jobs = generated(seed)
    found = nearest(jobs, scheduled(jobs, holds=True))
    assert [of.explains for of in found.queues] == [False, False]
    assert not found.answered.any()
    assert all(of.apart is not None and of.apart > APART for of in found.queues)


def test_only_queues_that_are_explained_are_answered_for() -> None:
    """Jobs of one queue wait for six more hours each; those of the other have processors of their own."""
    jobs = generated(2, load=0.4)
    express = [job for job in jobs if job.queue == "express"]
    batch = [job for job in jobs if job.queue == "batch"]
    machines = [recorded(batch, scheduled(batch)), recorded(express, scheduled(express, holds=True))]
    found, weekly = simulated("log", machines, 0.0, lambda done, total: None)
    assert [(of.queue, of.explains) for of in found.replay.queues] == [("batch", True), ("express", False)]
    assert (found.jobs, found.replay.answered) == (len(jobs), len(batch))
    waits = [float(start - job.submitted) for job, start in zip(batch, scheduled(batch), strict=True)]
    assert found.rules[RECORD].mean_wait_s[0] == found.rules[REPLAY].mean_wait_s[0] == pytest.approx(np.mean(waits))
    assert len(weekly[REPLAY]) == found.weeks_begun == 6
    assert BACKFILLED not in found.rules


@pytest.mark.parametrize(("load", "holds", "explains"), [(0.02, False, None), (0.8, True, False)])
def test_nothing_is_forecast_for_a_record_that_no_replay_explains(
    load: float, holds: bool, explains: bool | None
) -> None:
    """On a trace forecasts take minutes; jobs that hardly wait show nothing either."""
    jobs = generated(2, load=load)
    starts = scheduled(jobs, holds=True) if holds else [job.submitted for job in jobs]
    forecast: list[int] = []
    machine = replace(recorded(jobs, starts), forecast=lambda of: forecast.append(len(of)) or list(of))
    found, _ = simulated("log", [machine], 0.0, lambda done, total: None)
    assert (found.replay.explains, found.replay.answered) == (explains, 0)
    assert set(found.rules) == {RECORD, REPLAY}
    assert forecast == []
    easy = replace(machine, jobs=recorded(jobs, scheduled(generated(2, load=load))).jobs)
    simulated("log", [easy], 0.0, lambda done, total: None)
    assert forecast == ([len(jobs)] if holds else [])


def test_lowered_limits_kill_and_backfilling_is_a_rule_of_its_own() -> None:
    jobs = generated(3, load=0.7)
    found, _ = simulated("log", [recorded(jobs, scheduled(jobs, backfills=False))], 0.0, lambda done, total: None)
    assert found.rules[LIMITS].killed == sum(job.number % 2 for job in jobs)
    assert found.rules[REPLAY].killed == found.rules[BACKFILLED].killed == 0
    easy = [float(start - job.submitted) for job, start in zip(jobs, scheduled(jobs), strict=True)]
    assert found.rules[BACKFILLED].mean_wait_s[0] == pytest.approx(np.mean(easy))
    assert found.rules[BACKFILLED].baseline == REPLAY
    assert found.rules[LIMITS].baseline == BACKFILLED
    ratio = found.rules[LIMITS].wait_of_baseline[0]
    assert ratio == pytest.approx(found.rules[LIMITS].mean_wait_s[0] / np.mean(easy))


def test_a_job_that_outran_its_request_is_killed_only_at_a_lower_bound() -> None:
    times = [(200.0 * i, 200.0 * i, 200.0 * i + 150.0) for i in range(3)]
    jobs = [
        MachineJob(i, "a", "q", "u", 1, *at, 100.0, None, None, bound_s=bound)
        for i, (at, bound) in enumerate(zip(times, (100.0, 120.0, 60.0), strict=True))
    ]
    replay = Replay(Machine("a", counted_nodes(1), jobs, False), 0.0, 0.0, Counter())
    assert replay.run("limits", "request", lambda ended: None)[1] == [0, 0, 1]


def test_queues_of_their_own_line_are_told_from_one_line() -> None:
    """The head of one queue is as wide as the machine; the other goes on only if it has its own line."""
    jobs = [
        MachineJob(i, "a", "wide" if i % 9 == 0 else "narrow", "u", 4 if i % 9 == 0 else 1, *at, 3600.0, None, None)
        for i, at in enumerate((6000.0 * i, 6000.0 * i, 6000.0 * i + 3600.0) for i in range(700))
    ]
    replay = Replay(Machine("a", counted_nodes(4), jobs, False), 0.0, 0.0, Counter())
    replay.work.submit_s[:] = np.arange(700) * 500.0
    ends = {}
    for order in (FCFS, BY_QUEUE):
        replay.way = Way(order)
        ends[order] = replay.run("as explained", "request", lambda ended: None)[0] - replay.work.submit_s
    wide = np.arange(700) % 9 == 0
    assert ends[FCFS][~wide].mean() > 2.0 * ends[BY_QUEUE][~wide].mean()
    assert ends[FCFS][wide].mean() < ends[BY_QUEUE][wide].mean()


def test_weeks_that_differ_do_not_make_up_for_each_other() -> None:
    submit = np.arange(28) * float(DAY_S)
    waits = np.full(28, 1000.0)
    assert apart_by_week(waits, waits, submit) == 0.0
    assert apart_by_week(waits, np.repeat([500.0, 1500.0], 14), submit) == pytest.approx(500.0 / 1060.0)
    assert apart_by_week(waits[:3], waits[:3], submit[:3]) is None  # three days


def test_applications_that_ran_on_some_nodes_only_need_these() -> None:
    keys = [("q", "wide")] * 40 + [("q", "gpu")] * 20 + [("q", "rare")] * 5
    nodes = [[i % 4] for i in range(40)] + [[2 + i % 2] for i in range(20)] + [[0]] * 5
    kinds, masks = kinds_of(keys, nodes, [True] * 65, 4)
    assert [masks[kind].tolist() for kind in (kinds[0], kinds[40], kinds[-1])] == [[1] * 4, [0, 0, 1, 1], [1] * 4]
    assert kinds_of(keys, nodes, [False] * 65, 4)[1].all()  # where nothing waits, the first of free nodes may be taken
