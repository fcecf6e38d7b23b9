from __future__ import annotations

import gzip
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests import make
from tests.make import Jobsight

from jobsight_server.accounting.figures import ImportFigures
from jobsight_server.accounting.log_reader import LogReader
from jobsight_server.commands.database import filled_database
from jobsight_server.storage.clusters import stored_clusters
from jobsight_server.storage.engine import open_engine


def test_import_and_once_more(
    run_import: Callable[..., tuple[int, Any, str]],
    engine: Engine,
    directory: Path,
    log: Any,
    noon: int,
    dump: Callable[[Engine], Any],
) -> None:
    log.start("1.s", noon)
    log.end("1.s", noon, noon + 60)
    log.write(noon + 70, "R", "1.s")
    log.end("1.s", noon + 100, noon + 160)
    log.write(noon + 170, "E", "5[].s", "user=ann start=1 end=2")
    plain, packed = directory / "a", directory / "b.gz"
    plain.write_bytes(log.data + b"rubbish\n")
    log.lines.clear()
    log.end("2.s", noon, noon + 60, user="bob")
    cut = log.end("3.s", noon, noon + 60)
    packed.write_bytes(gzip.compress((log.data.decode().removesuffix(cut) + cut[:-40]).encode()))
    status, found, _ = run_import(plain, packed, "--cluster", "x")
    assert status == 0
    expected = {
        "files": [str(plain), str(packed)],
        "cluster": "x",
        "lines": 8,
        "records": {"E": 4, "R": 1, "S": 1},
        "runs": 3,
        "job_ids": 2,
        "ran_more_than_once": 1,
        "runs_of_these": 2,
        "users": 2,
        "rejected": {"fewer than four fields separated by semicolons": 1, "cut off: the file ends within the line": 1},
        "lost_without_reason": 0,
        "unreadable": {},
        "new_lines": 8,
        "new_runs": 3,
        "profiled": 3,
    }
    assert {key: found[key] for key in expected} == expected
    before = dump(engine)
    assert len(before["jobs"]) == 3
    assert all(row["profiled"] for row in before["jobs"])
    again = run_import(plain, packed, "--cluster", "x")[1]
    assert (again["new_lines"], again["new_runs"], again["profiled"]) == (0, 0, 0)
    assert dump(engine) == before


@pytest.mark.storage
def test_a_file_that_another_process_reads_meanwhile_is_counted_whole(
    engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    for number in range(30):
        log.end(f"{number}.s", noon + number, noon + number + 60)
    file = directory / "a"
    file.write_bytes(log.data)
    figures = ImportFigures()

    def read_by_another(*_: object) -> None:
        LogReader(engine, "c", lambda: 1.8e9).read(file, final=True)

    reader = LogReader(engine, "c", lambda: 1.8e9, progress=read_by_another, most_records=10)
    reader.read(file, final=True, figures=figures)
    assert reader.report.lines == 10  # the other one has read the rest
    assert (figures.lines, figures.records["E"], figures.lost_without_reason) == (30, 30, 0)
    assert make.rows(engine, "SELECT count(*) FROM jobs") == [(30,)]


def test_a_misspelt_cluster_does_not_become_one(
    run_import: Callable[..., tuple[int, Any, str]], engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    log.end("1.s", noon, noon + 60)
    file = directory / "a"
    file.write_bytes(log.data)
    status, _, said = run_import(file)
    assert status == 1
    assert "give --cluster NAME, the cluster of the files; known: none yet" in said
    assert run_import(file, "--cluster", "alpha")[0] == 0, "the first cluster of a site needs no declaration"
    assert run_import(file)[1]["cluster"] == "alpha", "the only one"
    status, _, said = run_import(file, "--cluster", "alhpa")
    assert status == 1
    assert "--cluster 'alhpa' is not declared; known: alpha. Declare a new one with --clusters alhpa" in said
    assert run_import(file, "--cluster", "beta", "--clusters", "beta gamma")[1]["new_runs"] == 1
    status, _, said = run_import(file)
    assert (status, "known: alpha, beta" in said) == (1, True)
    with engine.connect() as connection:
        assert stored_clusters(connection) == {"alpha", "beta"}


def test_a_new_database_stays_while_another_process_has_it_open(directory: Path) -> None:
    args = Namespace(config=None, database=f"sqlite:///{directory / 'new.db'}")
    with ExitStack() as opened:
        with filled_database(args):
            opened.enter_context(open_engine(args.database).connect())
        assert (directory / "new.db").exists()


def test_a_failed_import_leaves_no_new_database(directory: Path, log: Any, noon: int, jobsight: Jobsight) -> None:
    log.end("1.s", noon, noon + 60)
    (directory / "a").write_bytes(log.data)
    (directory / "empty").write_bytes(b"")
    database = f"sqlite:///{directory / 'new.db'}"
    without_a_job = ["torque", str(directory / "empty"), "--cluster", "alpha"]
    for given in ([str(directory / "a")], without_a_job):
        said = jobsight("import", *given, on=database, status=1).err
        assert "removed the new database: no job was imported" in said
        assert not [*directory.glob("new.db*")]
    jobsight("import", str(directory / "a"), "--cluster", "alpha", on=database)
    jobsight("import", *without_a_job, on=database, status=1)
    assert (directory / "new.db").exists()
