"""Closed loops: the events and counts of a loop by hand, and Jobsight's own database in one."""

from __future__ import annotations

from pathlib import Path

import pytest
from loop_product import Allocated, Ended, Product
from loop_scenarios import LoopJob
from loops import Loop, scenarios_in
from sqlalchemy import select

from jobsight_server.storage.schema import jobs


class Written:
    """Gives each attempt the next of these amounts of memory, and the limit that it asks for."""

    def __init__(self, *memory_gib: float | None) -> None:
        self._amounts = list(memory_gib)
        self.submitted: list[float] = []
        self.ended: list[list[Ended]] = []

    def submit(self, job: LoopJob, now: float) -> Allocated:
        self.submitted.append(now)
        return Allocated(len(self.submitted), self._amounts.pop(0), job.limit)

    def learn(self, ended: list[Ended]) -> None:
        self.ended.append(ended)


def test_a_killed_job_comes_again_and_the_next_of_its_chain_follows_its_end() -> None:
    site = Written(1.0, 4.0, 2.0)
    found = Loop(site, [LoopJob(need=2.0, run=100.0, asked=8.0), LoopJob(need=2.0, run=50.0, asked=8.0)]).play()
    # Each begins 5 s after submission; the kill takes nine tenths of the run.
    assert site.submitted == [60.0, 60 + 5 + 90 + 60, 215 + 5 + 100 + 60]
    assert [run.state for [run] in site.ended] == ["OUT_OF_MEMORY", "COMPLETED", "COMPLETED"]
    assert site.ended[0][0].seen_gib == pytest.approx(0.99)
    assert (found.jobs, found.kills, found.own, found.lost) == (2, 1, 1, 0)
    assert found.unused == pytest.approx(1.0 * 90 + 2.0 * 100)
    assert found.waste == pytest.approx((90 + 200) / (2.0 * 100 + 2.0 * 50))


def test_a_job_that_never_gets_enough_is_lost_after_seven_kills() -> None:
    found = Loop(Written(*[3.0] * 7, 3.0), [LoopJob(need=5.0, asked=4.0), LoopJob(need=1.0)]).play()
    assert (found.jobs, found.kills, found.own, found.lost) == (2, 7, 0, 1)


@pytest.mark.parametrize(
    ("job", "given", "state", "exit_code", "seen", "counts"),
    [
        (LoopJob(need=9.0, asked=8.0, oom_state="FAILED", oom_exit="1:0"), 8.0, "FAILED", "1:0", 7.92, (7, 0)),
        (LoopJob(need=9.0, seen=0.1), 8.0, "OUT_OF_MEMORY", "0:125", 0.1, (7, 0)),
        (LoopJob(need=lambda given: 0.4 * (given or 0.0), min_need=6.0), 4.0, "OUT_OF_MEMORY", "0:125", 3.96, (7, 7)),
        (LoopJob(need=lambda given: 0.4 * (given or 0.0), min_need=6.0), 8.0, "COMPLETED", "0:0", 3.2, (0, 0)),
        (LoopJob(need=9.0, state="FAILED", after=10.0), 1.0, "FAILED", "1:0", 9.0, (0, 0)),
        (LoopJob(run=8000.0), 2.0, "TIMEOUT", "0:0", 1.0, (7, 0)),
        (LoopJob(need=50.0), None, "COMPLETED", "0:0", 50.0, (0, 0)),
    ],
)
def test_how_a_run_ends(
    job: LoopJob, given: float | None, state: str, exit_code: str, seen: float, counts: tuple[int, int]
) -> None:
    site = Written(*[given] * 7)
    found = Loop(site, [job]).play()
    run = site.ended[0][0]
    assert (run.state, run.exit_code, run.seen_gib) == (state, exit_code, pytest.approx(seen))
    assert (found.kills, found.own) == counts


def test_jobs_that_end_together_are_learned_together_before_the_next_submission() -> None:
    site = Written(*[2.0] * 4)
    Loop(site, [*(LoopJob(at=0.0, run=95.0) for _ in range(3)), LoopJob(at=100.0)]).play()
    assert [len(ended) for ended in site.ended] == [3, 1]
    assert site.submitted == [0.0, 0.0, 0.0, 100.0]


def test_jobsight_lowers_a_job_of_a_known_application_and_its_log_has_both_requests() -> None:
    job = LoopJob(need=2.0, asked=16.0, run=600.0, limit=3600.0)
    with Product() as site:
        found = Loop(site, [job] * 12).play()
        with site.engine.connect() as connection:
            columns = (jobs.c.state, jobs.c.requested_memory_bytes, jobs.c.asked_memory_bytes, jobs.c.used_memory_bytes)
            rows = connection.execute(select(*columns).order_by(jobs.c.id)).all()
    assert (found.jobs, found.kills) == (12, 0)
    assert 2 * 2**30 <= rows[-1].requested_memory_bytes < 8 * 2**30
    assert rows[0] == ("ended", 16 * 2**30, None, 2 * 2**30)
    assert (rows[-1].state, rows[-1].asked_memory_bytes) == ("ended", 16 * 2**30)


def test_the_queue_lists_a_job_from_its_submission_and_it_is_one_run_with_its_record() -> None:
    job = LoopJob(facts={"samples": 3.0}, array="7_1", gpus=1)
    with Product() as site:
        given = site.submit(job, 10.0)
        query = select(jobs.c.state, jobs.c.facts, jobs.c.array_task, jobs.c.gpus)
        with site.engine.connect() as connection:
            assert connection.execute(query).all() == [("queued", '{"samples":3.0}', "7_1", 1)]
        site.submit(job, 20.0)
        states = select(jobs.c.state).order_by(jobs.c.id)
        with site.engine.connect() as connection:
            assert connection.scalars(states).all() == ["running", "queued"]
        site.learn([Ended(job, given, 10.0, 15.0, 1215.0, "CANCELLED", "0:15", 1.0)])
        with site.engine.connect() as connection:
            assert connection.scalars(states).all() == ["ended", "queued"]


def test_a_file_without_such_a_scenario_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("S = {'one': ('label', 'sentence', list)}\n")
    assert list(scenarios_in(file, ["o"])) == ["one"]
    with pytest.raises(SystemExit, match="no scenario two; it has one"):
        scenarios_in(file, ["two"])
    with pytest.raises(SystemExit, match="not a Python file"):
        scenarios_in(tmp_path)
