"""Nextflow's trace files and Snakemake's benchmark files, as their users have chosen columns and units."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from jobsight_server.accounting.origin import Origin
from jobsight_server.accounting.parsers import nextflow, snakemake
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.cli import main
from jobsight_server.storage.schema import jobs, profiles

T0 = 1_790_000_000.0
ORIGIN = Origin("ann", None, "align", "s1.tsv", T0 + 100)

RAW = {
    "task_id": "3", "hash": "7b/3753ff", "process": "RNASEQ:ALIGN", "tag": "-", "status": "COMPLETED", "exit": "0",
    "submit": f"{T0 * 1000 + 500:.0f}", "start": f"{T0 * 1000 + 60_500:.0f}", "complete": f"{T0 * 1000 + 185_500:.0f}",
    "realtime": "123000", "%cpu": "198.5", "peak_rss": f"{3 * 2**29}", "rchar": "3145728", "cpus": "4",
    "memory": f"{2**33}", "time": "7200000", "queue": "long", "hostname": "n1",
}  # fmt: skip


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


# As Snakemake 9 writes it.
PLAIN = {
    "s": "83.42", "h:m:s": "0:01:23", "max_rss": "63.50", "max_vms": "68.14", "max_uss": "54.71", "max_pss": "57.18",
    "io_in": "0.32", "io_out": "0.00", "mean_load": "150.0", "cpu_time": "125.05",
}  # fmt: skip


def trace(rng: random.Random, row: dict[str, str]) -> JobEvent:
    """The event of a task, of a trace with these columns in any order."""
    columns = rng.sample(list(row), len(row))
    between = rng.choice("\t;|")
    header, line = between.join(columns), between.join(row[name] for name in columns)
    return nextflow.parser_of(f"{header}\n{line}\n".encode(), ORIGIN)(line)


def span(rng: random.Random, seconds: int) -> str:
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    parts = [f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "m"), (seconds % 60, "s")) if n]
    return rng.choice([" ".join(parts), f"{seconds * 1000}", f"{seconds}.0s"])


@pytest.mark.parametrize("seed", range(60))
def test_what_a_trace_lacks_is_unknown(seed: int) -> None:
    rng = random.Random(seed)
    whole_s, run_s, load, cpus = (
        rng.randrange(10, 200_000),
        rng.randrange(1, 10),
        rng.randrange(1, 1600),
        rng.randrange(1, 65),
    )
    row = {"hash": "7b/3753ff", "name": "ALIGN (s)", "status": rng.choice(["COMPLETED", "FAILED"])}
    row |= {"submit": f"{T0 * 1000:.0f}", "duration": span(rng, whole_s), "%cpu": f"{load}%"}
    has_time, has_start, has_cpus = (rng.random() < 0.5 for _ in range(3))
    row["realtime"] = span(rng, run_s) if has_time else "-"
    if rng.random() < 0.2 and not has_time:
        del row["realtime"]
    if has_start:
        row["start"] = f"{(T0 + whole_s - run_s) * 1000:.0f}"
    if has_cpus:
        row["cpus"] = f"{cpus}"
    row["exit"] = rng.choice(["2147483647", "-", "", "3"])
    run = trace(rng, row).run
    assert run is not None
    is_known = has_time or has_start
    assert (run.start, run.end) == (T0 + (whole_s - run_s if is_known else 0), T0 + whole_s)
    assert (run.used_walltime_s, run.start_unknown) == ((run_s, None) if is_known else (None, True))
    assert run.used_cpu_s == (pytest.approx(load / 100 * run_s) if has_time else None)
    assert run.processors == (cpus if has_cpus else None)
    assert run.exit_status == (3 if row["exit"] == "3" else None)


UNREADABLE = ("<TBD>", "much", "-5", "nan", "[1]", "1e999", "{", "None", "2 apples")


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("as_json", [False, True])
def test_an_unreadable_field_of_a_benchmark_costs_itself_only(seed: int, as_json: bool) -> None:
    rng = random.Random(seed)
    good = {"mem_mb": 100, "runtime": rng.choice([120, "2h", "120m", "2:00:00"])}
    row: dict[str, Any] = PLAIN | {"threads": "4", "resources": good, "input_size_mb": {"a.txt": 1.5}}
    expected: dict[str, Any] = {
        "max_rss": 127 * 2**19, "cpu_time": 125.05, "threads": 4, "mem_mb": 100_000_000, "runtime": 7200.0,
        "a.txt": '{"input_bytes":1572864.0}',
    }  # fmt: skip
    field, value = rng.choice(list(expected)), rng.choice(UNREADABLE)
    if field in good:
        row["resources"] = good | {field: value}
    elif field == "a.txt":
        row["input_size_mb"] = {"a.txt": value}
    else:
        row[field] = value
    names = rng.sample(list(row)[3:], len(row) - 3)
    row = {name: row[name] for name in [*list(row)[:3], *names]}
    line = json.dumps(row) if as_json else "\t".join(map(str, row.values()))
    header = line if as_json else "\t".join(row)
    run = snakemake.parser_of(f"{header}\n".encode(), ORIGIN)(line).run
    assert run is not None
    requests = {"mem_mb": run.requested_memory_bytes, "runtime": run.requested_walltime_s, "a.txt": run.facts}
    found = {"max_rss": run.used_memory_bytes, "cpu_time": run.used_cpu_s, "threads": run.processors, **requests}
    assert found == expected | {field: None}
    assert (run.used_walltime_s, run.dropped_facts) == (83.42, int(value != "<TBD>"))


def test_unknown_run_times_and_processors_are_not_learned(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With Nextflow's default columns."""
    row = {name: RAW[name] for name in ("hash", "status", "exit", "submit", "%cpu", "peak_rss")}
    row |= {"name": "ALIGN (s)", "duration": "32m 10s", "realtime": "-"}
    trace = write(tmp_path / "trace.txt", row, row | {"hash": "7b/000001", "realtime": "20m"})
    database = ["--database", sqlite_engine.url.render_as_string(hide_password=False)]
    assert main(["import", "nextflow", trace, "--cluster", "c", "--user", "ada", *database]) == 0
    with sqlite_engine.connect() as connection:
        query = select(jobs.c.job_id, profiles.c.metric, profiles.c.value, profiles.c.reason).join(jobs)
        found = {(job_id, metric): (value, reason) for job_id, metric, value, reason in connection.execute(query)}
    assert found["7b/3753ff", "runtime"] == (None, "the accounting log gives no start")
    assert found["7b/000001", "runtime"] == (1200.0, None)
    assert found["7b/000001", "cpu"] == (None, "the accounting log gives no processors")
    assert found["7b/000001", "memory"] == (3 * 2**29, None)
    capsys.readouterr()
    assert main(["seff", "7b/000001", *database, "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    used = {entry["resource"]: entry["used"] for entry in shown["efficiency"]}
    assert (used["processors"], used["memory"], used["runtime"]) == (None, 3 * 2**29, 1200.0)


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
