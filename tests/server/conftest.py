"""A real, migrated, empty database for each test: SQLite, and PostgreSQL where a server answers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.migrate import upgrade

POSTGRESQL = os.environ.get("JOBSIGHT_TEST_POSTGRESQL", "postgresql://root@127.0.0.1:5432/test")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Engine]:
    """An engine on the PostgreSQL server's own database; skips where there is none."""
    url = make_url(POSTGRESQL).set(drivername="postgresql+psycopg")
    server = create_engine(url, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 3})
    try:
        server.connect().close()
    except OperationalError:
        pytest.skip(f"no PostgreSQL answers at {POSTGRESQL} (set JOBSIGHT_TEST_POSTGRESQL)")
    yield server
    server.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of its own."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobsight.db'}"
        return
    server: Engine = request.getfixturevalue("postgresql_server")
    name = f"jobsight_{uuid.uuid4().hex[:12]}"
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield make_url(POSTGRESQL).set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A migrated database, open for writing."""
    engine = open_engine(database_url)
    upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[Engine]:
    """The same on SQLite only, for what does not depend on the system."""
    engine = open_engine(f"sqlite:///{tmp_path / 'jobsight.db'}")
    upgrade(engine)
    yield engine
    engine.dispose()
