"""A real database for each test: SQLite, and PostgreSQL where its programs are installed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from tests.make import Jobsight, Printed
from tests.server.postgresql import Reused, create, drop, url_of

from jobsight_server.cli import main
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On PostgreSQL, `make test` runs only what is marked ``storage``; `make check` runs everything, with one seed."""
    there = [item for item in items if parameters(item).get("database_url") == "postgresql"]
    for item in there:
        if not item.get_closest_marker("storage"):
            item.add_marker("exhaustive")
    left_out = {item for item in there if parameters(item).get("seed", 0)}
    items[:] = [item for item in items if item not in left_out]


def parameters(item: pytest.Item) -> dict[str, Any]:
    """Return the parameters of a test by name."""
    call = getattr(item, "callspec", None)
    return call.params if call else {}


@pytest.fixture(scope="session")
def postgresql_server(postgresql_url: str) -> Iterator[Engine]:
    """An engine on the PostgreSQL server's own database."""
    server = create_engine(
        make_url(postgresql_url).set(drivername="postgresql+psycopg"),
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": 3},
    )
    yield server
    server.dispose()


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server: Engine) -> Iterator[Reused]:
    """The database shared by all tests on PostgreSQL, one after the other."""
    database = Reused(postgresql_server)
    yield database
    database.close()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database as the migrations make it; a copy takes a hundredth of the time."""
    file = tmp_path_factory.mktemp("migrated") / "jobsight.db"
    engine = open_engine(f"sqlite:///{file}")
    upgrade(engine)
    engine.dispose()
    return file


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database; without tables unless the test uses ``engine``."""
    migrated = "engine" in request.fixturenames
    if request.param == "sqlite":
        file = tmp_path / "jobsight.db"
        if migrated:
            shutil.copy(request.getfixturevalue("migrated_file"), file)
        yield f"sqlite:///{file}"
    elif migrated:
        yield request.getfixturevalue("migrated_postgresql").url()
    else:
        server: Engine = request.getfixturevalue("postgresql_server")
        name = create(server)
        yield url_of(server, name)
        drop(server, name)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A migrated database, open for writing."""
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def jobsight(capsys: pytest.CaptureFixture[str]) -> Iterator[Jobsight]:
    """Runs a command, which has to end with this status, and returns what it prints; its signal handlers go."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*arguments: object, on: Engine | Path | str = "", status: int = 0) -> Printed:
        url = on.url.render_as_string(hide_password=False) if isinstance(on, Engine) else str(on)
        try:
            ended = main([*map(str, arguments), *(["--database", url] if url else [])])
        except SystemExit as wrong_option:
            ended = int(wrong_option.code or 0)
        printed = Printed(*capsys.readouterr())
        assert ended == status, printed
        return printed

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def fill_once(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[Engine, Callable[[Engine], Any]], Any]:
    """Fill a migrated database by a function, and return its result: the first one is filled, others are its copies.

    The function puts the same into every database, and the engine has no open connection yet.
    """
    directory = tmp_path_factory.mktemp("filled")
    filled: dict[tuple[str, Any], tuple[str, Any]] = {}

    def fill(engine: Engine, put: Callable[[Engine], Any]) -> Any:
        of, file = (engine.dialect.name, put), str(engine.url.database)
        database: Reused | None = None
        if engine.dialect.name != "sqlite":
            database = request.getfixturevalue("migrated_postgresql")
        if of not in filled:
            result = put(engine)
            engine.dispose()  # in SQLite, this empties the write-ahead log
            copy = shutil.copy(file, directory / str(len(filled))) if database is None else database.copied()
            filled[of] = str(copy), result
        elif database is None:
            shutil.copy(filled[of][0], file)
        else:
            database.copy_from(filled[of][0])
        return filled[of][1]

    return fill


@pytest.fixture
def sqlite_engine(migrated_file: Path, tmp_path: Path) -> Iterator[Engine]:
    """The same on SQLite only, for tests that do not depend on the database system."""
    engine = open_engine(f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'jobsight.db')}")
    yield engine
    engine.dispose()
