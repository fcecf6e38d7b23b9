"""Accounting files imported by mistake are withdrawn without traces."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from tests import make
from tests.make import Jobsight

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage.clusters import stored_clusters

Dump = Callable[[Engine], dict[str, list[dict[str, Any]]]]
Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def imported(run_command: Run) -> Run:
    return lambda *arguments: run_command("import", *(arguments if "--forget" in arguments else ("--list", *arguments)))


@pytest.fixture
def right(directory: Path, make_log: Callable[[int], Any], noon: int) -> Path:
    log = make_log(-18_000)
    for number in range(4):
        log.start(f"{number}.s", noon + 100 * number)
        log.end(f"{number}.s", noon + 100 * number, noon + 100 * number + 60 + number)
    (directory / "right").write_bytes(log.data)
    return directory / "right"


@pytest.fixture
def wrong(directory: Path, make_log: Callable[[int], Any], noon: int) -> Path:
    log = make_log(-18_000)
    for number in range(10, 13):
        log.end(f"{number}.s", noon + 50 * number, noon + 50 * number + 500, user="ann" if number % 2 else "eve")
    (directory / "wrong").write_bytes(log.data + b"rubbish\n" * 3)
    return directory / "wrong"


def without_counts(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: rows for name, rows in found.items() if name != "event_counts"}


def accounting_counts(engine: Engine) -> dict[tuple[str, str], int]:
    return {key: n for key, n in make.counts(engine).items() if n and key[0].startswith("accounting")}


def test_a_forgotten_file_leaves_what_was_there_before(
    run_import: Run, imported: Run, engine: Engine, right: Path, wrong: Path, dump: Dump
) -> None:
    run_import(right, "--cluster", "x")
    before, counted = dump(engine), accounting_counts(engine)
    run_import(wrong, "--cluster", "x")
    assert without_counts(dump(engine)) != without_counts(before)
    assert accounting_counts(engine)["accounting_lines", "rejected"] == 3
    status, found, _ = imported("--forget", wrong)
    assert (status, found) == (
        0,
        {"cluster": "x", "paths": [str(wrong)], "lines": 6, "runs": 3, "kept": 0, "absent": 0},
    )
    assert without_counts(dump(engine)) == without_counts(before)
    assert accounting_counts(engine) == {**counted, ("accounting_files", "withdrawn"): 1}
    status, again, error = imported("--forget", wrong)
    assert (status, again) == (1, None)
    assert "nothing of cluster 'x' was read from" in error
    assert run_import(wrong)[1]["new_runs"] == 3


@pytest.mark.storage
def test_the_list_says_what_was_read(
    run_import: Run, imported: Run, engine: Engine, right: Path, wrong: Path, jobsight: Jobsight
) -> None:
    run_import(right, "--cluster", "x")
    run_import(wrong, "--cluster", "y", "--clusters", "y")
    status, found, _ = imported()
    given = [(entry["cluster"], entry["path"], entry["lines"], entry["rejected"]) for entry in found]
    assert (status, given) == (0, [("x", str(right), 8, 0), ("y", str(wrong), 6, 3)])
    assert [entry["cluster"] for entry in imported("--cluster", "y")[1]] == ["y"]
    lines = jobsight("import", "--list", on=engine).out.splitlines()
    assert lines[0].split() == ["lines", "rejected", "last", "read", "cluster:", "file"]
    assert lines[2].endswith(f"y: {wrong}")


@pytest.mark.storage
def test_a_cluster_that_was_a_mistake_is_gone_with_its_file(
    run_import: Run, imported: Run, engine: Engine, wrong: Path
) -> None:
    run_import(wrong, "--cluster", "alhpa")
    assert imported("--forget", wrong)[1]["runs"] == 3
    with engine.connect() as connection:
        assert stored_clusters(connection) == set()
        for table in ("series", "model_state", "accounting_rejects"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0


def test_runs_that_another_file_describes_stay(
    run_import: Run, imported: Run, engine: Engine, right: Path, wrong: Path
) -> None:
    both = right.with_name("both.gz")
    both.write_bytes(gzip.compress(wrong.read_bytes() + right.read_bytes()))
    run_import(right, both, "--cluster", "x")
    found = imported("--forget", both)[1]
    assert (found["runs"], found["kept"]) == (3, 4)
    assert make.rows(engine, "SELECT count(*) FROM jobs") == [(4,)]


def test_a_file_is_known_by_its_content(run_import: Run, imported: Run, right: Path, wrong: Path) -> None:
    run_import(right, wrong, "--cluster", "x")
    content = wrong.read_bytes()
    moved = wrong.with_name("moved.gz")
    moved.write_bytes(gzip.compress(content))
    assert "nothing of cluster 'x' was read from" in imported("--forget", moved)[2]  # it is still there as well
    wrong.write_bytes(content[::-1])
    assert "differs from the file that was read under this name" in imported("--forget", wrong)[2]
    wrong.unlink()
    assert "restore it, under any name" in imported("--forget", wrong)[2]
    assert imported("--forget", moved)[1]["paths"] == [str(wrong)]


def test_a_directory_that_is_followed_is_left_alone(
    run_import: Run, imported: Run, wrong: Path, tmp_path: Path
) -> None:
    run_import(wrong, "--cluster", "x")
    config = tmp_path / "jobsight.toml"
    config.write_text(f'[[accounting]]\ncluster = "x"\ndirectory = "{wrong.parent}"\nformat = "torque"\n')
    status, _, error = imported("--forget", wrong, "--config", config)
    assert (status, "move it out first" in error) == (1, True)


@pytest.mark.storage
def test_what_is_learned_afterwards_can_be_learned_again(
    run_import: Run, imported: Run, engine: Engine, right: Path, make_log: Callable[[int], Any], noon: int, dump: Dump
) -> None:
    """A job that waits was submitted after one of the runs that are forgotten, which were the last learned."""
    wrong, waiting, later = (make_log(-18_000) for _ in range(3))
    wrong.end("10.s", noon + 1000, noon + 1100)
    wrong.end("11.s", noon + 1000, noon + 1400)
    waiting.start("20.s", noon + 1300)
    later.end("21.s", noon + 1500, noon + 1700)
    later.end("20.s", noon + 1300, noon + 1800)
    files = [right]
    for name, log in (("waiting", waiting), ("wrong", wrong), ("later", later)):
        files.append(right.with_name(name))
        files[-1].write_bytes(log.data)
    run_import(*files[:3], "--cluster", "x")
    assert imported("--forget", files[2])[1]["runs"] == 2
    assert run_import(files[3])[1]["profiled"] == 2
    before = dump(engine)
    rebuild(engine)
    assert dump(engine) == before
