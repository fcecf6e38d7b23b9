from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from jobsight_server.cli import main
from jobsight_server.storage.clusters import stored_clusters
from jobsight_server.storage.engine import open_engine

ROOT = Path(__file__).parents[3]
REAL_DAY = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces")).parent / (
    "accounting/torque-20110908.gz"
)


@pytest.fixture
def run_import(database_url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any, str]]:
    def run(*arguments: object) -> tuple[int, Any, str]:
        status = main(["import", "torque", "--database", database_url, "--json", *map(str, arguments)])
        shown = capsys.readouterr()
        return status, json.loads(shown.out) if shown.out else None, shown.err

    return run


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
        "rejected": {"fewer than four parts between semicolons": 1, "cut off: the file ends within the line": 1},
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
    status, again, _ = run_import(plain, packed, "--cluster", "x")
    assert (status, again["new_lines"], again["new_runs"], again["profiled"]) == (0, 0, 0, 0)
    same = ("lines", "records", "runs", "job_ids", "ran_more_than_once", "users", "rejected", "lost_without_reason")
    assert {key: again[key] for key in same} == {key: found[key] for key in same}
    assert dump(engine) == before


def test_an_absent_file_is_named_before_anything_is_read(
    run_import: Callable[..., tuple[int, Any, str]], directory: Path
) -> None:
    status, found, errors = run_import(directory / "absent", "--cluster", "x")
    assert (status, found) == (1, None)
    assert f"no such file: {directory / 'absent'}" in errors


def test_an_unreadable_file_is_reported_and_the_others_are_read(
    run_import: Callable[..., tuple[int, Any, str]], directory: Path, log: Any, noon: int
) -> None:
    good, damaged = directory / "good", directory / "damaged"
    log.end("1.s", noon, noon + 60)
    good.write_bytes(log.data)
    damaged.write_bytes(gzip.compress(log.data)[:-12])
    status, found, _ = run_import(directory, damaged, good, "--cluster", "x")
    assert status == 1
    assert found["unreadable"][str(directory)] == "file: not a regular file"
    assert found["unreadable"][str(damaged)].startswith("damaged gzip: ")
    assert (found["runs"], found["new_runs"], found["lost_without_reason"]) == (1, 1, 0)


def test_a_misspelt_cluster_does_not_become_one(
    run_import: Callable[..., tuple[int, Any, str]], engine: Engine, directory: Path, log: Any, noon: int
) -> None:
    log.end("1.s", noon, noon + 60)
    file = directory / "a"
    file.write_bytes(log.data)
    status, _, said = run_import(file)
    assert status == 1
    assert "give --cluster NAME, the cluster that the files are of; known: none yet" in said
    assert run_import(file, "--cluster", "alpha")[0] == 0, "the first cluster of a site needs no declaration"
    assert run_import(file)[1]["cluster"] == "alpha", "the only one"
    status, _, said = run_import(file, "--cluster", "alhpa")
    assert status == 1
    assert "--cluster 'alhpa' is not declared; known: alpha. A new one is declared by --clusters alhpa" in said
    assert run_import(file, "--cluster", "beta", "--clusters", "beta gamma")[1]["new_runs"] == 1
    status, _, said = run_import(file)
    assert (status, "known: alpha, beta" in said) == (1, True)
    with engine.connect() as connection:
        assert stored_clusters(connection) == {"alpha", "beta"}


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DAY.exists(), reason=f"{REAL_DAY} is absent; set JOBSIGHT_TRACES")
def test_a_real_day(tmp_path: Path, capsys: pytest.CaptureFixture[str], dump: Callable[[Engine], Any]) -> None:
    url = f"sqlite:///{tmp_path / 'real.db'}"

    def run_import() -> dict[str, Any]:
        assert main(["import", "torque", str(REAL_DAY), "--cluster", "x", "--database", url, "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    # Of the file itself, without our parser.
    end_lines = subprocess.run(["zgrep", "-c", ";E;", REAL_DAY], capture_output=True, text=True, check=True).stdout
    found = run_import()
    assert found["records"]["E"] == int(end_lines) == 5340
    assert (found["runs"], found["job_ids"], found["ran_more_than_once"], found["users"]) == (5340, 5310, 29, 52)
    assert (found["lines"], found["rejected"], found["lost_without_reason"]) == (20271, {}, 0)
    assert found["profiled"] == 5340
    engine = open_engine(url)
    before = dump(engine)
    assert sum(row["state"] == "ended" for row in before["jobs"]) == 5340
    # Every record shows the server to be five hours west of UTC, so requeued runs end where their R records say.
    requeued = [row for row in before["jobs"] if row["state"] == "requeued"]
    assert all(0 <= row["end"] - row["start"] < 86400 for row in requeued)
    assert max(row["end"] for row in requeued) <= max(row["end"] or 0 for row in before["jobs"]) + 60
    again = run_import()
    assert (again["new_runs"], again["runs"], again["users"]) == (0, 5340, 52)
    assert dump(engine) == before
    engine.dispose()
