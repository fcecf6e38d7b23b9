"""Records as Grid Engine writes them, of both flavours."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select
from tests import make
from tests.server.accounting.conftest import rows
from tests.traces import trace

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.commands.withdraw import withdraw
from jobsight_server.storage.schema import job_nodes, parallel_tasks

T0 = 1_790_000_000
FIRST = (Path(__file__).parents[2] / "golden" / "logs" / "gridengine.log").read_text().partition("\n")[0]
NAMES = {
    "hostname": 1,
    "start_time": 9,
    "end_time": 10,
    "failed": 11,
    "ru_wallclock": 13,
    "ru_utime": 14,
    "ru_stime": 15,
    "granted_pe": 33,
    "slots": 34,
    "cpu": 36,
    "pe_taskid": 41,
    "maxvmem": 42,
}


def line(**changes: object) -> str:
    """The first record of the golden log with these fields changed."""
    fields = FIRST.split(":")
    for name, value in changes.items():
        fields[NAMES[name]] = str(value)
    return ":".join(fields)


USE = ("job_id", "start", "state", "used_cpu_s", "used_memory_bytes", "exec_host")


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
        start_time=T0 + 100, end_time=T0 + 160, failed=25, granted_pe="mpi", slots=8, cpu=1.0, maxvmem=10_000_000,
        ru_utime=0, ru_stime=0, ru_wallclock=0,
    )  # fmt: skip
    job = parallel("NONE", "n1", 1000, 1060, 1.0, 10_000_000)
    tasks = [
        parallel("1.n1", "n1", 1001, 1059, 50.0, 20_000_000),
        parallel("1.n2", "n2", 1001, 1061, 70.0, 30_000_000),
        parallel("1.n2", "n2", 101, 159, 5.0, 5_000_000),
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
        ("7", T0 + 100.0, "requeued", 6.0, 15_000_000, "n1+n2"),
        ("7", T0 + 1000.0, "ended", 121.0, 60_000_000, "n1+n2"),
    ]
    assert rows(engine, *USE) == expected
    again = tmp_path / "again"
    again.write_text("".join(f"{one}\n" for one in reversed(lines)))
    import_files(engine, [again], "alpha", lambda: 1.8e9, "gridengine")
    assert rows(engine, *USE) == expected
    places = make.rows(engine, select(job_nodes.c.node, job_nodes.c.processors))
    assert sorted(tuple(place) for place in places) == [("n1", 0), ("n1", 0), ("n2", 0), ("n2", 0)]
    again.unlink()
    withdraw(engine, [file], "alpha", "gridengine")
    assert make.rows(engine, select(func.count()).select_from(parallel_tasks)) == [(0,)]


@pytest.mark.storage
def test_a_summary_of_a_parallel_job_is_the_whole_job(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "accounting"
    file.write_text(parallel("NONE", "n1", 100, 160, 400.0, 2**30) + "\n")
    import_files(engine, [file], "alpha", lambda: 1.8e9, "gridengine")
    assert rows(engine, *USE) == [("7", T0 + 100.0, "ended", 400.0, 2**30, "n1")]


def of_qacct(text: str) -> list[dict[str, str]]:
    """The records that qacct printed."""
    records = text.split("=" * 62 + "\n")
    return [
        {words[0]: words[1].strip() for each in record.splitlines() if len(words := each.split(None, 1)) == 2}
        for record in records
        if "jobnumber" in record
    ]


@pytest.mark.storage
def test_what_a_real_qmaster_wrote_is_what_its_qacct_says(engine: Engine) -> None:
    samples = trace("../accounting/sge")
    report = import_files(engine, [samples / "accounting"], "alpha", lambda: 1.8e9, "gridengine")
    assert report.figures.rejected == {}
    assert report.figures.lost_without_reason == 0
    assert report.figures.records == {"comment": 4, "E": 14}
    printed = of_qacct((samples / "qacct.txt").read_text())
    expected = {}
    for record in printed:
        task = record.get("taskid", "undefined")
        job_id = record["jobnumber"] if task == "undefined" else f"{record['jobnumber']}.{task}"
        failure = "time" if record["failed"].startswith("37") else None
        expected[job_id] = [record["owner"], int(record["slots"]), int(record["exit_status"].split()[0]), failure]
    found = {job_id: of for job_id, *of in rows(engine, "job_id", "user", "processors", "exit_status", "failure")}
    memory = dict(rows(engine, "job_id", "used_memory_bytes"))
    assert found == expected
    assert memory["1"] == 166_621_184
    assert memory["3"] is None, "it was over before execd looked"
