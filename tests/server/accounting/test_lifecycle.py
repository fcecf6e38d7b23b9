from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_server.accounting.runs import JobEvent, JobRuns, RunRecord


def s(start: int) -> JobEvent:
    return JobEvent("S", "1.s", float(start), RunRecord("ann", float(start), requested_walltime_s=50.0, queue="q"))


def e(start: int, end: int) -> JobEvent:
    return JobEvent("E", "1.s", float(end), RunRecord("ann", float(start), float(end), exit_status=0))


def r(time: int) -> JobEvent:
    return JobEvent("R", "1.s", float(time))


def d(time: int) -> JobEvent:
    return JobEvent("D", "1.s", float(time))


def of_slurm(kind: str, queued: int, start: float = inf, end: float | None = None, fails: bool = False) -> JobEvent:
    """A record that names its run by the submission."""
    run = None if kind == "D" else RunRecord("ann", start, end, queued=float(queued), ended_abnormally=fails)
    return JobEvent(kind, "1", 0.0, run, submitted=float(queued))


WAITS, RUNS = of_slurm("Q", 40), of_slurm("S", 40, 100)
REQUEUED = of_slurm("R", 40, 100, 150, fails=True)
AGAIN = of_slurm("E", 150, 160, 190)


def states(*events: JobEvent) -> list[tuple[float, float | None, str]]:
    runs = JobRuns()
    for event in events:
        runs.apply(event, event.local_s, utc_known=True)
    return [(run.record.start, run.record.end, run.state) for run in runs.runs]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([s(100)], [(100, None, "running")]),
        ([s(100), e(100, 120)], [(100, 120, "ended")]),
        ([e(100, 120)], [(100, 120, "ended")]),
        ([e(100, 120), s(100)], [(100, 120, "ended")]),
        ([s(100), r(110), s(200), e(200, 220)], [(100, 110, "requeued"), (200, 220, "ended")]),
        ([s(100), d(110)], [(100, 110, "deleted")]),
        ([s(100), d(110), d(115), e(100, 119)], [(100, 119, "ended")]),
        ([s(100), r(110), d(115)], [(100, 110, "requeued")]),
        ([s(100), r(90)], [(100, 100, "requeued")]),
        ([d(100)], []),
        ([r(100)], []),
        # The R record is lost: over at the latest when it started again, or when its walltime was over.
        ([s(100), s(130)], [(100, 130, "requeued"), (130, None, "running")]),
        ([s(100), s(1000)], [(100, 150, "requeued"), (1000, None, "running")]),
        ([s(100), e(130, 140)], [(100, 130, "requeued"), (130, 140, "ended")]),
        # Files in the wrong order.
        ([s(200), s(100)], [(100, 150, "requeued"), (200, None, "running")]),
        ([s(200), s(100), r(110)], [(100, 150, "requeued"), (200, None, "running")]),
        ([e(100, 120), e(100, 125)], [(100, 120, "ended")]),
        # The R record of PBS Pro has the run's use.
        ([s(100), replace(e(100, 110), kind="R"), s(110), e(110, 120)], [(100, 110, "requeued"), (110, 120, "ended")]),
        # A table's rows of runs name no submission; one of its queue that comes late makes nothing wait again.
        ([of_slurm("Q", 150), replace(of_slurm("S", 150, 160), submitted=None)], [(160, None, "running")]),
        ([replace(AGAIN, submitted=None), of_slurm("Q", 150)], [(160, 190, "ended")]),
        # Jobs that wait, of Slurm.
        ([WAITS, WAITS], [(inf, None, "queued")]),
        ([WAITS, of_slurm("D", 40)], []),
        ([of_slurm("D", 40)], []),
        ([WAITS, RUNS], [(100, None, "running")]),
        ([RUNS, WAITS], [(100, None, "running")]),
        ([WAITS, RUNS, of_slurm("S", 40, 130)], [(130, None, "running")]),  # its nodes had to boot
        ([RUNS, REQUEUED, of_slurm("Q", 150)], [(100, 150, "requeued"), (inf, None, "queued")]),
        ([RUNS, REQUEUED, of_slurm("Q", 150), AGAIN, REQUEUED], [(100, 150, "requeued"), (160, 190, "ended")]),
        # Requeued before its start was seen: the log has the run later.
        ([WAITS, of_slurm("Q", 150)], [(inf, None, "queued")]),
        ([WAITS, of_slurm("Q", 150), REQUEUED], [(100, 150, "requeued"), (inf, None, "queued")]),
        ([WAITS, of_slurm("S", 150, 160)], [(160, None, "running")]),
        ([of_slurm("S", 150, 160), WAITS], [(160, None, "running")]),
        ([REQUEUED, of_slurm("E", 150, 100, 120)], [(100, 150, "requeued")]),  # both runs began at the same time
        # The end of a failed node is a requeue only if the job is submitted again at that time.
        ([of_slurm("E", 40, 100, 150, fails=True), AGAIN], [(100, 150, "requeued"), (160, 190, "ended")]),
        ([AGAIN, of_slurm("E", 40, 100, 150, fails=True)], [(100, 150, "requeued"), (160, 190, "ended")]),
        ([of_slurm("E", 40, 100, 150, fails=True)], [(100, 150, "ended")]),
    ],
)
def test_runs(events: list[JobEvent], expected: list[tuple[float, float | None, str]]) -> None:
    assert states(*events) == expected


def test_what_the_end_record_leaves_out_the_start_record_has_said() -> None:
    runs = JobRuns()
    for event in (s(100), e(100, 120)):
        runs.apply(event, event.local_s, utc_known=True)
    record = runs.runs[0].record
    assert (record.queue, record.requested_walltime_s, record.exit_status) == ("q", 50.0, 0)


def test_a_stamp_of_unknown_zone_still_ends_the_run() -> None:
    runs = JobRuns()
    runs.apply(s(100_000), 100_000.0, utc_known=False)
    assert runs.apply(r(0), 0.0, utc_known=False) == "requeued"
    assert runs.runs[0].record.end == 100_000.0


@st.composite
def histories(draw: st.DrawFn) -> list[JobEvent]:
    """A server's records of one job: it starts, may be requeued and start again, and may end."""
    time, events = 1000, list[JobEvent]()
    for _ in range(draw(st.integers(1, 5))):
        start = time + draw(st.integers(61, 500))
        time = start + draw(st.integers(0, 500))
        events += [
            s(start),
            *draw(st.sampled_from([[r(time)], [], [d(time)], [e(start, time)], [d(time), e(start, time)]])),
        ]
    return events  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(histories(), st.data())
def test_reading_any_part_again_changes_nothing(events: list[JobEvent], data: st.DataObject) -> None:
    once = states(*events)
    first = data.draw(st.integers(0, len(events)))
    last = data.draw(st.integers(first, len(events)))
    # Replayed R and D records stand behind S records that are replayed with them, so only from an S on.
    while first < last and events[first].kind != "S":
        first += 1
    assert states(*events, *events) == once
    assert states(*events[:last], *events[first:]) == once
    assert [start for start, _, _ in once] == sorted({event.run.start for event in events if event.run})
    assert not [state for *_, state in once[:-1] if state == "running"]


def test_an_end_changes_nothing_but_its_own_run() -> None:
    assert states(s(100), r(110), s(200), replace(e(100, 110))) == [(100, 110, "ended"), (200, None, "running")]
