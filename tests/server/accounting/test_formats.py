"""Rules for every format: order, position, once only, nothing lost or doubled, every line counted.

A format joins by an entry in ``WRITTEN``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from tests import make
from tests.server.accounting.conftest import rejects, through_power_cuts

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.files import RecordReader
from jobsight_server.accounting.formats import reader_of
from jobsight_server.accounting.log_reader import LogReader
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.accounting.runs import JobEvent
from jobsight_server.settings.declared import ACCOUNTING_FORMATS, AccountingFormat
from jobsight_server.storage.schema import accounting_files, job_nodes, jobs

T0 = 1_790_000_000
STAMP = "09/21/2026 14:13:20"  # T0 in UTC
COUNT = 30


@dataclass(frozen=True)
class Written:
    """A scheduler's log of ``COUNT`` ended runs: a line each, with or without a header."""

    format: AccountingFormat
    records: tuple[str, ...]
    header: tuple[str, ...] = ()

    @property
    def data(self) -> bytes:
        return "".join(f"{line}\n" for line in (*self.header, *self.records)).encode()

    @property
    def reader(self) -> RecordReader:
        return reader_of(self.format, self.data)


def torque(number: int) -> str:
    start = T0 + number
    return (
        f"{STAMP};E;{number}.s;user=ann group=staff jobname=j{number} queue=q ctime={T0} qtime={T0} etime={T0} "
        f"start={start} owner=ann@login exec_host=n1/0+n2/1 Resource_List.mem=1gb Resource_List.walltime=01:00:00 "
        f"session=1 end={start + 60} Exit_status=0 resources_used.cput=00:01:00 resources_used.mem=2048kb"
    )


def pbspro(number: int) -> str:
    start = T0 + number
    return (
        f'{STAMP};E;{number}.s;user=ann group="s t" project=_pbs_project_default jobname=j{number} queue=q ctime={T0} '
        f"qtime={T0} etime=0 start={start} exec_host=n1/0*2 exec_vnode=(n1:ncpus=2) Resource_List.mem=1gb session=1 "
        f"end={start + 60} Exit_status=-27 resources_used.cput=00:01:00 resources_used.mem=2048kb run_count=1"
    )


def gridengine(number: int) -> str:
    start = T0 + number
    zeros = "0:" * 14
    return (
        f"all.q:n1:staff:ann:j:{number}:{number + 1}:sge:0:{T0}:{start}:{start + 60}:0:0:60:50.5:1.5:4096.0:{zeros}"
        "NONE:d:NONE:1:0:52.25:1.5:0:-l h_rt=3600,h_vmem=2G:0:NONE:8388608.0:0:0"
    )


def condor(number: int) -> str:
    start = T0 + number
    return (
        f'{{"ClusterId":{number + 1},"CompletionDate":{start + 60},"JobCurrentStartDate":{start},"JobStatus":4,'
        f'"MemoryUsage":"\\/Expr((ResidentSetSize + 1023) / 1024)\\/","Owner":"ann","ProcId":0,"QDate":{T0},'
        f'"RemoteUserCpu":50.5,"RequestMemory":2048,"ResidentSetSize":1250000,"ResidentSetSize_RAW":1146884}}'
    )


def lsf(number: int) -> str:
    start = T0 + number
    return (
        f'"JOB_FINISH" "10.1" {start + 60} {number + 1} 1000 2 1 {T0} 0 0 {start} "ann" "normal" "" "" "" "login" '
        f'"" "" "" "" "1.{number}" 0 1 "n1" 64 60.0 "j{number}" "sleep ""60""" 0.1 0.1 {"0 " * 17}'
        '"" "default" 0 1 "" "" 0 2048 0'
    )


def table(number: int) -> str:
    return f'{number},ann,"j \'{number}",{T0},{T0 + number},{T0 + number + 60},n1:2 n2:2,3600,2,60,1.5,0,'


TABLE_HEADER = (
    "job_id,user,name,submitted_epoch_s,start_epoch_s,end_epoch_s,nodes,requested_walltime_s,requested_memory_gib,"
    "used_cpu_s,used_memory_mib,exit_status,failure"
)


def table_json(number: int) -> str:
    return (
        f'{{"job_id": {number}, "user": "ann", "start_epoch_s": {T0 + number}, "end_epoch_s": {T0 + number + 60}, '
        f'"nodes": "n1:2", "used_memory_gib": 1.5, "failure": null}}'
    )


def nextflow(number: int) -> str:
    end = (T0 + number + 60) * 1000
    return f"{number:06x}\tRNA:ALIGN (s{number})\tCOMPLETED\t0\t{T0 * 1000}\t{end}\t2m 3s\t2\t198.5%\t1.5 GB\t2 GB"


NEXTFLOW_HEADER = "hash\tname\tstatus\texit\tsubmit\tcomplete\trealtime\tcpus\t%cpu\tpeak_rss\tmemory"


def all_of(line: Callable[[int], str]) -> tuple[str, ...]:
    return tuple(line(number) for number in range(COUNT))


WRITTEN = {
    "torque": Written("torque", all_of(torque)),
    "pbspro": Written("pbspro", all_of(pbspro)),
    "gridengine": Written("gridengine", all_of(gridengine), ("# Version: 8.1.9",)),
    "condor": Written("condor", all_of(condor)),
    "lsf": Written("lsf", all_of(lsf)),
    "table": Written("table", all_of(table), (TABLE_HEADER,)),
    "nextflow": Written("nextflow", all_of(nextflow), (NEXTFLOW_HEADER,)),
    "table of JSON": Written("table", all_of(table_json)),
}
every_format = pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)


