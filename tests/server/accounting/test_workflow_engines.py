"""Nextflow's trace files and Snakemake's benchmark files, as their users have chosen columns and units."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from jobsight_server.accounting.origin import Origin
from jobsight_server.accounting.parsers import nextflow, snakemake
from jobsight_server.accounting.runs import AccountingError, JobEvent, RunRecord
from jobsight_server.cli import main
from jobsight_server.storage.schema import jobs, profiles

T0 = 1_790_000_000.0
LOCAL = datetime.fromtimestamp(T0 + 0.5).isoformat(" ", "milliseconds")
ORIGIN = Origin("ann", None, "align", "s1.tsv", T0 + 100)

# Nextflow's default columns, and those that nf-core's and other workflows add.
AS_READ = {
    "task_id": "3", "hash": "7b/3753ff", "native_id": "4711", "name": "RNASEQ:ALIGN (sample 1)", "status": "COMPLETED",
    "exit": "0", "submit": LOCAL, "duration": "3m 5s", "realtime": "2m 3s", "%cpu": "198.5%", "peak_rss": "1.5 GB",
    "peak_vmem": "2.1 GB", "rchar": "3 MB", "wchar": "0",
}  # fmt: skip
RAW = {
    "task_id": "3", "hash": "7b/3753ff", "process": "RNASEQ:ALIGN", "tag": "-", "status": "COMPLETED", "exit": "0",
    "submit": f"{T0 * 1000 + 500:.0f}", "start": f"{T0 * 1000 + 60_500:.0f}", "complete": f"{T0 * 1000 + 185_500:.0f}",
    "realtime": "123000", "%cpu": "198.5", "peak_rss": f"{3 * 2**29}", "rchar": "3145728", "cpus": "4",
    "memory": f"{2**33}", "time": "7200000", "queue": "long", "hostname": "n1",
}  # fmt: skip
Parser = Callable[[bytes, Origin], Callable[[str], JobEvent]]


def parsed(parser_of: Parser, row: dict[str, str], origin: Origin = ORIGIN, **changes: str) -> JobEvent:
    header, line = "\t".join(row), "\t".join((row | changes).values())
    parse = parser_of(f"{header}\n{line}\n".encode(), origin)
    assert parse(header).kind == "header"
    return parse(line)


def task(row: dict[str, str], **changes: str) -> RunRecord:
    found = parsed(nextflow.parser_of, row, **changes).run
    assert found is not None
    return found


def test_the_columns_of_a_trace_as_people_read_it() -> None:
    event = parsed(nextflow.parser_of, AS_READ)
    assert (event.kind, event.job_id, event.utc_s) == ("E", "7b/3753ff", T0 + 185.5)
    assert event.run == RunRecord(
        user="ann", name="RNASEQ_ALIGN", queued=T0 + 0.5, start=T0 + 62.5, end=T0 + 185.5, processors=1, exit_status=0,
        used_cpu_s=1.985 * 123, used_memory_bytes=3 * 2**29, used_walltime_s=123.0, ended_abnormally=False,
    )  # fmt: skip


def test_a_raw_trace_with_requests() -> None:
    run = task(RAW)
    assert (run.start, run.end, run.processors) == (T0 + 60.5, T0 + 185.5, 4)
    assert (run.requested_memory_bytes, run.requested_walltime_s) == (2**33, 7200.0)
    assert (run.name, run.queue, run.nodes) == ("RNASEQ_ALIGN", "long", (("n1", 4),))
    assert (run.used_memory_bytes, run.used_cpu_s) == (3 * 2**29, 1.985 * 123)


@pytest.mark.parametrize(
    ("changes", "failure", "abnormal"),
    [
        ({"status": "FAILED", "exit": "137"}, "memory", True),
        ({"status": "FAILED", "exit": "137", "time": "100000"}, "time", True),
        ({"status": "FAILED", "exit": "140", "time": "2m"}, "time", True),
        ({"status": "FAILED", "exit": "143"}, None, True),
        ({"status": "FAILED", "exit": "1"}, None, True),
        ({"status": "ABORTED", "exit": "-"}, None, True),
        ({"status": "CACHED"}, None, False),
    ],
)
def test_what_a_task_ran_out_of(changes: dict[str, str], failure: str | None, abnormal: bool) -> None:
    run = task(RAW, **changes)
    assert (run.failure, run.ended_abnormally) == (failure, abnormal)


def test_a_killed_task_without_measurements_ran_for_nothing_at_least() -> None:
    run = task(AS_READ, status="FAILED", exit="137", realtime="-", peak_rss="-", rchar="-", **{"%cpu": "-"})
    assert (run.start, run.end, run.used_memory_bytes, run.failure) == (T0 + 185.5, T0 + 185.5, None, "memory")


@pytest.mark.parametrize("changes", [{"status": "SUBMITTED"}, {"status": "RUNNING"}, {"duration": "-"}])
def test_a_task_that_did_not_end_is_only_counted(changes: dict[str, str]) -> None:
    event = parsed(nextflow.parser_of, AS_READ, **changes)
    assert (event.kind, event.run) == ("N", None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hash": "-", "task_id": "-", "native_id": "-"}, "a task without a hash or a number"),
        ({"status": "DONE"}, "unknown status"),
        ({"submit": "21.9.2026"}, "submit is not a time"),
        ({"duration": "3:05"}, "duration is not a duration"),
        ({"peak_rss": "much"}, "peak_rss is not an amount of memory"),
        ({"%cpu": "nan"}, "%cpu is not a percentage"),
        ({"exit": "x"}, "exit is not a whole number"),
        ({"name": "-"}, "a task without a process"),
        ({"name": "A\x07"}, "control characters"),
    ],
)
def test_a_wrong_value_names_its_column(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(AccountingError, match=reason):
        parsed(nextflow.parser_of, AS_READ, **changes)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("name\tstatus\tsubmit\tduration", "a column is missing: 'hash or native_id or task_id'"),
        ("hash\tstatus\tsubmit\tduration", "a column is missing: 'process or name'"),
        ("hash\tname\tduration", "a column is missing: 'complete or submit'"),
        ("hash\tname\tsubmit", "a column is missing: 'complete or duration'"),
    ],
)
def test_a_header_without_a_needed_column(header: str, reason: str) -> None:
    with pytest.raises(AccountingError, match=reason):
        nextflow.parser_of(f"{header}\n".encode(), ORIGIN)


# As Snakemake 9 writes them, without and with --benchmark-extended.
PLAIN = {
    "s": "83.42", "h:m:s": "0:01:23", "max_rss": "63.50", "max_vms": "68.14", "max_uss": "54.71", "max_pss": "57.18",
    "io_in": "0.32", "io_out": "0.00", "mean_load": "150.0", "cpu_time": "125.05",
}  # fmt: skip
EXTENDED = PLAIN | {
    "jobid": "1", "rule_name": "bwa", "wildcards": "{'s': 'a'}", "params": "{'k': 'x\\ty'}", "threads": "2",
    "cpu_usage": "0.00", "resources": "{'tmpdir': '/tmp', '_nodes': 1, 'runtime': 60, 'mem_mb': 100, 'mem_mib': 96}",
    "input_size_mb": "{'in/a.txt': 1.5, 'in/b.txt': 0.25}",
}  # fmt: skip


def test_a_benchmark_has_the_rule_of_its_folder_and_ends_when_it_is_written() -> None:
    event = parsed(snakemake.parser_of, PLAIN)
    assert (event.kind, event.job_id, event.utc_s) == ("E", "align/s1.tsv", T0 + 100)
    run = RunRecord(
        user="ann", name="align", start=T0 + 100 - 83.42, end=T0 + 100, processors=1, used_cpu_s=125.05,
        used_memory_bytes=127 * 2**19, used_walltime_s=83.42,
    )  # fmt: skip
    assert event.run == run
    named = parsed(snakemake.parser_of, PLAIN, ORIGIN._replace(application="sort")).run
    assert named is not None
    assert named.name == "sort"


@pytest.mark.parametrize("as_json", [False, True])
def test_an_extended_benchmark_names_rule_threads_requests_and_inputs(as_json: bool) -> None:
    if as_json:
        row: dict[str, Any] = {
            name: float(value) for name, value in EXTENDED.items() if value[:1].isdigit() and ":" not in name
        }
        row |= {"h:m:s": "0:01:23", "rule_name": "bwa"}
        row |= {"resources": {"runtime": 60, "mem_mb": 100}}
        line = json.dumps(row | {"input_size_mb": {"in/a.txt": 1.5, "in/b.txt": 0.25}})
        run = snakemake.parser_of(line.encode(), ORIGIN)(line).run
    else:
        run = parsed(snakemake.parser_of, EXTENDED).run
    assert run is not None
    assert (run.name, run.processors) == ("bwa", 2)
    assert (run.requested_memory_bytes, run.requested_walltime_s) == (100_000_000, 3600.0)
    assert run.facts == '{"input_bytes":1835008.0}'


def test_what_was_over_before_snakemake_looked_has_no_memory() -> None:
    missing = dict.fromkeys(
        ("max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out", "mean_load", "cpu_time"), "NA"
    )
    run = parsed(snakemake.parser_of, PLAIN, **missing).run
    assert run is not None
    assert (run.used_memory_bytes, run.used_cpu_s, run.used_walltime_s) == (None, None, 83.42)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"s": "NA"}, "s is missing"),
        ({"s": "-1"}, "s is negative"),
        ({"max_rss": "inf"}, "max_rss is negative or impossibly large"),
        ({"threads": "1.5"}, "threads is not a number of processors"),
        ({"resources": "{" * 5000}, "resources is not a mapping"),
        ({"input_size_mb": "__import__('os')"}, "input_size_mb is not a mapping"),
        ({"input_size_mb": "{'a': 'b'}"}, "a is not a number"),
    ],
)
def test_a_wrong_value_of_a_benchmark(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(AccountingError, match=reason):
        parsed(snakemake.parser_of, EXTENDED, **changes)


def write(file: Path, *rows: dict[str, str]) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join("\t".join(row) + "\n" for row in (list(rows[0]), *(list(row.values()) for row in rows))))
    os.utime(file, (T0 + 100, T0 + 100))
    return str(file)


def test_both_are_imported_once_and_profiled(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = ["--database", sqlite_engine.url.render_as_string(hide_password=False), "--cluster", "c"]
    killed = RAW | {"hash": "7b/000001", "status": "FAILED", "exit": "137"}
    trace = write(tmp_path / "trace.txt", RAW, killed)
    again = write(tmp_path / "resumed.txt", RAW | {"status": "CACHED"})
    sizes = {"map": "63.50", "sort": "64.50"}
    benchmarks = [write(tmp_path / "benchmarks" / f"{name}.tsv", PLAIN | {"max_rss": sizes[name]}) for name in sizes]
    assert main(["import", "nextflow", trace, again, "--user", "ada", *database]) == 0
    assert main(["import", *benchmarks, *database]) == 0
    shown = capsys.readouterr().out
    assert "2 new runs, 2 profiled" in shown
    assert "sort.tsv: snakemake (guessed)" in shown
    with sqlite_engine.connect() as connection:
        query = select(jobs.c.user, jobs.c.application, jobs.c.failure).order_by(jobs.c.job_id)
        found = connection.execute(query).all()
        bounds = connection.execute(
            select(profiles.c.metric, profiles.c.value).where(profiles.c.lower_bound).order_by(profiles.c.metric)
        ).all()
    owner = Path(trace).owner()
    assert [tuple(row) for row in found] == [
        ("ada", "RNASEQ_ALIGN", "memory"), ("ada", "RNASEQ_ALIGN", None), (owner, "map", None), (owner, "sort", None)
    ]  # fmt: skip
    assert [tuple(row) for row in bounds] == [("memory", 3 * 2**27), ("runtime", 125.0)]


def test_the_documents_name_the_columns() -> None:
    text = (Path(__file__).parents[3] / "docs" / "operate" / "sources.md").read_text()
    for column in ("hash", "native_id", "task_id", "process", "name", "complete", "submit", "duration", "realtime"):
        assert f"`{column}`" in text.partition("### Nextflow")[2].partition("### Snakemake")[0], column
