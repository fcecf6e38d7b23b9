"""Slurm's records are stored once each, whatever their form and earlier state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.make import Jobsight
from tests.server.accounting.conftest import counted, rejects, rows, through_power_cuts
from tests.server.accounting.slurm.test_text import FILETXT, row, text
from tests.traces import trace

from jobsight_server.accounting.log_reader import LogReader
from jobsight_server.accounting.read_logs import ImportReport, follow_once, import_files
from jobsight_server.settings.declared import AccountingSource

SAMPLES = "../accounting/slurm"


def take_in(engine: Engine, *files: Path) -> ImportReport:
    report = import_files(engine, files, "lab", lambda: 1.8e9, "slurm")
    assert report.figures.lost_without_reason == 0
    return report


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def written(name: str, data: bytes) -> Path:
        file = tmp_path / name
        file.write_bytes(data)
        return file

    return written


def test_twice_is_once(
    engine: Engine, newest: Any, write: Callable[[str, bytes], Path], dump: Callable[[Engine], Any]
) -> None:
    data = newest.document(*(newest.job(job_id=number) for number in range(1, 1200)))
    file = write("a.json", data.replace(b'"job_id": 700,', b'"job_id": 700 '))
    report = take_in(engine, file)
    assert (report.figures.lines, report.taken_in.lines, report.new_runs) == (1199, 1199, 1198)
    assert report.figures.rejected == {"not JSON": 1}
    [(line, _, shown)] = rejects(engine)
    assert (line, '"job_id": 700 ' in shown or shown.startswith("{")) == (700, True)
    before = dump(engine)
    again = take_in(engine, file)
    assert (again.figures.lines, again.taken_in.lines, again.new_runs) == (1199, 0, 0)
    assert dump(engine) == before


@pytest.mark.storage
def test_a_file_that_was_cut_and_is_whole_now(engine: Engine, newest: Any, write: Callable[[str, bytes], Path]) -> None:
    data = newest.document(newest.job(job_id=1), newest.job(job_id=2), newest.job(job_id=3))
    cut = data.index(b'"job_id": 2')
    report = take_in(engine, write("a.json", data[:cut]))
    assert report.figures.rejected == {"cut off: the file ends within the record": 1}
    for _ in range(2):
        report = take_in(engine, write("a.json", data))
        assert (report.figures.rejected, report.figures.lines) == ({}, 3)
    assert rows(engine, "job_id") == [("1",), ("2",), ("3",)]
    assert rejects(engine) == []


@pytest.mark.parametrize("form", ["json", "compact json", "text", "filetxt"])
def test_a_file_is_gone_on_with_where_it_was_left(
    sqlite_engine: Engine, newest: Any, write: Callable[[str, bytes], Path], form: str
) -> None:
    numbers = range(1, 41)
    file = write("log", written_as(form, newest, numbers))

    def read() -> None:
        LogReader(sqlite_engine, "lab", lambda: 1.8e9, "slurm", most_records=4).read(file, final=True)

    assert through_power_cuts(sqlite_engine, read) >= 3
    assert sorted(int(row[0]) for row in rows(sqlite_engine, "job_id")) == list(numbers)
    assert rejects(sqlite_engine) == []
    assert counted(sqlite_engine, "accounting_lines") == {"E": len(numbers)}


def written_as(form: str, release: Any, numbers: range) -> bytes:
    """Jobs of these numbers in one of the forms."""
    if "json" in form:
        jobs_of = [release.job(job_id=number) for number in numbers]
        document: bytes = release.document(*jobs_of, indent=None if form == "compact json" else 2)
        return document
    if form == "text":
        return text(*(one for number in numbers for one in (row(f"{number}"), row(f"{number}.batch", JobName="a\nb"))))
    lines = (FILETXT.replace("JobId=7", f"JobId={n}").replace("a b=c", "two\nlines") for n in numbers)
    return "".join(lines).encode()


@pytest.mark.parametrize("end", [20, 300, -2])
def test_a_growing_jobcomp_file(sqlite_engine: Engine, tmp_path: Path, newest: Any, end: int) -> None:
    whole = written_as("filetxt", newest, range(1, 6))
    file = tmp_path / "log"
    record = len(whole) // 5
    for size in (0, end % record, record + end % record, 3 * record + 9, len(whole)):
        file.write_bytes(whole[:size])
        report = follow_once(sqlite_engine, AccountingSource("lab", file=file, format="slurm"), lambda: 1.8e9)
        assert (report.rejected, report.unreadable) == ({}, {})
    assert rows(sqlite_engine, "job_id") == [(f"{number}",) for number in range(1, 6)]


@pytest.mark.storage
def test_every_record_of_the_samples(engine: Engine, in_zone: Callable[[str], None]) -> None:
    in_zone("UTC")  # of the machine that wrote the text
    report = take_in(engine, trace(f"{SAMPLES}/sacct.json.gz"))
    assert report.figures.rejected == {}
    # Two never ran: one was cancelled, one could not.
    assert (dict(report.figures.records), report.new_runs) == ({"D": 2, "E": 27}, 27)
    memory = dict(rows(engine, "job_id", "used_memory_bytes"))
    assert memory["6"] == 11_587_584 + 540_594_176
    assert memory["7"] == 11_845_632 + 372_924_416  # its steps followed each other
    assert (memory["24"], memory["27"]) == (None, None)  # too short to be measured
    failures = {row[0]: row[1] for row in rows(engine, "job_id", "failure") if row[1]}
    assert failures == {"11": "time"}
    text = take_in(engine, trace(f"{SAMPLES}/sacct-P-ALL.txt.gz"))
    # The one whose name and comment hold the delimiter, and its step.
    assert (dict(text.figures.records), text.figures.rejected.total(), text.new_runs) == ({"D": 2, "E": 26}, 2, 0)


@pytest.mark.storage
def test_a_requeue_and_a_node_failure_of_the_samples(engine: Engine) -> None:
    for _ in range(2):
        take_in(engine, trace(f"{SAMPLES}/sacct-requeue-nodefail.json.gz"))
        assert rows(engine, "job_id", "state", "used_walltime_s", "suspended_s") == [
            ("1", "requeued", 0.0, None),
            ("1", "ended", 6.0, None),
            ("2", "ended", 3.0, None),
            ("3", "ended", 9.0, 3.0),
        ]


def test_the_form_is_said(
    sqlite_engine: Engine, newest: Any, write: Callable[[str, bytes], Path], jobsight: Jobsight
) -> None:
    files = [write(form, written_as(form, newest, range(1, 4))) for form in ("json", "text", "filetxt")]
    where = ["--cluster", "lab", "--database", str(sqlite_engine.url)]
    forms = ("JSON of sacct", "text of sacct", "jobcomp/filetxt")
    shown = jobsight("import", *map(str, files), *where).out
    for file, form in zip(files, forms, strict=True):
        assert f"{file}: slurm, {form} (guessed)" in shown
    assert f"{files[0]}: slurm, JSON of sacct\n" in jobsight("import", "slurm", str(files[0]), *where).out
    queue = newest.document({"job_id": 1, "job_state": ["PENDING"], "submit_time": 5})
    said = jobsight("import", "slurm", str(write("squeue", queue)), *where, status=1).err
    assert "a record of squeue: import the output of sacct" in said
