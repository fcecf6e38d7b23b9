"""An experiment's trace is a file, or the finished jobs of a part of a database."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests import make
from tests.make import output_of

from jobsight_papers.__main__ import main
from jobsight_papers.traces import named_trace, trace_file
from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.ground.errors import UserError


def test_a_database_is_a_trace_however_it_is_spelled(
    engine: Engine, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine.begin() as connection:
        for day in range(1, 25):
            times = {"submitted": day * 86400, "start": day * 86400 + 5, "end": day * 86400 + 65}
            make.job(connection, f"{day}", processors=2, requested_walltime_s=90.0, used={"memory": 9e6}, **times)
    whole, late = (Namespace(cluster=None, since=since, until=None) for since in (None, (2.0 * 86400, 2.0 * 86400)))
    system, rest = database_url.split("://")
    spellings = [database_url, f"{system}+{'pysqlite' if system == 'sqlite' else 'psycopg2'}://{rest}"]
    if system == "sqlite":
        spellings.append(rest.removeprefix("/"))
    for trace in spellings:
        assert read_swf(trace_file(trace, whole))["run_s"].tolist() == [60.0] * 24
        file = trace_file(trace, late)
        assert read_swf(file)["wait_s"].tolist() == [5.0] * 23
        assert trace_file(str(file), whole) == file
        with pytest.raises(UserError, match=r"--since .* is not a Jobsight database"):
            trace_file(str(file), late)
    run = ["overbooking", "--trace", database_url, "--cluster", "alpha", "--workers", "1", "--json"]
    assert main([*run, "--pmax", ".1", "--seeds", "1", "--strategy", "simple", "--last", "2"]) == 0
    assert '"in the trace": 24' in capsys.readouterr().out
    assert "beta" in output_of(main, capsys, *run, "--cluster", "beta", status=1)


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        trace_file(str(tmp_path / "none.swf"), Namespace(cluster=None, since=None, until=None))


def test_a_trace_is_found_by_the_beginning_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Namespace(cluster=None, since=None, until=None)
    files = [make.memory_trace(tmp_path / name, 3) for name in ("KTH-SP2-1996.swf", "KTH-2.swf.gz", "SDSC.swf")]
    monkeypatch.setenv("JOBSIGHT_TRACES", str(tmp_path))
    assert [named_trace(name, whole) for name in ("KTH-SP2", "SDSC", str(files[1]))] == [files[0], files[2], files[1]]
    for name, count in (("KTH", "2 traces"), ("CTC", "no traces")):
        with pytest.raises(UserError, match=f"{name}: no such file, and {count}"):
            named_trace(name, whole)
