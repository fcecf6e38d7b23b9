"""Records as Grid Engine writes them, of both flavours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from jobsight_server.accounting.parsers.gridengine import parse_line
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.accounting.runs import AccountingError, RunRecord
from jobsight_server.commands.withdraw import withdraw
from jobsight_server.storage.schema import job_nodes, jobs, parallel_tasks

SAMPLES = Path(os.environ.get("JOBSIGHT_TRACES", "../shared/traces")).parent / "accounting" / "sge"
T0 = 1_790_000_000
FIELDS = (
    "qname hostname group owner job_name job_number account priority submission_time start_time end_time failed "
    "exit_status ru_wallclock ru_utime ru_stime ru_maxrss ru_ixrss ru_ismrss ru_idrss ru_isrss ru_minflt ru_majflt "
    "ru_nswap ru_inblock ru_oublock ru_msgsnd ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw project department granted_pe "
    "slots task_number cpu mem io category iow pe_taskid maxvmem arid ar_submission_time"
)
NAMES = FIELDS.split()
USUAL = {
    **dict.fromkeys(NAMES, "0"),
    "qname": "all.q",
    "hostname": "n1",
    "group": "staff",
    "owner": "ann",
    "job_name": "cfd",
    "job_number": "7",
    "account": "sge",
    "submission_time": str(T0),
    "start_time": str(T0 + 100),
    "end_time": str(T0 + 160),
    "ru_wallclock": "60",
    "ru_utime": "50.5",
    "ru_stime": "1.5",
    "ru_maxrss": "4096.000000",
    "project": "NONE",
    "department": "defaultdepartment",
    "granted_pe": "NONE",
    "slots": "1",
    "cpu": "52.25",
    "mem": "1.5",
    "category": "-l h_rt=3600,h_vmem=2G",
    "pe_taskid": "NONE",
    "maxvmem": "8388608.000000",
}


def line(*further: str, **changes: object) -> str:
    """A record with these fields changed, and further ones at its end."""
    assert changes.keys() <= USUAL.keys()
    return ":".join([*(str(changes.get(name, USUAL[name])) for name in NAMES), *further])


def run_of(*further: str, **changes: object) -> RunRecord:
    event = parse_line(line(*further, **changes))
    assert event.run is not None
    return event.run


def test_a_whole_record() -> None:
    assert len(NAMES) == 45
    event = parse_line(line())
    assert (event.kind, event.job_id, event.local_s) == ("E", "7", T0 + 160.0)
    assert event.run == RunRecord(
        user="ann",
        start=T0 + 100.0,
        end=T0 + 160.0,
        group="staff",
        name="cfd",
        queue="all.q",
        queued=float(T0),
        exec_host="n1",
        nodes=(("n1", 1),),
        processors=1,
        exit_status=0,
        requested_walltime_s=3600.0,
        requested_memory_bytes=2 * 2**30,
        requested_nodes="-l h_rt=3600,h_vmem=2G",
        used_cpu_s=52.25,
        used_memory_bytes=8 * 2**20,
        used_walltime_s=60.0,
    )


@pytest.mark.parametrize("name", ["a:b", "a:b:c:d", ":", "12:sge:0:5", "7:sge:0", "a:NONE:0:0", "50%:x=1;y|z"])
def test_a_job_name_may_hold_colons(name: str) -> None:
    run = run_of(job_name=name, category="-q all.q@a:b -l h_rt=1:00:00")
    assert (run.name, run.requested_walltime_s, run.used_memory_bytes) == (name, 3600.0, 8 * 2**20)


def test_a_name_that_looks_like_a_record_is_rejected_as_open() -> None:
    with pytest.raises(AccountingError, match="ambiguous where the job's name ends"):
        parse_line(line(job_name="x:" + ":".join(line().split(":")[5:])))


def test_univas_milliseconds_and_further_fields() -> None:
    times = {name: f"{USUAL[name]}123" for name in ("submission_time", "start_time", "end_time")}
    further = ("default", "NONE", "7340032.000000", "0", "login", "/home/ann", "qsub -N cfd a:b", "60.1", "12")
    run = run_of(*further, **times, ru_wallclock="60.118")
    assert (run.queued, run.start, run.end) == (T0 + 0.123, T0 + 100.123, T0 + 160.123)
    assert (run.used_walltime_s, run.used_memory_bytes) == (60.118, 8 * 2**20)
    resident = run_of(*further, **times, category="-l m_mem_free=1G")
    assert (resident.requested_memory_bytes, resident.used_memory_bytes) == (2**30, 7 * 2**20)


@pytest.mark.parametrize(
    ("changes", "job_id"), [({"task_number": 0}, "7"), ({"task_number": 3}, "7.3"), ({"job_number": 123456}, "123456")]
)
def test_a_task_of_an_array_is_a_job_of_its_own(changes: Mapping[str, Any], job_id: str) -> None:
    assert parse_line(line(**changes)).job_id == job_id


@pytest.mark.parametrize(
    ("category", "walltime_s", "memory_bytes"),
    [
        ("NONE", None, None),
        ("-l h_rt=60", 60.0, None),
        ("-U staff -u ann -l h_vmem=1.5G,h_rt=0:10:0 -pe mpi 4", 600.0, 4 * 3 * 2**29),
        ("-l h_rt=INFINITY,h_vmem=INFINITY", None, None),
        ("-l mem_free=100m", None, 400_000_000),
        ("-soft -l h_rt=5 -hard -l h_vmem=1k", None, 4000),
        ("-l h_rt=1:30", 90.0, None),
        ("-l h_rt=86400.000000,h_vmem=1073741824.000000", 86400.0, 4 * 2**30),
        ("-l s_rt=60,s_vmem=1M", None, None),
    ],
)
def test_requests_in_the_category_are_per_slot(
    category: str, walltime_s: float | None, memory_bytes: int | None
) -> None:
    run = run_of(category=category, granted_pe="mpi", slots=4)
    assert (run.requested_walltime_s, run.requested_memory_bytes) == (walltime_s, memory_bytes)


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"failed": 37, "exit_status": 137, "ru_wallclock": 3601}, "time"),
        ({"failed": 100, "exit_status": 137, "ru_wallclock": 3600}, "time"),
        ({"failed": 100, "exit_status": 137, "maxvmem": 2**31}, "memory"),
        ({"failed": 0, "exit_status": 139, "maxvmem": 2**31}, "memory"),
        ({"failed": 100, "exit_status": 137}, None),  # deleted, or killed by somebody else
        ({"failed": 0, "exit_status": 1, "ru_wallclock": 3600}, None),
        ({"failed": 100, "exit_status": 137, "category": "NONE", "ru_wallclock": 9999}, None),
        ({"failed": 100, "exit_status": 138, "category": "-l h_rt=3600,s_rt=60"}, "time"),
        ({"failed": 100, "exit_status": 138, "category": "-soft -l s_rt=60"}, None),
        ({"failed": 100, "exit_status": 152, "category": "-l s_vmem=8M"}, "memory"),
        ({"failed": 100, "exit_status": 152, "category": "-l h_vmem=16M,s_vmem=4M", "slots": 2}, "memory"),
        ({"failed": 100, "exit_status": 152, "category": "-l s_vmem=16M,h_vmem=16M"}, None),
    ],
)
def test_what_a_job_ran_out_of(changes: Mapping[str, Any], failure: str | None) -> None:
    assert run_of(**changes).failure == failure


@pytest.mark.parametrize(("failed", "kind"), [(0, "E"), (12, "E"), (24, "R"), (25, "R"), (37, "E"), (100, "E")])
def test_a_run_that_ended_or_is_scheduled_again(failed: int, kind: str) -> None:
    assert parse_line(line(failed=failed)).kind == kind


@pytest.mark.parametrize("changes", [{"start_time": 0, "end_time": 0}, {"failed": 1}, {"failed": 8}, {"failed": 26}])
def test_a_job_that_did_not_start_leaves_no_run(changes: Mapping[str, Any]) -> None:
    event = parse_line(line(**changes))
    assert (event.kind, event.job_id, event.run) == ("N", "7", None)


@pytest.mark.parametrize("text", ["# Version: 8.1.9", "#", "", " ", "x"])
def test_comments_and_what_qacct_skips(text: str) -> None:
    assert parse_line(text).kind == "comment"


def test_a_job_that_was_over_before_it_was_measured_has_no_use() -> None:
    run = run_of(cpu=0, ru_utime=0, ru_stime=0, maxvmem="0.000000")
    assert (run.used_cpu_s, run.used_memory_bytes) == (None, None)
    assert run_of(account="projx").account == "projx"
    assert run_of(project="fluids").account == "fluids"
    assert run_of().account is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"job_number": "x"}, "from job_number to io"),
        ({"end_time": T0 + 99}, "end_time is before start_time"),
        ({"end_time": 0}, "end_time is missing"),
        ({"slots": 0}, "slots"),
        ({"cpu": "1e300"}, "cpu is not between"),
        ({"cpu": "nan"}, "from job_number to io"),
        ({"maxvmem": "-1"}, "maxvmem is not between"),
        ({"start_time": "99999999999999"}, "start_time"),
        ({"owner": ""}, "owner is missing"),
        ({"owner": "u" * 256}, "owner is longer"),
        ({"category": "-l h_rt=soon"}, "h_rt in category is not a time"),
        ({"category": "-l h_vmem=2X"}, "h_vmem in category is not a size"),
        ({"job_name": "a\x00b"}, "control characters"),
        ({"job_number": 0}, "job_number"),
        ({"mem": "-"}, "from job_number to io"),
    ],
)
def test_damage_is_rejected_with_a_reason(changes: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(AccountingError, match=reason):
        parse_line(line(**changes))
    with pytest.raises(AccountingError, match="fewer than 45 fields"):
        parse_line(line().rpartition(":")[0])


def stored(engine: Engine) -> list[tuple[Any, ...]]:
    columns = (jobs.c.job_id, jobs.c.start, jobs.c.state, jobs.c.used_cpu_s, jobs.c.used_memory_bytes, jobs.c.exec_host)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(*columns).order_by(jobs.c.job_id, jobs.c.start))]


def parallel(task: str, host: str, start: int, end: int, cpu: float, memory: int) -> str:
    times = {"start_time": T0 + start, "end_time": T0 + end, "ru_utime": 0, "ru_stime": 0}
    return line(
        **times, pe_taskid=task, hostname=host, cpu=cpu, maxvmem=memory, granted_pe="mpi", slots=8, ru_wallclock=0
    )


@pytest.mark.storage
@pytest.mark.parametrize("order", ["tasks first", "job first", "one by one"])
def test_the_use_of_a_parallel_job_is_that_of_its_tasks(engine: Engine, tmp_path: Path, order: str) -> None:
    """Two runs of one job, the first of which was scheduled again."""
    first = line(
        start_time=T0 + 100, end_time=T0 + 160, failed=25, granted_pe="mpi", slots=8, cpu=1.0, maxvmem=1000,
        ru_utime=0, ru_stime=0, ru_wallclock=0,
    )  # fmt: skip
    job = parallel("NONE", "n1", 1000, 1060, 1.0, 1000)
    tasks = [
        parallel("1.n1", "n1", 1001, 1059, 50.0, 20_000),
        parallel("1.n2", "n2", 1001, 1061, 70.0, 30_000),
        parallel("1.n2", "n2", 101, 159, 5.0, 500),
    ]
    lines = [first, *tasks, job] if order == "tasks first" else [first, job, *tasks]
    pieces = [[one] for one in lines] if order == "one by one" else [lines]
    file = tmp_path / "accounting"
    for number in range(len(pieces)):
        file.write_text("".join(f"{one}\n" for piece in pieces[: number + 1] for one in piece))
        report = import_files(engine, [file], "alpha", lambda: 1.8e9, "gridengine")
        assert not report.figures.rejected
    assert report.figures.lost_without_reason == 0
    expected = [
        ("7", T0 + 100.0, "requeued", 6.0, 1500, "n1+n2"),
        ("7", T0 + 1000.0, "ended", 121.0, 51_000, "n1+n2"),
    ]
    assert stored(engine) == expected
    again = tmp_path / "again"
    again.write_text("".join(f"{one}\n" for one in reversed(lines)))
    import_files(engine, [again], "alpha", lambda: 1.8e9, "gridengine")
    assert stored(engine) == expected
    with engine.connect() as connection:
        places = connection.execute(select(job_nodes.c.node, job_nodes.c.processors)).all()
    assert sorted(tuple(place) for place in places) == [("n1", 0), ("n1", 0), ("n2", 0), ("n2", 0)]
    again.unlink()
    withdraw(engine, [file], "alpha", "gridengine")
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(parallel_tasks)) == 0


@pytest.mark.storage
def test_a_summary_of_a_parallel_job_is_the_whole_job(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "accounting"
    file.write_text(parallel("NONE", "n1", 100, 160, 400.0, 2**30) + "\n")
    import_files(engine, [file], "alpha", lambda: 1.8e9, "gridengine")
    assert stored(engine) == [("7", T0 + 100.0, "ended", 400.0, 2**30, "n1")]


def of_qacct(text: str) -> list[dict[str, str]]:
    """The records that qacct printed."""
    records = text.split("=" * 62 + "\n")
    return [
        {words[0]: words[1].strip() for each in record.splitlines() if len(words := each.split(None, 1)) == 2}
        for record in records
        if "jobnumber" in record
    ]


@pytest.mark.storage
@pytest.mark.skipif(not SAMPLES.exists(), reason=f"no sample of Grid Engine beside {SAMPLES.parent}")
def test_what_a_real_qmaster_wrote_is_what_its_qacct_says(engine: Engine) -> None:
    report = import_files(engine, [SAMPLES / "accounting"], "alpha", lambda: 1.8e9, "gridengine")
    assert report.figures.rejected == {}
    assert report.figures.lost_without_reason == 0
    assert report.figures.records == {"comment": 4, "E": 14}
    printed = of_qacct((SAMPLES / "qacct.txt").read_text())
    expected = {}
    for record in printed:
        task = record.get("taskid", "undefined")
        job_id = record["jobnumber"] if task == "undefined" else f"{record['jobnumber']}.{task}"
        failure = "time" if record["failed"].startswith("37") else None
        expected[job_id] = (record["owner"], int(record["slots"]), int(record["exit_status"].split()[0]), failure)
    with engine.connect() as connection:
        columns = (jobs.c.job_id, jobs.c.user, jobs.c.processors, jobs.c.exit_status, jobs.c.failure)
        found = {row[0]: tuple(row[1:]) for row in connection.execute(select(*columns))}
        memory = {row[0]: row[1] for row in connection.execute(select(jobs.c.job_id, jobs.c.used_memory_bytes))}
    assert found == expected
    assert memory["1"] == 166_621_184
    assert memory["3"] is None, "it was over before execd looked"
