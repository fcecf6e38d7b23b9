"""Nextflow's trace files and Snakemake's benchmark files, with the columns and units that users choose."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Engine, select
from tests.make import Jobsight

from jobsight_server.storage.schema import jobs, profiles

T0 = 1_790_000_000.0

RAW = {
    "task_id": "3", "hash": "7b/3753ff", "process": "RNASEQ:ALIGN", "tag": "-", "status": "COMPLETED", "exit": "0",
    "submit": f"{T0 * 1000 + 500:.0f}", "start": f"{T0 * 1000 + 60_500:.0f}", "complete": f"{T0 * 1000 + 185_500:.0f}",
    "realtime": "123000", "%cpu": "198.5", "peak_rss": f"{3 * 2**29}", "rchar": "3145728", "cpus": "4",
    "memory": f"{2**33}", "time": "7200000", "queue": "long", "hostname": "n1",
}  # fmt: skip


# As Snakemake 9 writes it.
PLAIN = {
    "s": "83.42", "h:m:s": "0:01:23", "max_rss": "63.50", "max_vms": "68.14", "max_uss": "54.71", "max_pss": "57.18",
    "io_in": "0.32", "io_out": "0.00", "mean_load": "150.0", "cpu_time": "125.05",
}  # fmt: skip


def test_unknown_run_times_and_processors_are_not_learned(
    sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight
) -> None:
    """With Nextflow's default columns."""
    row = {name: RAW[name] for name in ("hash", "status", "exit", "submit", "%cpu", "peak_rss")}
    row |= {"name": "ALIGN (s)", "duration": "32m 10s", "realtime": "-"}
    trace = write(tmp_path / "trace.txt", row, row | {"hash": "7b/000001", "realtime": "20m"})
    jobsight("import", "nextflow", trace, "--cluster", "c", "--user", "ada", on=sqlite_engine)
    with sqlite_engine.connect() as connection:
        query = select(jobs.c.job_id, profiles.c.metric, profiles.c.value, profiles.c.reason).join(jobs)
        found = {(job_id, metric): (value, reason) for job_id, metric, value, reason in connection.execute(query)}
    assert found["7b/3753ff", "runtime"] == (None, "the accounting log gives no start")
    assert found["7b/000001", "runtime"] == (1200.0, None)
    assert found["7b/000001", "cpu"] == (None, "the accounting log gives no processors")
    assert found["7b/000001", "memory"] == (3 * 2**29, None)
    (shown,) = jobsight("seff", "7b/000001", "--json", on=sqlite_engine).json
    used = {entry["resource"]: entry["used"] for entry in shown["efficiency"]}
    assert (used["processors"], used["memory"], used["runtime"]) == (None, 3 * 2**29, 1200.0)


def write(file: Path, *rows: dict[str, str]) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join("\t".join(row) + "\n" for row in (list(rows[0]), *(list(row.values()) for row in rows))))
    os.utime(file, (T0 + 100, T0 + 100))
    return str(file)


def test_both_are_imported_once_and_profiled(sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight) -> None:
    killed = RAW | {"hash": "7b/000001", "status": "FAILED", "exit": "137"}
    trace = write(tmp_path / "trace.txt", RAW, killed)
    again = write(tmp_path / "resumed.txt", RAW | {"status": "CACHED"})
    sizes = {"map": "63.50", "sort": "64.50"}
    benchmarks = [write(tmp_path / "benchmarks" / f"{name}.tsv", PLAIN | {"max_rss": sizes[name]}) for name in sizes]
    jobsight("import", "nextflow", trace, again, "--user", "ada", "--cluster", "c", on=sqlite_engine)
    shown = jobsight("import", *benchmarks, "--cluster", "c", on=sqlite_engine).out
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
