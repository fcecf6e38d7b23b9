"""The text of sacct -P, and the lines of jobcomp/filetxt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobsight_server.accounting.parsers.slurm.node_list import MOST_NODES, node_names
from jobsight_server.accounting.parsers.slurm.quantities import amount, clock_s, moment, tres
from jobsight_server.accounting.runs import AccountingError, JobEvent, RunRecord

ROOT = Path(__file__).parents[4]
NOON, MIB = 1_700_000_000, 2**20
Read = Callable[[bytes], list[Any]]

COLUMNS = ["Account", "JobIDRaw", "JobName", "User", "Group", "Partition", "State", "ExitCode", "DerivedExitCode"]
COLUMNS += ["Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "ReqMem", "AllocTRES"]
COLUMNS += ["AllocCPUS", "NNodes", "NodeList", "TotalCPU", "TRESUsageInTot"]


def row(job_id: str, **changed: Any) -> dict[str, str]:
    is_step = "." in job_id
    found = {
        "JobIDRaw": job_id,
        "Account": "physics",
        "Group": "hpc",
        "Partition": "batch",
        "JobName": "name",
        "User": "" if is_step else "ann",
        "State": "COMPLETED",
        "ExitCode": "0:0",
        "DerivedExitCode": "" if is_step else "0:0",
        "Submit": str(NOON - 60),
        "Eligible": str(NOON - 60),
        "Start": str(NOON),
        "End": str(NOON + 100),
        "ElapsedRaw": "100",
        "Suspended": "00:00:00",
        "TimelimitRaw": "5",
        "ReqMem": "" if is_step else "1200M",
        "AllocTRES": "billing=4,cpu=4,mem=1200M,node=2",
        "AllocCPUS": "4",
        "NNodes": "2",
        "NodeList": "n[01-02]",
        "TotalCPU": "00:01.500",
        "TRESUsageInTot": "cpu=00:00:01,energy=0,fs/disk=293029,mem=10240K,pages=1" if is_step else "",
    }
    return {**found, **changed}


def text(*rows: dict[str, str], delimiter: str = "\x1f", columns: list[str] = COLUMNS, end: str = "\n") -> bytes:
    lines = [delimiter.join(columns), *(delimiter.join(one.get(name, "") for name in columns) for one in rows)]
    return end.join([*lines, ""]).encode()


def run_of(events: Read, *rows: dict[str, str], **more: Any) -> RunRecord:
    (event,) = events(text(*rows, **more))
    assert isinstance(event, JobEvent), event
    assert event.run is not None
    return event.run


@pytest.mark.parametrize("end", ["\n", "\x1f\n", "\r\n"])
def test_text_says_what_json_says(events: Read, newest: Any, end: str) -> None:
    (expected,) = events(newest.document(newest.job(name="name")))
    assert events(text(row("7"), row("7.batch"), end=end)) == [expected]


@pytest.mark.parametrize("name", ["a|b", 'say "x"', "two\nlines", "\n", "three\n\nlines\n", "7.0\n8", "é" * 99, ""])
def test_names_hold_anything_but_the_delimiter(events: Read, name: str) -> None:
    first, second = events(text(row("7", JobName=name), row("7.batch", JobName=name), row("8")))
    assert (first.job_id, first.run.name, first.run.used_memory_bytes) == ("7", name or None, 10 * MIB)
    assert (second.job_id, second.run.name) == ("8", "name")


def test_a_last_column_may_hold_newlines_too(events: Read) -> None:
    rows = row("7", WorkDir="/a\nb"), row("7.batch"), row("8", WorkDir="x\n\ny"), row("9")
    found = events(text(*rows, columns=[*COLUMNS, "WorkDir"]))
    assert [event.job_id for event in found] == ["7", "8", "9"]


def test_a_delimiter_in_a_name_is_not_guessed_at(events: Read) -> None:
    found = events(text(row("7"), row("8", JobName="a|b"), row("8.batch"), row("9"), delimiter="|"))
    assert [event.job_id for event in found if isinstance(event, JobEvent)] == ["7", "9"]
    assert [one for one in found if isinstance(one, str)] == [
        "more fields than the header; use sacct --delimiter=$'\\x1f'",
        "a step without the row of its job",
    ]


def test_damage_costs_the_job_that_it_hits(events: Read) -> None:
    lines = text(row("7"), row("7.batch"), row("8"), row("8.batch"), row("8.0"), row("9")).splitlines(keepends=True)

    def ids(number: int, damaged: bytes) -> tuple[list[str], int]:
        found = events(b"".join([*lines[:number], damaged, *lines[number + 1 :]]))
        good = [event.job_id for event in found if isinstance(event, JobEvent)]
        return good, len(found) - len(good)

    # Without the row of the job, its two steps have none.
    for number, rejected in ((3, 3), (4, 1), (5, 1)):
        assert ids(number, lines[number][:70] + b"\n") == (["7", "9"], rejected)
    assert ids(4, b"rubbish\n") == (["7", "9"], 1)
    assert ids(4, lines[4].replace(b"10240K", b"1.2.3K")) == (["7", "9"], 1)
    assert ids(4, lines[4].replace(b"name", b"\xff")) == (["7", "8", "9"], 0)
    assert ids(1, lines[1].replace(b"ann", b"")) == (["8", "9"], 1)


def test_a_file_that_ends_within_a_row(events: Read) -> None:
    whole = text(row("7"), row("8"))
    first, second = events(whole[:-20])
    assert (first.job_id, second) == ("7", "cut off: the file ends within the record")


def test_headers(events: Read) -> None:
    whole = text(row("7"))
    assert [event.job_id for event in events(whole + whole)] == ["7", "7"]
    (reason,) = events(text(row("7"), columns=[name for name in COLUMNS if name != "State"]))
    assert reason == "the header has no column State; ask sacct for it with --format"
    without = whole.partition(b"\n")[2]
    assert events(without) == ["not JSON of sacct, and no header of its text: run sacct without --noheader"]
    for before in (b"\xef\xbb\xbf", b"\n", b"\r\n\n"):
        assert [event.job_id for event in events(before + whole)] == ["7"]
    columns = b"JobID           JobName      State \n------------ ---------- ---------- \n7      name  CANCELLED+ \n"
    assert set(events(columns)) == {"columns of sacct, which cut values off: run sacct with --parsable2"}


def test_few_columns(events: Read) -> None:
    few = ["JobIDRaw", "User", "State", "Submit", "Start", "End", "MaxRSS"]
    run = run_of(events, row("7"), row("7.batch", MaxRSS="100M"), columns=few)
    assert (run.used_walltime_s, run.used_memory_bytes, run.nodes) == (100.0, 100 * MIB, ())
    kinds = {"COMPLETED": "E", "FAILED": "D", "CANCELLED by 5": "D"}
    for state, kind in kinds.items():  # within a second
        (event,) = events(text(row("7", State=state, End=str(NOON)), columns=few))
        assert event.kind == kind
    assert run_of(events, row("7", User="", UID="1234"), columns=[*few, "UID"]).user == "1234"
    (event,) = events(text(row("7", JobID="7_[4-9%2]", State="PENDING"), columns=["JobID", *few[1:]]))
    assert event == "tasks of an array that wait, in one record; ask sacct for JobIDRaw"


def test_jobs_of_another_cluster_are_not_mixed_in(events: Read) -> None:
    rows = row("7", Cluster="a"), row("7.batch", Cluster="a"), row("7", Cluster="b", User="bob"), row("8", Cluster="a")
    first, second, third = events(text(*rows, columns=[*COLUMNS, "Cluster"]))
    assert (first.run.user, third.job_id) == ("ann", "8")
    assert second == "of another cluster than the first record, a; ask sacct for one, with --clusters"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("1200M", 1200 * MIB),
        ("300Mn", 600 * MIB),
        ("2Gc", 8 * 1024 * MIB),
        ("1.50G", 1536 * MIB),
        ("0n", None),
        ("", None),
        ("?", None),
    ],
)
def test_requested_memory_by_release(events: Read, asked: str, expected: int | None) -> None:
    assert run_of(events, row("7", ReqMem=asked)).requested_memory_bytes == expected


def test_memory_without_the_sums(events: Read) -> None:
    columns = [*(name for name in COLUMNS if name != "TRESUsageInTot"), "AveRSS", "MaxRSS", "NTasks"]

    def memory(**of_step: str) -> tuple[int | None, bool | None]:
        run = run_of(events, row("7"), row("7.0", **of_step), columns=columns)
        return run.used_memory_bytes, run.memory_incomplete

    # Whether each of several tasks was measured, only TRESUsageInMin says.
    assert memory(AveRSS="100M", MaxRSS="150M", NTasks="4") == (400 * MIB, True)
    assert memory(MaxRSS="150M", NTasks="1") == (150 * MIB, False)
    assert memory(MaxRSS="150M", NTasks="4") == (150 * MIB, True)
    assert memory(MaxRSS="150M") == (150 * MIB, True)


def test_a_task_without_memory_was_not_measured(events: Read) -> None:
    columns = [*COLUMNS, "NTasks", "TRESUsageInMin"]

    def incomplete(**of_step: str) -> bool | None:
        return run_of(events, row("7"), row("7.0", **of_step), columns=columns).memory_incomplete

    assert incomplete(NTasks="2", TRESUsageInMin="cpu=0,mem=5120K") is False
    assert incomplete(NTasks="2", TRESUsageInMin="cpu=0,mem=0") is True
    assert incomplete(NTasks="2") is True
    assert incomplete(NTasks="1") is False
    # Of a step of a second, what was read may be from before it held all its memory.
    assert incomplete(NTasks="1", End=str(NOON + 1)) is True
    assert incomplete(NTasks="1", End=str(NOON + 2)) is False


def test_the_columns_that_the_documents_name_say_what_json_says(events: Read, newest: Any) -> None:
    document = (ROOT / "docs" / "operate" / "sources.md").read_text()
    columns = re.search(r"--format=([A-Za-z,\\\n]+)", document)
    assert columns is not None
    named = columns[1].replace("\\\n", "").split(",")
    steps = [newest.step("batch", NOON, NOON + 100, 10 * MIB), newest.step("0", NOON, NOON + 50, 300 * MIB, tasks=2)]
    comment = "jobsight_asked=mem_per_node:4000M"
    (expected,) = events(newest.document(newest.job(name="name", steps=steps, comment=comment)))
    batch = {"TRESUsageInTot": "mem=10240K", "TRESUsageInMin": "mem=10240K", "TotalCPU": "00:00:00"}
    step = {"TRESUsageInTot": "mem=307200K", "TRESUsageInMin": "mem=153600K", "NTasks": "2", "End": str(NOON + 50)}
    step["TotalCPU"] = "00:00:00"
    rows = row("7", AdminComment=comment, TotalCPU=""), row("7.batch", **batch), row("7.0", **step)
    assert events(text(*rows, columns=named)) == [expected]
    assert expected.run.memory_incomplete is False
    assert expected.run.asked_memory_bytes == 8000 * MIB


def test_times_and_limits(events: Read) -> None:
    run = run_of(
        events, row("7", Suspended="00:00:30", ElapsedRaw="70", TimelimitRaw="UNLIMITED", TotalCPU="1-00:00:01")
    )
    assert (run.used_walltime_s, run.suspended_s, run.requested_walltime_s) == (70.0, 30.0, None)
    assert run.used_cpu_s == 86_401.0
    (event,) = events(text(row("7", State="PENDING", Start="Unknown", End="Unknown", NodeList="None assigned")))
    assert (event.kind, event.submitted) == ("Q", NOON - 60)
    (event,) = events(text(row("7", State="CANCELLED by 5", Start="None", NodeList="None assigned")))
    assert event.kind == "D"


def test_local_times_are_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Europe/Prague")
    time.tzset()
    try:
        assert moment("Start", "2026-07-01T02:00:00") == 1_782_864_000.0
        assert moment("Start", "2026-01-01T01:00:00") == 1_767_225_600.0
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "expected"),
    [  # clocks are set back from 3 to 2 o'clock, which is 1 o'clock in UTC
        ("02:50:00", "02:10:00", "1200", (-600, 600)),
        ("02:50:00", "02:10:00", None, (-600, 600)),
        ("02:50:00", "04:50:00", "7200", (3000, 10_200)),
        ("02:50:00", "04:50:00", "10800", (-600, 10_200)),
        ("02:10:00", "02:50:00", "2400", (-3000, -600)),
        ("02:10:00", "02:50:00", "6000", (-3000, 3000)),
        ("01:00:00", "04:00:00", "14400", (-7200, 7200)),
        ("02:10:00", "02:50:00", "7", (-3000, -600)),  # no reading fits
    ],
)
def test_clocks_set_back(
    events: Read,
    monkeypatch: pytest.MonkeyPatch,
    start: str,
    end: str,
    elapsed: str | None,
    expected: tuple[int, int],
) -> None:
    import time

    back = 1_792_890_000
    monkeypatch.setenv("TZ", "Europe/Prague")
    time.tzset()
    try:
        one = row("7", Start=f"2026-10-25T{start}", End=f"2026-10-25T{end}", ElapsedRaw=elapsed or "")
        run = run_of(events, one)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert run.end is not None
    assert (run.start - back, run.end - back) == expected


def test_times_with_their_offset() -> None:
    assert moment("Start", "2026-07-01T02:00:00+0200") == moment("Start", "2026-07-01T00:00:00Z") == 1_782_864_000.0


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1-02:03:04", 93_784.0), ("02:03:04", 7384.0), ("03:04.567", 184.567), ("UNLIMITED", None), ("Unknown", None)],
)
def test_durations(written: str, seconds: float | None) -> None:
    assert clock_s("Elapsed", written) == seconds


@pytest.mark.parametrize("written", ["1", "1:2:3:4", "-1:00", "1-00", "x", "0" * 400 + ":00", "²:00"])
def test_what_is_no_duration(written: str) -> None:
    with pytest.raises(AccountingError, match="Elapsed is not a duration"):
        clock_s("Elapsed", written)


def test_amounts() -> None:
    assert amount("mem", "0.5G") == 512 * MIB
    assert tres("x", "cpu=1,gres/gpu:a100=2,ic/ofed=5") == {"cpu": 1.0, "gres/gpu:a100": 2.0}
    for wrong in ("1.5X", "", "1e9", "9" * 19, "99999999P"):
        with pytest.raises(AccountingError, match="mem is not a size"):
            amount("mem", wrong)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("n1", "n1"),
        ("n[01-03,7],gpu1", "n01 n02 n03 n7 gpu1"),
        ("r[1-2]n[09-10]-ib", "r1n09-ib r1n10-ib r2n09-ib r2n10-ib"),
        ("a[1-2],b[3,5]", "a1 a2 b3 b5"),
        ("node.example.org", "node.example.org"),
        ("None assigned", ""),
        ("(null)", ""),
    ],
)
def test_node_lists(written: str, names: str) -> None:
    assert node_names(written) == tuple(names.split())


@pytest.mark.parametrize("written", ["n[1-", "n[]", "n]1", "a,,b", ",", "n[3-1]", "n[1-x]", "n[1]]", "[[1]]", "a b"])
def test_damaged_node_lists(written: str) -> None:
    with pytest.raises(AccountingError, match="node list"):
        node_names(written)


@pytest.mark.parametrize(
    "written", ["n[1-999999999]", "n[0-999]m[0-999]", ",".join(f"n{i}" for i in range(MOST_NODES + 1))]
)
def test_huge_node_lists_cost_nothing(written: str) -> None:
    with pytest.raises(AccountingError, match="more than 20000 names"):
        node_names(written)


FILETXT = (
    "JobId=7 UserId=ann(1001) GroupId=hpc(1001) Name=a b=c JobState=TIMEOUT Partition=batch TimeLimit=5 "
    f"StartTime={NOON} EndTime={NOON + 100} NodeList=n[01-02] NodeCnt=2 ProcCnt=4 WorkDir=/home/ann x "
    f"ReservationName= Tres=cpu=4,mem=1200M,node=2 Account=physics QOS=normal WcKey= Cluster=lab "
    f"SubmitTime={NOON - 60} EligibleTime={NOON - 60} DerivedExitCode=0:0 ExitCode=0:15 \n"
)


def test_jobcomp_filetxt(events: Read) -> None:
    (event,) = events(FILETXT.encode())
    run = event.run
    assert (event.kind, event.job_id, event.submitted, run.failure) == ("E", "7", NOON - 60, "time")
    assert (run.user, run.group, run.name, run.account, run.queue) == ("ann", "hpc", "a b=c", "physics", "batch")
    assert (run.nodes, run.exit_status, run.requested_walltime_s) == ((("n01", 2), ("n02", 2)), 271, 300.0)
    assert (run.requested_memory_bytes, run.used_memory_bytes) == (1200 * MIB, None)


def test_filetxt_is_not_fooled_by_names(events: Read) -> None:
    middle = FILETXT[FILETXT.index(" JobState") : FILETXT.index(" WorkDir") + 9]
    for place in ("Name=", "WorkDir="):
        forged = FILETXT.replace(place, f"{place}x{middle.replace('TIMEOUT', 'COMPLETED')}")
        reason, whole = events(forged.encode() + FILETXT.encode())
        assert reason == "the job's name or directory contains what looks like further fields"
        assert whole.run.failure == "time"


def test_filetxt_with_names_of_a_directory_service(events: Read) -> None:
    (event,) = events(FILETXT.replace("=ann(", "=CORP\\ann smith(").replace("=hpc(", "=domain users(").encode())
    assert (event.run.user, event.run.group, event.run.name) == ("CORP\\ann smith", "domain users", "a b=c")
