"""A small accounting log that grows, and the content of a database as one value."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from tests import make

from jobsight_server.cli import main
from jobsight_server.storage.schema import accounting_rejects, jobs, metadata

NOON = 1_700_000_000
_CHANGING = {"updated", "recorded_at"}


@dataclass
class Log:
    """Lines as a server ``offset_s`` from UTC writes them."""

    offset_s: int = -18_000
    lines: list[str] = field(default_factory=list)

    def write(self, time: int, kind: str, job_id: str, message: str = "") -> str:
        stamp = datetime.fromtimestamp(time, UTC) + timedelta(seconds=self.offset_s)
        self.lines.append(f"{stamp:%m/%d/%Y %H:%M:%S};{kind};{job_id};{message}\n")
        return self.lines[-1]

    def start(self, job_id: str, start: int, user: str = "ann", host: str = "n1/0+n1/1") -> str:
        return self.write(start, "S", job_id, f"{_common(user, start, host)} ")

    def end(self, job_id: str, start: int, end: int, user: str = "ann", host: str = "n1/0+n1/1") -> str:
        used = "resources_used.cput=00:01:00 resources_used.mem=2048kb resources_used.walltime=00:02:00"
        message = f"{_common(user, start, host)} session=1 end={end} Exit_status=0 {used}"
        return self.write(end, "E", job_id, message)

    @property
    def data(self) -> bytes:
        return "".join(self.lines).encode()


def _common(user: str, start: int, host: str) -> str:
    return (
        f"user={user} group=staff jobname=job queue=batch ctime={start - 60} qtime={start - 60} etime={start - 60} "
        f"start={start} owner={user}@login exec_host={host} Resource_List.walltime=01:00:00"
    )


def _dump(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    found = {}
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            columns = [column for column in table.c if column.name not in _CHANGING]
            rows = connection.execute(select(*columns)).mappings()
            found[table.name] = sorted((dict(row) for row in rows), key=repr)
    return found


def rows(engine: Engine, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of all jobs, in order of their ids and starts."""
    query = select(*(jobs.c[name] for name in columns)).order_by(jobs.c.job_id, jobs.c.start)
    return make.rows(engine, query)


def rejects(engine: Engine) -> list[tuple[int, str, str]]:
    """Line, reason and text of what was rejected."""
    columns = (accounting_rejects.c[name] for name in ("line", "reason", "text"))
    query = select(*columns).order_by(accounting_rejects.c.path, accounting_rejects.c.line)
    with engine.connect() as connection:
        return [(line, reason, text) for line, reason, text in connection.execute(query)]


def counted(engine: Engine, name: str) -> dict[str, int]:
    """Counts of this name, by label."""
    return {label: n for (counter, label), n in make.counts(engine).items() if counter == name and n}


class PowerCutError(RuntimeError):
    pass


def through_power_cuts(engine: Engine, read: Callable[[], object], after_cut: Callable[[], object] = tuple) -> int:
    """Read until nothing is left, although every third commit fails; return how many did."""
    commits = itertools.count(1)

    def cut(_connection: Any) -> None:
        if next(commits) % 3 == 0:
            raise PowerCutError

    event.listen(engine, "commit", cut)
    for cuts in range(40):
        try:
            read()
        except PowerCutError:
            after_cut()
        else:
            event.remove(engine, "commit", cut)
            return cuts
    raise AssertionError("it never ended")


Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def run_command(database_url: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `jobsight`; return its status, the JSON that it prints, and other output."""

    def run(*arguments: object) -> tuple[int, Any, str]:
        status = main([*map(str, arguments), "--database", database_url, "--json"])
        shown = capsys.readouterr()
        return status, json.loads(shown.out) if shown.out else None, shown.err

    return run


@pytest.fixture
def run_import(run_command: Run) -> Run:
    return lambda *arguments: run_command("import", "torque", *arguments)


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the zone of this process until the test ends."""

    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def make_log() -> Callable[[int], Log]:
    return Log


@pytest.fixture
def dump() -> Callable[[Engine], dict[str, list[dict[str, Any]]]]:
    """Every row of every table, without the server's own times."""
    return _dump


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "accounting"
    found.mkdir()
    return found


@pytest.fixture
def noon() -> int:
    return NOON
