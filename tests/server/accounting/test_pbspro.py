"""Records as PBS Pro and OpenPBS write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from jobsight_server.accounting.parsers.pbspro import parse_line
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.accounting.runs import RunRecord
from jobsight_server.storage.schema import jobs

STAMP = "11/20/2026 20:00:50"
TIMES = "ctime=1795204838 qtime=1795204838 etime=0 start=1795204838 exec_host=n2/1*2+n1/0*2"
USED = "resources_used.cput=00:00:10 resources_used.mem=96428kb resources_used.walltime=00:00:12 run_count=1"
MPI = (
    f'{STAMP};E;1.pbs1;user=alice group=hpc account="projx" project=_pbs_project_default jobname=mpi2n queue=workq '
    f"{TIMES} exec_vnode=(n2:ncpus=2:mem=204800kb)+(n1:ncpus=2:mem=204800kb) Resource_List.mem=400mb "
    "Resource_List.ncpus=4 Resource_List.select=2:ncpus=2:mem=200mb Resource_List.walltime=00:02:00 session=2855 "
    f"end=1795204850 Exit_status=0 {USED}"
)
SAMPLE = Path(os.environ.get("JOBSIGHT_TRACES", "../shared/traces")).parent / "accounting" / "openpbs" / "20261120"


def run_of(message: str, kind: str = "E") -> RunRecord:
    event = parse_line(f"{STAMP};{kind};7.pbs1;{message}")
    assert event.run is not None
    return event.run


plain = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=30)


@given(account=plain.filter(lambda text: '"' not in text), group=plain.filter(lambda text: "'" not in text))
def test_a_quoted_value_is_read_as_it_was(account: str, group: str) -> None:
    run = run_of(f"user=ann group='{group}' account=\"{account}\" {TIMES} end=1795204850")
    assert (run.user, run.account, run.group, run.start) == ("ann", account, group, 1795204838.0)


@pytest.mark.storage
def test_a_requeued_run_keeps_its_usage(engine: Engine, tmp_path: Path) -> None:
    def line(kind: str, start: int, more: str = "") -> str:
        common = "user=ann group=hpc qtime=1795204830 exec_host=n1/0*2"
        return f"11/20/2026 20:00:{start - 1795204800:02};{kind};7.pbs1;{common} start={start} {more}"

    lines = [
        line("S", 1795204838),
        line("R", 1795204838, "end=1795204844 Exit_status=-11 resources_used.mem=5908kb resources_used.cput=00:00:02"),
        line("S", 1795204844),
        line("E", 1795204844, "end=1795204854 Exit_status=0 resources_used.mem=6164kb resources_used.cput=00:00:03"),
    ]
    file = tmp_path / "20261120"
    file.write_text("\n".join(lines) + "\n")
    for _ in range(2):  # a second import changes nothing
        report = import_files(engine, [file], "alpha", lambda: 1.8e9, "pbspro")
        assert not report.figures.rejected
        with engine.connect() as connection:
            rows = connection.execute(
                select(jobs.c.state, jobs.c.start, jobs.c.end, jobs.c.used_memory_bytes).order_by(jobs.c.start)
            ).all()
        assert [tuple(row) for row in rows] == [
            ("requeued", 1795204838.0, 1795204844.0, 5908 * 1024),
            ("ended", 1795204844.0, 1795204854.0, 6164 * 1024),
        ]


@pytest.mark.storage
@pytest.mark.skipif(not SAMPLE.exists(), reason=f"no sample of OpenPBS beside {SAMPLE.parent.parent}")
def test_what_a_real_server_wrote(engine: Engine) -> None:
    report = import_files(engine, [SAMPLE], "alpha", lambda: 1.8e9, "pbspro")
    assert report.figures.rejected == {}
    assert dict(report.figures.records) == {"D": 1, "E": 14, "Q": 13, "R": 1, "S": 15}
    with engine.connect() as connection:
        states = connection.scalars(select(jobs.c.state).order_by(jobs.c.job_id, jobs.c.start)).all()
    assert states.count("ended") == 13  # the E record of an array's parent is no run
    assert states.count("requeued") == 1
