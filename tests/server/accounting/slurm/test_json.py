"""What the JSON of sacct says of a job, in the shapes of all releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jobsight_server.accounting.runs import JobEvent, RunRecord

NOON, MIB = 1_700_000_000, 2**20
Read = Callable[[bytes], list[Any]]


def run_of(events: Read, release: Any, **changed: Any) -> RunRecord:
    (event,) = events(release.document(release.job(**changed)))
    assert isinstance(event, JobEvent), event
    assert event.run is not None
    return event.run


def test_a_whole_record_is_the_same_in_every_release(events: Read, release: Any) -> None:
    (event,) = events(release.document(release.job()))
    assert event == JobEvent(
        "E",
        "7",
        NOON + 100.0,
        RunRecord(
            user="ann",
            start=NOON,
            end=NOON + 100.0,
            group="hpc",
            account="physics",
            name='odd|name "q"\n{"account":1},{"account":',
            queue="batch",
            queued=NOON - 60.0,
            eligible=NOON - 60.0,
            exec_host="n[01-02]",
            nodes=(("n01", 2), ("n02", 2)),
            processors=4,
            exit_status=0,
            requested_walltime_s=300.0,
            requested_memory_bytes=1200 * MIB,
            requested_nodes="2",
            used_cpu_s=1.5,
            used_memory_bytes=10 * MIB,
            used_walltime_s=100.0,
            memory_incomplete=False,
            ended_abnormally=False,
        ),
        utc_s=NOON + 100.0,
        submitted=NOON - 60.0,
    )


@pytest.mark.parametrize(
    ("states", "changed", "kind"),
    [
        (("PENDING",), {"start": 0, "end": 0, "nodes": "None assigned", "steps": []}, "Q"),
        (("RUNNING",), {"end": 0}, "S"),
        (("SUSPENDED",), {"end": 0}, "S"),
        (("COMPLETED",), {}, "E"),
        (("FAILED",), {}, "E"),
        (("CANCELLED by 1002",), {}, "E"),
        (("CANCELLED",), {"start": 0, "nodes": "None assigned", "steps": []}, "D"),
        (("FAILED",), {"end": NOON, "nodes": "None assigned", "steps": []}, "D"),
        (("REQUEUED",), {}, "R"),
        (("NODE_FAIL",), {}, "R"),
        (("PREEMPTED",), {}, "R"),
        (("RESIZING",), {}, "R"),
    ],
)
def test_kinds(events: Read, release: Any, states: tuple[str, ...], changed: dict[str, Any], kind: str) -> None:
    (event,) = events(release.document(release.job(state=states, **changed)))
    assert event.kind == kind
    assert (event.run is None) == (kind == "D")


def test_states_with_flags(events: Read, newest: Any) -> None:
    def kind(*states: str, end: int) -> Any:
        return events(newest.document(newest.job(state=states, end=end)))[0].kind

    assert kind("RUNNING", "COMPLETING", end=0) == "S"
    assert kind("COMPLETED", "COMPLETING", end=NOON + 9) == "E"
    assert kind("PENDING", "REQUEUED", end=0) == "Q"
    (event,) = events(newest.document(newest.job(state=("BEWILDERED",))))
    assert event == "an unknown state"


def test_memory_is_of_the_steps(events: Read, release: Any) -> None:
    def memory(*steps: Any) -> int | None:
        return run_of(events, release, steps=list(steps)).used_memory_bytes

    batch = release.step("batch", NOON, NOON + 100, 10 * MIB)
    first = release.step("0", NOON, NOON + 50, 500 * MIB)
    after_it = release.step("1", NOON + 50, NOON + 100, 300 * MIB)
    beside_it = release.step("2", NOON + 20, NOON + 60, 200 * MIB)
    assert memory(batch) == 10 * MIB
    assert memory(batch, first, after_it) == 510 * MIB
    assert memory(batch, first, after_it, beside_it) == 710 * MIB
    assert memory() is None


def test_what_was_not_measured_makes_memory_a_lower_bound(events: Read, release: Any) -> None:
    def memory(*steps: Any) -> tuple[int | None, bool | None]:
        run = run_of(events, release, steps=list(steps))
        return run.used_memory_bytes, run.memory_incomplete

    batch = release.step("batch", NOON, NOON + 100, 10 * MIB)
    # Four tasks that hold 300 MiB each and are over before Slurm looks, then one of 40 MiB.
    missed = release.step("0", NOON, NOON + 20, tasks=4)
    small = release.step("1", NOON + 20, NOON + 100, 40 * MIB)
    assert memory(batch, missed, small) == (50 * MIB, True)
    assert memory(batch, small) == (50 * MIB, False)
    assert memory(batch, missed) == (10 * MIB, True), "the batch script alone is not what the job held"
    on_two_nodes = release.step("2", NOON + 20, NOON + 100, 300 * MIB, tasks=2, least=0)
    assert memory(batch, on_two_nodes) == (310 * MIB, True)
    assert memory(batch, release.step("2", NOON + 20, NOON + 100, 300 * MIB, tasks=2)) == (310 * MIB, False)
    extern = release.step("extern", NOON, NOON + 100)
    assert memory(extern, batch, small) == (50 * MIB, False), "extern holds nothing of the job's"
    assert memory(missed) == (None, None)


def test_what_the_user_asked_for_is_kept_beside_what_was_given(events: Read, release: Any) -> None:
    def asked(**changes: Any) -> tuple[Any, ...]:
        run = run_of(events, release, **changes)
        return run.processors, run.asked_processors, run.asked_memory_bytes, run.asked_walltime_s

    assert asked() == (4, None, None, None)
    assert asked(requested=[{"type": "cpu", "count": 1}])[:2] == (4, 1), "a whole node"
    report = "a note; jobsight: ... Set: ... jobsight_asked=mem_per_node:4000M,time:60"
    assert asked(comment=report) == (4, None, 2 * 4000 * MIB, 3600.0)
    assert asked(comment="jobsight_asked=mem_per_cpu:100M") == (4, None, 400 * MIB, None)
    assert asked(comment="jobsight_asked=mem_per_node:none,time:none") == (4, None, 0, 0.0)
    for broken in ("jobsight_asked=", "jobsight_asked=mem_per_node:-1M", "jobsight_asked=time:1e999", 7, None, ["x"]):
        assert asked(comment=broken) == (4, None, None, None)


def test_what_did_not_complete_ended_abnormally(events: Read, release: Any) -> None:
    states = {"COMPLETED": False, "FAILED": True, "CANCELLED by 1002": True, "TIMEOUT": True, "OUT_OF_MEMORY": True}
    for state, abnormal in states.items():
        assert run_of(events, release, state=(state,)).ended_abnormally is abnormal, state


def test_steps_within_a_second_follow_one_another(events: Read, release: Any) -> None:
    steps = [release.step(str(n), NOON + 5, NOON + 5, (100 + n) * MIB) for n in range(3)]
    long = release.step("9", NOON, NOON + 10, 50 * MIB)
    assert run_of(events, release, steps=steps).used_memory_bytes == 102 * MIB
    assert run_of(events, release, steps=[*steps, long]).used_memory_bytes == 152 * MIB


def test_zero_is_not_measured(events: Read, release: Any) -> None:
    run = run_of(events, release, steps=[release.step("batch", NOON, NOON + 1)])
    assert (run.used_memory_bytes, run.used_cpu_s) == (None, None)


def test_processor_time_is_added_up_from_the_steps(events: Read, release: Any) -> None:
    steps = [release.step("batch", NOON, NOON + 9, 1, 0.5), release.step("0", NOON, NOON + 9, 1, 3.25)]
    # As Slurm writes it: more than a million microseconds.
    steps[1]["time"]["total"] = {"seconds": 2, "microseconds": 1_250_000}
    assert run_of(events, release, steps=steps).used_cpu_s == pytest.approx(3.75)
    # Of a killed step only samples are known, in milliseconds.
    steps[0]["tres"]["requested"]["total"].append({"type": "cpu", "count": 990})
    assert run_of(events, release, steps=steps).used_cpu_s == pytest.approx(4.24)


@pytest.mark.parametrize(
    "changed",
    [
        {"state": ("OUT_OF_MEMORY",)},
        {"exit_code": (0, 125)},
        {"derived": (0, 125)},
        {"step": {"state": "OUT_OF_MEMORY"}},
        {"step": {"exit_code": (0, 125)}},
    ],
)
def test_out_of_memory(events: Read, release: Any, changed: dict[str, Any]) -> None:
    step = release.step("batch", NOON, NOON + 9, 64 * MIB, **changed.get("step", {}))
    run = run_of(events, release, steps=[step], **changed)
    assert (run.failure, run.used_memory_bytes) == ("memory", 64 * MIB)


@pytest.mark.parametrize("state", ["TIMEOUT", "DEADLINE"])
def test_over_its_time(events: Read, release: Any, state: str) -> None:
    step = release.step("batch", NOON, NOON + 9, MIB, state="CANCELLED", exit_code=(0, 15))
    run = run_of(events, release, state=(state,), steps=[step])
    assert (run.failure, run.exit_status) == ("time", 271)
    assert run_of(events, release).failure is None


def test_exit_status(events: Read, release: Any) -> None:
    assert run_of(events, release, state=("FAILED",), exit_code=(3, 0)).exit_status == 3
    assert run_of(events, release, state=("FAILED",), exit_code=(0, 11)).exit_status == 256 + 11
    # 22.05 writes 0 for every job that failed: that is not known rather than a success.
    assert run_of(events, release, state=("FAILED",)).exit_status is None


def test_suspended_time_is_no_run_time(events: Read, release: Any) -> None:
    run = run_of(events, release, suspended=30, elapsed=70)
    assert (run.start, run.end, run.used_walltime_s, run.suspended_s) == (NOON, NOON + 100, 70.0, 30.0)


def test_limits(events: Read, release: Any) -> None:
    assert run_of(events, release, limit=90).requested_walltime_s == 5400.0
    assert run_of(events, release, limit=None).requested_walltime_s is None
    assert run_of(events, release, limit=2**32 - 1).requested_walltime_s is None
    if release.typed:
        job = release.job()
        job["time"]["limit"] = {"set": True, "infinite": True, "number": 0}
        (event,) = events(release.document(job))
        assert event.run.requested_walltime_s is None


def test_what_was_allocated_counts(events: Read, release: Any) -> None:
    whole_nodes = [{"type": "cpu", "count": 8}, {"type": "mem", "count": 4096}, {"type": "node", "count": 2}]
    run = run_of(events, release, allocated=whole_nodes)
    assert (run.processors, run.nodes, run.requested_memory_bytes) == (8, (("n01", 4), ("n02", 4)), 1200 * MIB)
    # 1 MiB for each node is what stands there if no memory was asked for.
    nothing = [{"type": "cpu", "count": 4}, {"type": "mem", "count": 2}, {"type": "node", "count": 2}]
    assert run_of(events, release, requested=nothing).requested_memory_bytes is None


def test_a_requeued_job_and_an_array_are_runs_of_their_own(events: Read, release: Any) -> None:
    first = release.job(state=("REQUEUED",), end=NOON)
    second = release.job(submission=NOON, start=NOON + 120, end=NOON + 130)
    last_task = release.job(job_id=8)
    last_task["array"] = {"job_id": 8, "task_id": release.number(4)}
    component = release.job(job_id=27)
    component["het"] = {"job_id": 26, "job_offset": release.number(1)}
    found = events(release.document(first, second, last_task, component))
    assert [(event.kind, event.job_id, event.submitted) for event in found] == [
        ("R", "7", NOON - 60),
        ("E", "7", NOON),
        ("E", "8", NOON - 60),
        ("E", "27", NOON - 60),
    ]


@pytest.mark.parametrize("indent", [None, 0, 4])
def test_however_it_is_laid_out(events: Read, newest: Any, indent: int | None) -> None:
    jobs = [newest.job(job_id=number) for number in range(1, 9)]
    found = events(newest.document(*jobs, indent=indent))
    assert [event.job_id for event in found] == [str(number) for number in range(1, 9)]
    first, *rest = found
    assert all(replace(event, job_id="1") == first for event in rest)


def test_several_documents_in_a_row_and_none(events: Read, release: Any) -> None:
    document = release.document(release.job(job_id=1), release.job(job_id=2))
    assert [event.job_id for event in events(document + b"\n" + document)] == ["1", "2", "1", "2"]
    assert events(release.document()) == []
    assert events(b'{"errors": []}') == []


def test_a_damaged_record_costs_no_other(events: Read, release: Any) -> None:
    whole = release.document(*(release.job(job_id=number) for number in (1, 2, 3)))
    second = whole.index(b'"job_id": 2')
    quote = whole.index(b'"physics"', whole.index(b'"job_id": 1') + 20)
    for damaged in (
        whole[: second + 9] + whole[second + 40 :],
        whole[:second] + b"}" + whole[second:],
        whole[:second] + b"{" + whole[second:],
        whole[:second] + b'"' + whole[second:],
        whole[:quote] + b"'" + whole[quote + 1 :],
        whole[:second] + b"\xff\x00" + whole[second:],
    ):
        found = events(damaged)
        assert [event.job_id for event in found if isinstance(event, JobEvent)] == ["1", "3"]
        assert sum(isinstance(event, str) for event in found) == 1


def test_damage_between_two_records(events: Read, release: Any) -> None:
    whole = release.document(*(release.job(job_id=number) for number in (1, 2, 3)))
    begin = whole.index(b'"account"', whole.index(b'"job_id": 2') + 900)
    brace = whole.rindex(b"{", 0, begin)
    for damaged in (whole[:brace] + b"x" + whole[brace + 1 :], whole[:begin] + whole[begin + 4 :]):
        found = events(damaged)
        assert [event.job_id for event in found if isinstance(event, JobEvent)] == ["1", "2"]
        assert len(found) == 3


def test_a_document_that_ends_within_a_record(events: Read, release: Any) -> None:
    whole = release.document(release.job(job_id=1), release.job(job_id=2))
    first, second = events(whole[: whole.index(b'"job_id": 2') + 30])
    assert first.job_id == "1"
    assert second == "cut off: the file ends within the record"


def test_fields_of_another_type_are_rejected_with_a_reason(events: Read, release: Any) -> None:
    job = release.job()
    job["time"]["start"] = "yesterday"
    assert events(release.document(job)) == ["time.start is not a number"]
    job = release.job(user=5)
    assert events(release.document(job)) == ["a field of another type than Slurm writes"]
    job = release.job(user=None)
    job["association"] = None
    assert events(release.document(job)) == ["user is missing"]
    assert events(release.document(release.job(end=NOON - 5, elapsed=5))) == ["end is before start"]


def test_names_that_are_not_utf_8(events: Read, newest: Any) -> None:
    first, second = events(newest.document(newest.job(name="cafe-x")).replace(b"cafe-x", b"caf\xe9") * 2)
    assert first.run.name == second.run.name == "caf\xe9"


def test_jobs_of_another_cluster_are_not_mixed_in(events: Read, newest: Any) -> None:
    jobs = newest.job(), newest.job(user="bob"), newest.job(job_id=8)
    for job, cluster in zip(jobs, "aba", strict=True):
        job["cluster"] = job["association"]["cluster"] = cluster
    first, second, third = events(newest.document(*jobs))
    assert (first.run.user, third.job_id) == ("ann", "8")
    assert second == "of another cluster than the first record, a; ask sacct for one, with --clusters"


def test_records_without_their_document(events: Read, newest: Any) -> None:
    line = json.dumps({"account": "physics", **newest.job()}).encode()
    for data in (line + b"\n" + line + b"\n", b"[" + line + b"]\n"):
        assert set(events(data)) == {"records of sacct without the document around them: give what sacct --json prints"}
