"""The text of sacct -P, and the lines of jobcomp/filetxt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.make import not_none

from jobsight_server.accounting.parsers.slurm.job import event_of
from jobsight_server.accounting.parsers.slurm.quantities import moment
from jobsight_server.accounting.parsers.slurm.squeue import WIDTHS, sacct_row
from jobsight_server.accounting.runs import JobEvent, JobRuns, RunRecord

ROOT = Path(__file__).parents[4]
NOON, MIB = 1_700_000_000, 2**20
Read = Callable[[bytes], list[Any]]

GOLDEN = (ROOT / "tests" / "golden" / "logs" / "slurm-text.log").read_bytes().split(b"\n")
HEADER, JOB, STEP = (line.decode().split("\x1f") for line in GOLDEN[:3])
COLUMNS = HEADER[:23]


def row(job_id: str, **changed: Any) -> dict[str, str]:
    """The first row of a job, or of a step, in the golden log, changed."""
    return {**dict(zip(HEADER, STEP if "." in job_id else JOB, strict=True)), "JobIDRaw": job_id, **changed}


def text(*rows: dict[str, str], delimiter: str = "\x1f", columns: list[str] = COLUMNS, end: str = "\n") -> bytes:
    lines = [delimiter.join(columns), *(delimiter.join(one.get(name, "") for name in columns) for one in rows)]
    return end.join([*lines, ""]).encode()


def run_of(events: Read, *rows: dict[str, str], **more: Any) -> RunRecord:
    (event,) = events(text(*rows, **more))
    assert isinstance(event, JobEvent), event
    return not_none(event.run)


def test_the_columns_that_the_documents_name_say_what_json_says(events: Read, newest: Any) -> None:
    document = (ROOT / "docs" / "operate" / "sources.md").read_text()
    columns = not_none(re.search(r"--format=([A-Za-z,\\\n]+)", document))
    named = columns[1].replace("\\\n", "").split(",")
    steps = [newest.step("batch", NOON, NOON + 100, 10 * MIB), newest.step("0", NOON, NOON + 50, 300 * MIB, tasks=2)]
    comment = "jobsight_asked=mem_per_node:4000M"
    (expected,) = events(newest.document(newest.job(name="name", steps=steps, comment=comment)))
    batch = {"TRESUsageInTot": "mem=10240K", "TRESUsageInMin": "mem=10240K", "TotalCPU": "00:00:00"}
    step = {"TRESUsageInTot": "mem=307200K", "TRESUsageInMin": "mem=153600K", "NTasks": "2", "End": str(NOON + 50)}
    step["TotalCPU"] = "00:00:00"
    rows = row("7", AdminComment=comment, TotalCPU=""), row("7.batch", **batch), row("7.0", **step)
    assert events(text(*rows, columns=named)) == [expected]
    assert (expected.run.memory_incomplete, expected.run.memory_intervals) == (False, 50 / 30)
    assert expected.run.asked_memory_bytes == 8000 * MIB


@pytest.mark.parametrize(
    ("batch_s", "step_s", "expected"), [(30, None, 1.0), (45, None, 1.5), (90, 30, 1.0), (90, 120, 3.0)]
)
def test_the_shortest_step_is_in_intervals_between_samples(
    events: Read, batch_s: int, step_s: int | None, expected: float
) -> None:
    memory = {"TRESUsageInTot": "mem=10240K", "TRESUsageInMin": "mem=10240K", "NTasks": "1"}
    ends = {"7.batch": batch_s} if step_s is None else {"7.batch": batch_s, "7.0": step_s}
    rows = [row(step, End=str(NOON + end_s), **memory) for step, end_s in ends.items()]
    assert run_of(events, row("7"), *rows, columns=HEADER).memory_intervals == expected


def test_a_rounded_number_of_nodes_costs_no_record_whose_resources_are_known(events: Read) -> None:
    """sacct writes 1,024 nodes as 1K by default."""
    found = run_of(events, row("7", NNodes="1K", AllocTRES="cpu=4096,mem=1T,node=1024"), columns=HEADER)
    assert found.requested_nodes == "1024"


@pytest.mark.parametrize(
    ("submitted", "asked_mib", "word"),
    [
        ("sbatch --mem=2G --mem-update=20@10 job.sh", 2 * 2 * 1024, "mem"),
        ("sbatch --mem-update 20@10 --mem-per-cpu 500 job.sh", 4 * 500, "mem-per-cpu"),
        ("sbatch --mem=300 --mem-update=20@10 job.sh", None, "mem"),  # not reduced
        ("sbatch --mem=2G job.sh", None, "mem"),  # changed while it waited
        ("26.05: sbatch --mem=2G job.sh", 2 * 2 * 1024, "mem"),  # by scontrol, perhaps while it ran
        ("26.05: sbatch --mem=200 job.sh", None, "mem"),  # raised while it waited
        ("sbatch --mem-update=20@10 job.sh", None, None),  # asked for in the script
        ("sbatch --mem=0 --mem-update=20@10 job.sh", None, "mem"),
    ],
)
def test_memory_that_slurm_reduced_is_not_the_users_request(
    events: Read, submitted: str, asked_mib: int | None, word: str | None
) -> None:
    of_release = {"SLUID": "s5K1KKYAYG5D00"} if submitted.startswith("26.05: ") else {}
    job = row("7", ReqTRES="cpu=4,mem=600M,node=2", SubmitLine=submitted.removeprefix("26.05: "), **of_release)
    found = run_of(events, job, columns=[*HEADER, "SubmitLine", *of_release])
    asked = None if asked_mib is None else asked_mib * 2**20
    assert (found.asked_memory_bytes, found.requested_memory_bytes, found.memory_word) == (asked, 600 * 2**20, word)


@pytest.mark.parametrize(
    ("memory", "counts", "word"),
    [
        ("600M", {"NumCPUs": "4", "NumNodes": "2-2"}, "mem"),
        ("300M", {"NumCPUs": "4-4", "NumNodes": "2"}, "mem-per-cpu"),
        ("600M", {"NumCPUs": "2", "NumNodes": "2"}, None),
        ("500M", {"NumCPUs": "4", "NumNodes": "2"}, None),
    ],
)
def test_the_option_by_which_a_waiting_job_asked_for_memory(
    memory: str, counts: dict[str, str], word: str | None
) -> None:
    listed = dict.fromkeys(WIDTHS, "") | {"JobID": "7", "State": "PENDING", "UserName": "ann", **counts}
    waits = {"SubmitTime": f"{NOON - 60}", "MinMemory": memory, "tres-alloc": "cpu=4,mem=1200M,node=2"}
    event = event_of([sacct_row(listed | waits)])
    assert event.run is not None
    assert (event.run.memory_word, event.run.requested_memory_bytes) == (word, 1200 * 2**20)


@pytest.fixture
def in_prague(in_zone: Callable[[str], None]) -> None:
    in_zone("Europe/Prague")


def test_local_times_are_of_this_machine(in_prague: None) -> None:
    assert moment("Start", "2026-07-01T02:00:00") == 1_782_864_000.0
    assert moment("Start", "2026-01-01T01:00:00") == 1_767_225_600.0


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
    events: Read, in_prague: None, start: str, end: str, elapsed: str | None, expected: tuple[int, int]
) -> None:
    back = 1_792_890_000
    one = row("7", Start=f"2026-10-25T{start}", End=f"2026-10-25T{end}", ElapsedRaw=elapsed or "")
    run = run_of(events, one)
    assert (run.start - back, not_none(run.end) - back) == expected


FILETXT = (
    "JobId=7 UserId=ann(1001) GroupId=hpc(1001) Name=a b=c JobState=TIMEOUT Partition=batch TimeLimit=5 "
    f"StartTime={NOON} EndTime={NOON + 100} NodeList=n[01-02] NodeCnt=2 ProcCnt=4 WorkDir=/home/ann x "
    f"ReservationName= Tres=cpu=4,mem=1200M,node=2 Account=physics QOS=normal WcKey= Cluster=lab "
    f"SubmitTime={NOON - 60} EligibleTime={NOON - 60} DerivedExitCode=0:0 ExitCode=0:15 \n"
)


def test_a_later_record_without_the_comment_leaves_the_rule_of_snakemake(events: Read) -> None:
    """Slurm's database has the user's comment only with a flag; squeue has it while the job waits."""
    uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    listed = dict.fromkeys(WIDTHS, "") | {"JobID": "7", "State": "PENDING", "UserName": "ann", "Name": uuid}
    runs = JobRuns()
    queued = event_of([sacct_row(listed | {"SubmitTime": f"{NOON - 60}", "Comment": "rule_align"})])
    assert runs.apply(queued, 0.0, utc_known=True) == "queued"
    (ended,) = events(text(row("7", JobName=uuid)))
    assert ended.run.name == uuid
    runs.apply(ended, 0.0, utc_known=True)
    (run,) = runs.runs
    assert (run.state, run.record.name, run.record.end) == ("ended", "snakejob.align", ended.run.end)
    assert runs.apply(ended, 0.0, utc_known=True) == "already known"
