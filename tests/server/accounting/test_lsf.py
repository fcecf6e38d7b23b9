"""Records of ``lsb.acct``: quotes, lists within a record, and fields that a version lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobsight_server.accounting.parsers.lsf import parse_line
from jobsight_server.accounting.runs import AccountingError, RunRecord

LINES = (Path(__file__).parents[2] / "golden" / "logs" / "lsf.log").read_text().splitlines()
FINISHED = [line for line in LINES if line.startswith('"JOB_FINISH"') and line.count(" ") > 40]
BY_ID = {line.split(" ")[3]: line for line in reversed(FINISHED)}
PARALLEL, LIMITED = BY_ID["7614"], BY_ID["7612"]


def run_of(line: str) -> RunRecord:
    run = parse_line(line).run
    assert run is not None
    return run


def test_the_run_time_of_a_real_record_is_what_its_times_say() -> None:
    """It is one of the last fields, behind lists of hosts."""
    run = run_of(BY_ID["404717"])
    assert run.end is not None
    assert run.end - run.start == run.used_walltime_s == 40368.0
    assert (run.requested_walltime_s, run.processors, len(run.nodes)) == (12 * 3600.0, 128, 8)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ('"./solve ""a b"" c"', "./solve"),
        ('"""exec"" ""sh"" ""run x"""', '"exec"'),
        ('""', None),
        ('"#!/bin/sh;#BSUB -n 4;run"', None),
        ('"run;date"', "run"),
    ],
)
def test_doubled_quotes_stay_in_their_field(command: str, name: str | None) -> None:
    run = run_of(BY_ID["386"].replace('"/bin/sleep 3"', command))
    assert (run.name, run.used_memory_bytes) == (name, 2 * 2**20)


def test_a_record_is_read_as_far_as_it_goes() -> None:
    """Cut behind any field: as a whole one, without what it lacks, or refused for too few fields."""
    whole, fields = run_of(LIMITED), LIMITED.split(" ")
    cut, reasons = [], set()
    for end in range(3, len(fields)):
        try:
            cut.append(run_of(" ".join(fields[:end])))
        except AccountingError as error:
            reasons.add(error.reason)
    assert reasons <= {"fewer fields than lsb.acct has", "a quote is missing, or is not doubled"}
    assert len(cut) > 40
    assert {run.used_memory_bytes for run in cut} == {whole.used_memory_bytes}
    assert {run.failure for run in cut} == {None, "time"}
    assert {run.requested_walltime_s for run in cut} == {None, 840.0}


@pytest.mark.parametrize(
    ("reserved", "gib"),
    [("2048.00/task", 8), ("2GB/host", 4), ("2g/job", 2), ("2097152KB/job", 2), ("2048.00", None), ("0", None)],
)
def test_a_reservation_is_of_the_whole_job_or_unknown(reserved: str, gib: int | None) -> None:
    """Of four slots on two hosts."""
    run = run_of(PARALLEL.replace("mem=2048.00/task", f"mem={reserved}").replace("rusage[mem=20G]", ""))
    assert run.requested_memory_bytes == (None if gib is None else gib * 2**30)
    assert run.memory_word == (None if gib is None else "rusage")


@pytest.mark.parametrize(("why", "failure", "kind"), [(16, "memory", "E"), (5, "time", "E"), (6, "time", "E")])
def test_why_a_job_was_killed(why: int, failure: str, kind: str) -> None:
    event = parse_line(LIMITED.replace('0 "" 5 "" -1', f'0 "" {why} "" -1'))
    assert event.run is not None
    assert (event.kind, event.run.failure) == (kind, failure)


@pytest.mark.parametrize(("why", "kind"), [(14, "E"), (15, "E"), (10, "R"), (11, "R")])
def test_who_ended_it_is_no_failure(why: int, kind: str) -> None:
    event = parse_line(LIMITED.replace('0 "" 5 "" -1', f'0 "" {why} "" -1'))
    assert event.run is not None
    assert (event.kind, event.run.failure) == (kind, None)