def test_every_format_but_those_with_a_suite_of_their_own_is_here() -> None:
    assert {written.format for written in WRITTEN.values()} | {"slurm", "snakemake"} == set(ACCOUNTING_FORMATS)


def read(engine: Engine, file: Path, log_format: AccountingFormat, final: bool = True) -> LogReader:
    reader = LogReader(engine, "c", lambda: 1.9e9, log_format, ClockOffset(), most_records=7)
    reader.read(file, final=final)
    return reader


def stored(engine: Engine) -> list[tuple[Any, ...]]:
    """The runs in order of start, with their nodes, without values that differ between readings."""
    left_out = {"id", "recorded_at"}
    with engine.connect() as connection:
        rows = connection.execute(select(jobs).order_by(jobs.c.start)).mappings().all()
        places = connection.execute(select(job_nodes).order_by(job_nodes.c.run_id, job_nodes.c.node)).all()
    nodes = {row["id"]: tuple((p.node, p.processors) for p in places if p.run_id == row["id"]) for row in rows}
    return [(*(v for k, v in row.items() if k not in left_out), nodes[row["id"]]) for row in rows]


def counts(engine: Engine) -> dict[tuple[str, str], int]:
    return {key: n for key, n in make.counts(engine).items() if key[0].startswith("accounting_") and n}


def expected_runs(written: Written) -> list[JobEvent]:
    (chunk,) = written.reader.split(_bytes(written.data))
    return [event for record in chunk.records if (event := written.reader.event(record)).run is not None]


def _bytes(data: bytes) -> Callable[[int], bytes]:
    pieces = [data]
    return lambda _size: pieces.pop() if pieces else b""


@pytest.mark.storage
@every_format
def test_records_in_order_once_only_and_every_line_counted(engine: Engine, tmp_path: Path, written: Written) -> None:
    file = tmp_path / "log"
    file.write_bytes(written.data + b"rubbish\n" + b"\xff\xfe\n")
    report = import_files(engine, [file], "c", lambda: 1.9e9, written.format)
    figures = report.figures
    assert (figures.lines, figures.lost_without_reason) == (COUNT + len(written.header) + 2, 0)
    assert (figures.records["E"], figures.rejected.total()) == (COUNT, 2)
    assert [(line, shown) for line, _, shown in rejects(engine)] == [
        (figures.lines - 1, "rubbish"),
        (figures.lines, "\\xff\\xfe"),
    ]
    before, counted = stored(engine), counts(engine)
    assert [row[1] for row in before] == [event.job_id for event in expected_runs(written)]
    again = import_files(engine, [file], "c", lambda: 2.0e9, written.format)
    assert (again.taken_in.lines, again.new_runs, again.figures) == (0, 0, figures)
    assert (stored(engine), counts(engine)) == (before, counted)
    copy = tmp_path / "copy"
    copy.write_bytes(written.data[: len(written.data) // 2])  # not recognised by its beginning: read to another place
    import_files(engine, [copy], "c", lambda: 2.0e9, written.format)
    assert stored(engine) == before


@pytest.mark.storage
@every_format
def test_the_position_is_in_the_transaction_of_the_rows(engine: Engine, tmp_path: Path, written: Written) -> None:
    file = tmp_path / "log"
    file.write_bytes(written.data)

    def check() -> None:
        with engine.connect() as connection:
            lines = connection.scalar(select(func.max(accounting_files.c.lines))) or 0
            runs = connection.scalar(select(func.count()).select_from(jobs))
        assert runs == max(0, lines - len(written.header)), "as many runs as lines"
        assert counts(engine).get(("accounting_lines", "E"), 0) == runs

    assert through_power_cuts(engine, lambda: read(engine, file, written.format), check) >= 2
    assert [row[1] for row in stored(engine)] == [event.job_id for event in expected_runs(written)]
    assert counts(engine)["accounting_lines", "E"] == COUNT


@every_format
def test_a_log_that_grows_byte_by_byte_is_read_like_a_whole_one(
    sqlite_engine: Engine, tmp_path: Path, written: Written
) -> None:
    file, whole = tmp_path / "log", written.data
    for end in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1, len(whole)):
        file.write_bytes(whole[:end])
        report = read(sqlite_engine, file, written.format, final=False).report
        assert not report.rejected
    assert [row[1] for row in stored(sqlite_engine)] == [event.job_id for event in expected_runs(written)]
    assert counts(sqlite_engine)["accounting_lines", "E"] == COUNT


@every_format
def test_what_is_damaged_is_listed_and_the_rest_is_stored(
    sqlite_engine: Engine, tmp_path: Path, written: Written
) -> None:
    lines = [line.encode() for line in (*written.header, *written.records)]
    victims = [len(written.header) + 5 * number for number in range(1, 5)]
    for number, victim in enumerate(victims):
        lines[victim] = (lines[victim][: 20 + number], b"\x01" + lines[victim], b"x" * 70_000, b"\x00" * 9)[number]
    file = tmp_path / "log"
    file.write_bytes(b"\n".join(lines) + b"\n")
    report = read(sqlite_engine, file, written.format).report
    assert (report.lines, report.rejected.total()) == (len(lines), 4)
    listed = rejects(sqlite_engine)
    assert [line for line, _, _ in listed] == [victim + 1 for victim in victims]
    assert all(len(shown) <= 500 and shown.isprintable() for _, _, shown in listed)
    gone = {expected_runs(written)[5 * number].job_id for number in range(1, 5)}
    assert [row[1] for row in stored(sqlite_engine)] == [
        event.job_id for event in expected_runs(written) if event.job_id not in gone
    ]
