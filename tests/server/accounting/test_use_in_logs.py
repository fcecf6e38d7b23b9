"""What logs say that a run used, as it is stored: exact, a lower bound or unknown; shapes of public reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests.make import Jobsight

from jobsight_server.cli import main
from jobsight_server.storage.schema import jobs, profiles

GIB, MIB = 2**30, 2**20
NOON = 1_700_000_000
Use = dict[str, tuple[float | None, bool]]


def used(engine: Engine, file: Path, text: str, log_format: str) -> dict[str, Use]:
    """Import a log: by job, the value of the whole job and whether it is a lower bound, for each metric with one."""
    file.write_text(text)
    os.utime(file, (NOON + 50_000, NOON + 50_000))
    options = ("--cluster", "c", "--user", "ada", "--database", engine.url.render_as_string(hide_password=False))
    assert main(["import", log_format, str(file), *options]) == 0
    found: dict[str, Use] = {}
    columns = (jobs.c.job_id, jobs.c.processors, profiles.c.metric, profiles.c.value, profiles.c.lower_bound)
    with engine.connect() as connection:
        for job_id, processors, metric, value, is_bound in connection.execute(
            select(*columns).join_from(jobs, profiles)
        ):
            times = processors or 1 if metric in ("memory", "cpu") else 1
            found.setdefault(job_id, {})[metric] = (None if value is None else value * times, bool(is_bound))
    return found


def sacct(*jobs_of: tuple[str, str, str, int, str, str]) -> str:
    """Jobs of an hour or so: id, state, GPUs, seconds, use of the step in all, and of its largest task."""
    tres = "TRESUsageInTot|TRESUsageInMax|TRESUsageInMin"
    lines = [f"JobIDRaw|User|State|Submit|Start|End|AllocTRES|NodeList|NTasks|{tres}"]
    for number, state, gpus, length_s, total, largest in jobs_of:
        times = f"{NOON}|{NOON + 60}|{NOON + 60 + length_s}"
        lines.append(f"{number}|ann|{state}|{times}|cpu=4,mem=16G,node=1{gpus}|n1||||")
        lines.append(f"{number}.batch||{state}|{times}|||1|{total}|{largest}|{total}")
    return "\n".join([*lines, ""])


BUSY = "cpu=03:00:00,mem=8G"


@pytest.mark.parametrize(
    ("state", "length_s", "total", "largest", "memory", "cpu"),
    [
        ("COMPLETED", 3600, BUSY, BUSY, (8 * GIB, False), (3.0, False)),
        ("COMPLETED", 3600, "", "cpu=00:56:24,mem=9G", (9 * GIB, True), (0.94, False)),
        ("COMPLETED", 3600, "cpu=01:00:00,mem=3M", "", (None, False), (1.0, False)),
        ("COMPLETED", 3600, "cpu=00:01:10,mem=36M", "", (None, False), (None, False)),
        ("COMPLETED", 3600, "cpu=00:01:13,mem=36M", "", (36 * MIB, False), (73 / 3600, False)),
        ("COMPLETED", 600, "cpu=00:00:01,mem=36M", "", (36 * MIB, False), (1 / 600, False)),
        *((state, 3600, BUSY, BUSY, (8 * GIB, True), (3.0, False)) for state in (
            "FAILED", "CANCELLED by 7", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "DEADLINE", "OUT_OF_MEMORY")),
    ],
)  # fmt: skip
def test_use_by_slurm(
    sqlite_engine: Engine, tmp_path: Path, state: str, length_s: int, total: str, largest: str,
    memory: tuple[float | None, bool], cpu: tuple[float | None, bool],
) -> None:  # fmt: skip
    found = used(sqlite_engine, tmp_path / "log", sacct(("7", state, "", length_s, total, largest)), "slurm")["7"]
    assert found["memory"] == memory
    assert found["cpu"][0] == (None if cpu[0] is None else pytest.approx(cpu[0]))
    assert found["cpu"][1] == cpu[1]


def test_gpus_without_any_use_were_not_read_unless_others_of_their_kind_were(
    sqlite_engine: Engine, tmp_path: Path
) -> None:
    nothing, some = f"{BUSY},gres/gpumem=0,gres/gpuutil=0", f"{BUSY},gres/gpumem=5G,gres/gpuutil=90"
    infinite = f"{BUSY},gres/gpumem=0,gres/gpuutil=18446744073709551614"
    rows = [
        ("1", ",gres/gpu:mi250=2,gres/gpu=2", nothing), ("2", ",gres/gpu:a100=2,gres/gpu=2", nothing),
        ("3", ",gres/gpu:a100=2,gres/gpu=2", some), ("4", ",gres/gpu:mi250=2,gres/gpu=2", infinite),
    ]  # fmt: skip
    text = sacct(*((number, "COMPLETED", gpus, 3600, use, use) for number, gpus, use in rows))
    found = used(sqlite_engine, tmp_path / "log", text, "slurm")
    assert found["1"]["gpu_memory"] == found["1"]["gpu_utilisation"] == (None, False)
    assert found["2"]["gpu_memory"] == found["2"]["gpu_utilisation"] == (0.0, False)
    assert found["3"]["gpu_memory"] == (5 * GIB, False)
    assert found["4"]["gpu_memory"] == (None, False)
    assert "gpu_utilisation" not in found["4"]
    assert found["4"]["memory"] == (8 * GIB, False), "the job is kept"


def test_an_allocation_that_ended_before_its_steps_ends_with_the_last(sqlite_engine: Engine, tmp_path: Path) -> None:
    text = sacct(("7", "COMPLETED", "", 3600, BUSY, BUSY)).replace(f"|{NOON + 3660}|cpu=4", f"|{NOON + 60}|cpu=4")
    assert used(sqlite_engine, tmp_path / "log", text, "slurm")["7"]["runtime"] == (3600.0, False)


def test_a_job_that_failed_in_the_second_of_its_submission_has_ended(sqlite_engine: Engine, tmp_path: Path) -> None:
    times = f"{NOON}|{NOON}|{NOON}"
    text = f"JobIDRaw|User|State|Submit|Start|End|AllocTRES|NodeList\n7|ann|FAILED|{times}|cpu=4,node=1|n1\n"
    assert used(sqlite_engine, tmp_path / "log", text, "slurm")["7"]["runtime"] == (0.0, True)


def pbs(walltime: str, cput: str, hosts: str = "n1/0*8+n2/0*8", status: int = 0, end: str = "\n") -> str:
    of_use = f"resources_used.cput={cput} resources_used.mem=20480000kb resources_used.walltime={walltime} run_count=1"
    of_job = f"user=ann group=g jobname=j queue=q ctime={NOON} qtime={NOON} etime={NOON} start={NOON} exec_host={hosts}"
    return f"11/14/2023 23:13:20;E;7.srv;{of_job} session=5 end={NOON + 3600} Exit_status={status} {of_use}{end}"


@pytest.mark.parametrize(
    ("text", "memory", "cpu"),
    [
        (pbs("01:00:00", "07:50:00"), (20_480_000 * 1024, False), (7.833, False)),
        (pbs("00:00:00", "07:50:00"), (20_480_000 * 1024, True), (7.833, True)),
        (pbs("00:00:00", "07:50:00", "n1/0*16"), (20_480_000 * 1024, False), (7.833, False)),
        (pbs("01:00:00", "00:04:00"), (None, False), (None, False)),
        (pbs("01:00:00", "07:50:00", status=271), (20_480_000 * 1024, True), (7.833, False)),
        (pbs("01:00:00", "07:50:00", end=""), (20_480_000 * 1024, False), (7.833, False)),
    ],
)
def test_use_by_pbs(
    sqlite_engine: Engine, tmp_path: Path, text: str, memory: tuple[float, bool], cpu: tuple[float, bool]
) -> None:
    """The use of one node's processes is not the job's; nor is that of a run that the batch system did not see."""
    found = used(sqlite_engine, tmp_path / "log", text, "pbspro")["7.srv"]
    assert found["memory"] == memory
    assert found["cpu"] == (cpu[0] and pytest.approx(cpu[0], rel=1e-3), cpu[1])


def test_a_line_that_ends_within_its_last_value_is_cut_off(
    sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight
) -> None:
    file = tmp_path / "log"
    file.write_text(pbs("01:00:00", "07:50:00") + pbs("01:00:00", "07:50:00", end="")[:-20].replace(";7.", ";8."))
    jobsight("import", "pbspro", file, "--cluster", "c", on=sqlite_engine)
    with sqlite_engine.connect() as connection:
        assert connection.scalars(select(jobs.c.job_id)).all() == ["7.srv"]


@pytest.mark.parametrize(("maxrss_kib", "memory"), [(10_800_000, None), (1_000_000, 11_100_000_000)])
def test_maxvmem_that_is_resident_says_nothing_about_address_space(
    sqlite_engine: Engine, tmp_path: Path, maxrss_kib: int, memory: int | None
) -> None:
    times = f"{NOON - 60}:{NOON}:{NOON + 3600}"
    text = (
        f"all.q:n1:g:ann:py:800:sge:0:{times}:0:0:3600:3000.5:20.5:{maxrss_kib}.0:0:0:0:0:72259:0:0:0.0:0:0:0:0:13885:"
        "21950:NONE:d:smp:1:0:3050.0:2570.3:51.3:-l h_rt=7200,h_vmem=120G -pe smp 1:0.0:NONE:11100000000.0:0:0\n"
    )
    assert used(sqlite_engine, tmp_path / "log", text, "gridengine")["800"]["memory"] == (memory, False)


@pytest.mark.parametrize(("seconds", "is_bound"), [("0.4", True), ("60.0", True), ("60.1", False), ("3600.0", False)])
def test_memory_of_snakemake_is_a_lower_bound_until_its_second_late_sample(
    sqlite_engine: Engine, tmp_path: Path, seconds: str, is_bound: bool
) -> None:
    row = {"s": seconds, "h:m:s": "0:01:00", "max_rss": "3301.00", "cpu_time": "0.3"}
    text = "\t".join(row) + "\n" + "\t".join(row.values())
    (found,) = used(sqlite_engine, tmp_path / "align.tsv", text, "snakemake").values()
    assert found["memory"] == (3301 * MIB, is_bound)


@pytest.mark.parametrize(
    ("realtime", "peak", "memory"),
    [("30s", "2 GB", (2 * GIB, True)), ("31s", "2 GB", (2 * GIB, False)), ("2m 14s", "36 KB", (None, False))],
)
def test_memory_of_nextflow_with_start_and_realtime_only(
    sqlite_engine: Engine, tmp_path: Path, realtime: str, peak: str, memory: tuple[int | None, bool]
) -> None:
    row = {"hash": "5a/1", "process": "M", "status": "COMPLETED", "start": "2026-03-01 22:11:14.182"}
    row |= {"realtime": realtime, "%cpu": "90.5%", "peak_rss": peak, "cpus": "1"}
    text = "\t".join(row) + "\n" + "\t".join(row.values()) + "\n"
    found = used(sqlite_engine, tmp_path / "trace.txt", text, "nextflow")["5a/1"]
    assert found["memory"] == memory
    assert found["runtime"][0] in (30.0, 31.0, 134.0)
