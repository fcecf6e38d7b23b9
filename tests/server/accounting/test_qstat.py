"""Waiting jobs from the qstat of PBS Pro and TORQUE, hostile names included."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.make import not_none
from tests.server.accounting.conftest import rejects, rows

from jobsight_server.accounting.follow_queue import QueueFollower
from jobsight_server.accounting.parsers import pbspro
from jobsight_server.accounting.parsers.qstat_json import QSTAT as PBS
from jobsight_server.accounting.parsers.qstat_xml import QSTAT as TORQUE
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.accounting.store import apply_events
from jobsight_server.ground.seldom import Seldom
from jobsight_server.settings.declared import AccountingSource

SUBMITTED = "Wed Nov 15 10:00:00 2023"
GIB = 2**30


@pytest.fixture(autouse=True)
def _utc(in_zone: Callable[[str], None]) -> None:
    in_zone("UTC")


def pbs_job(**changed: Any) -> dict[str, Any]:
    resources = {"ncpus": 4, "mem": "8gb", "walltime": "02:00:00", "select": "1:ncpus=4:mem=8gb"}
    return {
        "Job_Name": "cfd",
        "Job_Owner": "ann@login1",
        "job_state": "Q",
        "queue": "workq",
        "ctime": SUBMITTED,
        "qtime": SUBMITTED,
        "Account_Name": "physics",
        "Resource_List": resources,
        "Variable_List": {"PBS_O_HOME": "/home/ann"},
        **changed,
    }


def document(**listed: dict[str, Any]) -> bytes:
    named = {f"{name[1:]}.srv": job for name, job in listed.items()}
    return json.dumps(
        {"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "srv", "Jobs": named}, indent=4
    ).encode()


XML = (
    "<Data><Job><Job_Id>7.srv</Job_Id><Job_Name>{name}</Job_Name><Job_Owner>ann@login1</Job_Owner>"
    "<job_state>{state}</job_state><queue>batch</queue><ctime>1700042400</ctime><qtime>1700042400</qtime>"
    "<Resource_List><nodes>2:ppn=2</nodes><pmem>2gb</pmem><walltime>02:00:00</walltime></Resource_List></Job></Data>"
)


def torque(name: str = "cfd", state: str = "Q") -> bytes:
    return XML.format(name=name, state=state).encode()


@pytest.mark.parametrize(
    "listed", [lambda: PBS.entries(document(_7=pbs_job())), lambda: TORQUE.entries(torque())], ids=["pbspro", "torque"]
)
def test_what_is_read(listed: Callable[[], Any]) -> None:
    (job,) = listed()
    run = job.event.run
    assert (job.job_id, job.event.kind, run.user, run.name, run.queued) == ("7.srv", "Q", "ann", "cfd", 1_700_042_400.0)
    assert (run.processors, run.requested_memory_bytes, run.requested_walltime_s) == (4, 8 * GIB, 7200.0)


def test_what_json_lacks_is_read() -> None:
    """qstat quotes nothing that looks like a number, escapes no control character, and passes on any byte."""
    text = document(_7=pbs_job(Job_Name="NAME"), _8=pbs_job(Job_Name="COUNT", comment="x")).decode()
    for written, name in (("007", "007"), ("1e5", "1e5"), ("0x1F", "0x1F"), ("nan", "nan"), ("12", "12")):
        first, second = PBS.entries(text.replace('"NAME"', written).replace("COUNT", '\\":005,').encode())
        assert (first.event and first.event.run and first.event.run.name) == name
        assert (second.event and second.event.run and second.event.run.name) == '":005,'
    raw = text.encode().replace(b"NAME", b"a\x01\tb\xe9").replace(b"COUNT", b"\\u0000\\ud800")
    assert [job.event.run.name for job in PBS.entries(raw) if job.event and job.event.run] == ["a\x01\tb\xe9", "??"]


def test_what_is_no_waiting_job_has_no_event_and_what_is_over_is_not_listed() -> None:
    found = list(PBS.entries(document(_1=pbs_job(job_state="R"), _2=pbs_job(job_state="F"), _3=pbs_job(job_state="H"))))
    assert [(job.job_id, job.event is not None) for job in found] == [("1.srv", False), ("", False), ("3.srv", True)]
    array = document(_x=pbs_job(job_state="B")).replace(b"x.srv", b"4[].srv")
    assert [(job.job_id, job.event) for job in PBS.entries(array)] == [("4[].srv", None)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"Job_Owner": "@x"}, "Job_Owner is missing"),
        ({"Job_Owner": "a\x1bb@x"}, "Job_Owner is missing or not printable"),
        ({"qtime": "soon"}, "qtime is not a time"),
        ({"Resource_List": {"mem": "much"}}, "Resource_List.mem is not a size"),
        ({"qtime": None, "ctime": None}, "qtime and ctime are missing"),
    ],
)
def test_one_that_cannot_be_used_costs_no_other(changed: dict[str, Any], why: str) -> None:
    bad, good = PBS.entries(document(_7=pbs_job(**changed), _8=pbs_job()))
    assert why in str(bad.error)
    assert good.event is not None


@pytest.mark.parametrize(
    ("read", "output"),
    [
        (PBS.entries, b""),
        (PBS.entries, b"[]"),
        (PBS.entries, document(_7=pbs_job())[:-40]),
        (PBS.entries, b"[" * 100_000),
        (TORQUE.entries, torque()[:-9]),
        (TORQUE.entries, b'<!DOCTYPE d [<!ENTITY a "aaaa">]>' + torque("&a;")),
        (TORQUE.entries, b"qstat: cannot connect\n"),
    ],
)
def test_an_output_that_is_no_list(read: Callable[[bytes], Any], output: bytes) -> None:
    with pytest.raises(AccountingError, match="its output"):
        list(read(output))


def test_names_in_xml_are_text() -> None:
    (job,) = TORQUE.entries(torque("&lt;Job_Id&gt;9\x02\xff").replace(b"\xc3\xbf", b"\xff"))
    assert job.event is not None
    assert (job.job_id, not_none(job.event.run).name) == ("7.srv", "<Job_Id>9?ÿ")


def test_a_job_from_the_queue_to_its_end(sqlite_engine: Engine, tmp_path: Path) -> None:
    """It is one run from the first look on; changes by qalter show, and a job that leaves without a record is
    removed."""
    qstat, now = tmp_path / "qstat", [1_700_042_410.0]
    qstat.write_text(f"#!/bin/sh\necho $* >> {tmp_path}/calls\ncat {tmp_path}/answer\nexit $(cat {tmp_path}/status)\n")
    qstat.chmod(0o755)
    source = AccountingSource("lab", directory=tmp_path, format="pbspro", qstat=(str(qstat),))
    follower = QueueFollower(sqlite_engine, source, lambda: now[0], Seldom(60.0, 9))

    def look(answer: bytes, status: int = 0) -> list[tuple[Any, ...]]:
        (tmp_path / "answer").write_bytes(answer)
        (tmp_path / "status").write_text(f"{status}")
        report = follower.read()
        assert list(report.unreadable) == (["command qstat"] if status else [])
        return rows(sqlite_engine, "id", "job_id", "state", "requested_memory_bytes")

    both = look(document(_7=pbs_job(), _8=pbs_job()))
    assert [row[1:] for row in both] == [("7.srv", "queued", 8 * GIB), ("8.srv", "queued", 8 * GIB)]
    now[0] += 300
    assert look(b"", status=1) == both
    altered = pbs_job(Resource_List={"ncpus": 4, "mem": "1gb"})
    assert [row[1:] for row in look(document(_7=altered))] == [("7.srv", "queued", GIB)]
    line = (
        "11/15/2023 10:06:00;S;7.srv;user=ann group=hpc jobname=cfd queue=workq ctime=1700042400 qtime=1700042400 "
        "etime=1700042400 start=1700042760 exec_host=n1/0*4 Resource_List.mem=1gb"
    )
    with sqlite_engine.begin() as connection:
        apply_events(connection, "lab", [pbspro.parse_line(line)], now[0])
    assert look(document(_7=pbs_job(job_state="R"))) == [(both[0][0], "7.srv", "running", GIB)]
    assert (tmp_path / "calls").read_text().split("\n")[0] == "-f -F json"
    bad = pbs_job(qtime="soon")
    look(document(_9=bad))
    assert [reason for _, reason, _ in rejects(sqlite_engine)] == ["job 9.srv: qtime is not a time: 'soon'"]
