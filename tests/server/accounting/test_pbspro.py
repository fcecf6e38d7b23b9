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
@pytest.mark.skipif(not SAMPLE.exists(), reason=f"no sample of OpenPBS beside {SAMPLE.parent.parent}")
def test_what_a_real_server_wrote(engine: Engine) -> None:
    report = import_files(engine, [SAMPLE], "alpha", lambda: 1.8e9, "pbspro")
    assert report.figures.rejected == {}
    assert dict(report.figures.records) == {"D": 1, "E": 14, "Q": 13, "R": 1, "S": 15}
    with engine.connect() as connection:
        states = connection.scalars(select(jobs.c.state).order_by(jobs.c.job_id, jobs.c.start)).all()
    assert states.count("ended") == 13  # the E record of an array's parent is no run
    assert states.count("requeued") == 1
