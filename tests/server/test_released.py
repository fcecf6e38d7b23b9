"""An earlier release's database is upgraded: the tables of a new one, every row, the same answers.

``released`` has what version 0.3.0 made of sixteen jobs of two users, which 0.2.0 had stored: tables on SQLite and
PostgreSQL, and their rows. A table that these jobs left empty has one row of names and numbers, so that each is seen to
stay.
"""

from __future__ import annotations

import json
import random
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sqlalchemy import Engine, MetaData, inspect, select, text
from tests import make
from tests.make import not_none

from jobsight_server.auth.tokens import TokenCache, digest_of
from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest
from jobsight_server.forecasts.request import job_question
from jobsight_server.forecasts.rounds import rebuild_if_outdated
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import Batch, Submission
from jobsight_server.learning.finished import profile_finished
from jobsight_server.savings.sums.add import count_marked
from jobsight_server.storage.engine import DatabaseError, open_engine
from jobsight_server.storage.readings.sample_columns import NAMES, UNKNOWN, WHOLE, SampleColumns
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.storage.readings.sent import BatchInterface
from jobsight_server.storage.schema import jobs, profiles
from jobsight_server.storage.schema_version import NEWEST, present_version
from jobsight_server.upgrade.migrate import upgrade, whole_schema

RELEASED = Path(__file__).parent / "released/0.3"
Rows = dict[str, dict[str, list[Any]]]

# What release 0.2 forecast, how sure it was, and from how many jobs.
ASKED: dict[ForecastRequest, tuple[float | None, float | None, int]] = {
    ForecastRequest("alpha", job_question("ann"), "memory"): (100663296.0, 0.321, 9),
    ForecastRequest("alpha", job_question("ann"), "runtime"): (600.0, 0.399, 9),
    ForecastRequest("alpha", job_question("ann"), "bandwidth"): (None, None, 0),
    ForecastRequest("alpha", job_question("bob", "cfd_9", "batch", 1, 2**31, 3600.0), "runtime"): (60.0, 0.373, 3),
    ForecastRequest("alpha", job_question("ann", "mesh", "batch", 8, 2**31, 3600.0), "memory"): (100663296.0, 0.303, 2),
    ForecastRequest("alpha", job_question("cyd", queue="batch"), "runtime"): (600.0, 0.313, 14),
}
FAILED = (ForecastRequest("alpha", job_question("ann", queue="batch", processors=8), "memory"), 1.5 * 2**27)
"""A reservation that had been reported to be too small."""

# What is forecast, and recommended to reserve, for job 15.s, which was still running, as of its submission.
PENDING = {
    "bandwidth": (None, None),
    "cpu": (0.1125, 0.918),
    "memory": (100663296.0, 268435456.0),
    "runtime": (600.0, 918.0),
}

# Learned or counted again from the rows of the others.
MADE_AGAIN = {
    "alembic_version",
    "model_state",
    "pending_forecasts",
    "running_outlooks",
    "savings",
    "savings_groups",
    "savings_to_do",
}


@pytest.fixture
def rows() -> Rows:
    """The release's rows of each table."""
    found: Rows = json.loads((RELEASED / "rows.json").read_text())
    return found


@pytest.fixture
def released(database_url: str, rows: Rows) -> Iterator[Engine]:
    """The database of the release."""
    engine = open_engine(database_url)
    with engine.begin() as connection:
        for statement in (RELEASED / f"{engine.dialect.name}.sql").read_text().split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        tables = MetaData()
        tables.reflect(connection)
        for table in tables.sorted_tables:
            names = rows[table.name]["columns"]
            if rows[table.name]["rows"]:
                values = [dict(zip(names, map(_value, row), strict=True)) for row in rows[table.name]["rows"]]
                connection.execute(table.insert(), values)
            if engine.dialect.name == "postgresql" and "id" in table.columns and len(table.primary_key) == 1:
                name = f"pg_get_serial_sequence('{table.name}', 'id')"
                connection.execute(text(f"SELECT setval({name}, (SELECT max(id) FROM {table.name}))"))
    yield engine
    engine.dispose()


def _value(stored: Any) -> Any:
    return bytes.fromhex(stored["hex"]) if isinstance(stored, dict) else stored


def _shape(engine: Engine) -> dict[str, Any]:
    """The database's description of its tables."""
    found, shape = inspect(engine), {}
    for name in sorted(found.get_table_names()):
        columns = {
            each["name"]: (str(each["type"]), each["nullable"], each["default"]) for each in found.get_columns(name)
        }
        shape[name] = {
            "columns": columns,
            "primary key": found.get_pk_constraint(name),
            "foreign keys": sorted(found.get_foreign_keys(name), key=repr),
            "unique": sorted(found.get_unique_constraints(name), key=repr),
            "checks": sorted(found.get_check_constraints(name), key=repr),
            "indexes": sorted((_described(each) for each in found.get_indexes(name)), key=repr),
        }
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            for table in shape.values():
                del table["primary key"]["name"]  # which an older table keeps, and nothing there uses
            query = text("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
            for name, sql in connection.execute(query):
                shape[name]["kind"] = [words for words in ("WITHOUT ROWID", "AUTOINCREMENT") if words in sql]
            query = text("SELECT name, sql FROM sqlite_master WHERE tbl_name = 'jobs' AND type = 'index' ORDER BY name")
            shape["jobs"]["indexes"] = connection.execute(query).all()  # with expressions
    return shape


def _described(index: Any) -> tuple[Any, ...]:
    where = {name: str(value) for name, value in index["dialect_options"].items() if name.endswith("where")}
    return index["name"], index["column_names"], bool(index["unique"]), where


def _rows(engine: Engine, tables: dict[str, list[str]]) -> dict[str, list[tuple[Any, ...]]]:
    columns = {table: ", ".join(f'"{name}"' for name in sorted(names)) for table, names in tables.items()}
    return {table: _sorted(engine, f"SELECT {names} FROM {table}") for table, names in columns.items()}


def _sorted(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, make.rows(engine, query)), key=repr)


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
@pytest.mark.storage
def test_an_upgraded_database_has_the_tables_of_a_new_one(released: Engine) -> None:
    upgrade(released)
    upgraded = _shape(released)
    assert present_version(released) == NEWEST
    assert upgraded.keys() == {*whole_schema().tables, "alembic_version"}
    with released.begin() as connection:
        whole = MetaData()
        whole.reflect(connection)
        whole.drop_all(connection)
    upgrade(released)
    assert upgraded == _shape(released)


@pytest.mark.storage
def test_every_row_stays(released: Engine, rows: Rows) -> None:
    empty = {name for name, table in rows.items() if not table["rows"]} - MADE_AGAIN - {"learned_until"}
    assert empty <= {"remeasure", "requirement_state"}
    kept = {
        name: sorted({*rows[name]["columns"]} & {column.name for column in table.columns})
        for name, table in whole_schema().tables.items()
        if name in rows and name not in MADE_AGAIN
    }
    before = _rows(released, kept)
    assert (len(before["jobs"]), len(before["profiles"])) == (16, 56)
    upgrade(released)
    assert _rows(released, kept) == before
    runs = (
        "SELECT count(*), sum(CASE WHEN profiled THEN 1 ELSE 0 END) FROM jobs WHERE profiled = (start_seq IS NOT NULL)"
    )
    assert _sorted(released, runs) == [(16, 14)]
    assert _sorted(released, "SELECT sum(n) FROM job_counts") == [(16,)]


@pytest.mark.storage
def test_it_answers_the_same(released: Engine) -> None:
    """Reservations are computed differently since then, but never below a known insufficient amount; probabilities are
    corrected by the few jobs that have ended."""
    upgrade(released)
    with released.connect() as connection:
        assert all(AnswerReader(ForecastConfig()).answers(connection, list(ASKED))), "before it is rebuilt, too"
    rebuild_if_outdated(released, ForecastConfig())
    request, too_small = FAILED
    with released.connect() as connection:
        *found, failed = AnswerReader(ForecastConfig()).answers(connection, [*ASKED, request])
    assert {request: (answer.value, answer.n) for request, answer in zip(ASKED, found, strict=True)} == {
        request: (value if value is None else pytest.approx(value), n) for request, (value, _, n) in ASKED.items()
    }
    for answer, (_, probability, _) in zip(found, ASKED.values(), strict=True):
        assert answer.probability == pytest.approx(probability, abs=0.03)
    assert not_none(failed.bound) > too_small


@pytest.mark.storage
def test_a_job_that_ran_when_it_was_stopped_is_profiled_after_the_upgrade(released: Engine) -> None:
    """It is scored as of its submission, by today's model of the jobs before it."""
    upgrade(released)
    with released.begin() as connection:
        ended = "UPDATE jobs SET state = 'ended', \"end\" = start + 60, used_memory_bytes = 1342177280 "
        connection.execute(text(ended + "WHERE job_id = '15.s'"))
    rebuild_if_outdated(released, ForecastConfig())
    assert profile_finished(released, 0.0, lambda: 2e9) == 1
    query = select(profiles).join(jobs).where(jobs.c.job_id == "15.s")
    found = {row.metric: row for row in make.rows(released, query)}
    assert found["runtime"].value == 60.0
    assert found["memory"].value == 1342177280 / 8
    assert {metric: (row.forecast, row.bound) for metric, row in found.items()} == PENDING


@pytest.mark.storage
def test_savings_and_applications_are_those_of_the_stored_jobs(released: Engine) -> None:
    applications = "SELECT DISTINCT application FROM jobs WHERE application IS NOT NULL"
    counted = "SELECT DISTINCT application FROM savings_groups WHERE application <> ''"
    make.execute(released, "UPDATE jobs SET name = 'nf-bwa_(' || job_id || ')' WHERE name LIKE 'mesh%'")
    upgrade(released)
    assert count_marked(released) > 0
    assert _sorted(released, counted) == _sorted(released, applications) == [("bwa",), ("cfd",)]


def test_its_tokens_write_for_every_cluster_as_they_did(released: Engine) -> None:
    with released.begin() as connection:
        statement = "INSERT INTO tokens (name, role, digest, created) VALUES ('old', 'agent', :digest, 0)"
        connection.execute(text(statement), {"digest": digest_of("secret-of-0.3")})
    upgrade(released)
    found = TokenCache(released).authenticate("Bearer secret-of-0.3", ("agent",), 0.0)
    assert found.may_write("whatever", "n1")
    assert found.scope == "any cluster, any node"


@pytest.mark.parametrize("gone", ["fewest", {"name": "own", "sense": "min", "S": "1"}, None])
def test_objectives_that_are_gone_leave_the_default(released: Engine, gone: Any) -> None:
    chosen = json.dumps(["priority", gone] if gone else ["priority"])
    with released.begin() as connection:
        connection.execute(text("UPDATE matching_state SET objectives = :chosen"), {"chosen": chosen})
    upgrade(released)
    with released.connect() as connection:
        assert connection.scalar(text("SELECT objectives FROM matching_state")) == (None if gone else chosen)


def test_counts_of_a_route_that_is_gone_go_with_it(released: Engine) -> None:
    counted = "INSERT INTO event_counts (name, label, value) VALUES (:name, 'x', 3)"
    for name in ("requirement_outcomes", "requirement_feedback_rejected", "profiles_refused"):
        make.execute(released, text(counted), {"name": name})
    upgrade(released)
    names = {row.name for row in make.rows(released, "SELECT name FROM event_counts WHERE label = 'x'")}
    assert names == {"profiles_refused"}


def test_servers_that_start_together_upgrade_it_once(released: Engine, database_url: str) -> None:
    failed: list[Exception] = []

    def start() -> None:
        engine = open_engine(database_url)
        try:
            upgrade(engine)
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            failed.append(error)
        engine.dispose()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert present_version(released) == NEWEST


@pytest.mark.storage
def test_any_other_version_is_refused_with_what_to_do(released: Engine) -> None:
    for version in ("0003", "0032", "9999"):
        make.execute(released, "UPDATE alembic_version SET version_num = :version", {"version": version})
        with pytest.raises(DatabaseError, match=rf"schema version {version}; .*Start release 0\.3 once"):
            upgrade(released)
    assert make.rows(released, "SELECT count(*) FROM jobs") == [(16,)]


def test_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'other.db'}")
    make.execute(engine, "CREATE TABLE theirs (a INTEGER)")
    with pytest.raises(DatabaseError, match="tables of another program, such as 'theirs'"):
        upgrade(engine)
    assert inspect(engine).get_table_names() == ["theirs"]
    engine.dispose()


def _chunk(columns: SampleColumns) -> bytes:
    """The columns as release 0.3 packed them."""
    packed = []
    for name in NAMES:
        column = getattr(columns, name)
        known = ~np.isnan(column) if column.dtype == np.float64 else column != UNKNOWN
        values = column[known] * (1 if name in WHOLE or name == "memory_used_bytes" else 1e6)
        whole = np.rint(values).astype(np.int64)
        rises = np.diff(whole) << 1 ^ np.diff(whole) >> 63
        unknown = b"" if known.all() else zlib.compress(np.packbits(~known).tobytes())
        planes = zlib.compress(rises.view(np.uint8).reshape(-1, 8).T.tobytes())
        packed.append([False, len(column), unknown, int(whole[0]) if len(whole) else 0, 1, planes])
    return msgspec.msgpack.encode(packed)


@pytest.mark.storage
def test_readings_are_converted_and_go_on(released: Engine) -> None:
    """A node with rows, chunks, a shift that waits, a batch that is missing and a damaged one."""
    true = [0]
    rng = random.Random(4)
    for _ in range(3000):
        true.append(true[-1] + rng.randrange(10**9))
    every = range(0, 3000, 3)
    missing, damaged, shifted = 300, 1500, 2100
    at = [1_700_000_000.0 + 10.0 * i for i in range(3000)]
    card: dict[str, Any] = {"name": "eth0", "kind": "ethernet", "width_bits": 32, "speed_bps": 1e10}

    def total(i: int) -> int:
        return true[i] - 5000 * (i >= shifted)  # which is to be added yet

    def state(i: int) -> dict[str, Any]:
        raw = {"eth0": [true[i] % 2**32, 0, at[i]]}
        return {"boot_id": "x", "time": at[i], "net_in": total(i), "cpu": float(i), "raw_cpu": float(i), "raw": raw}

    def sent(number: int) -> Submission:
        part = slice(number, number + 3)
        counts = [value % 2**32 for value in true[part]]
        busy = [float(i) for i in range(number, number + 3)]
        made = Batch(
            format=1, cluster="alpha", node="old", boot_id="x", sequence=number // 3, cpus=4, time=at[part],
            interfaces=[BatchInterface(**card)], bytes_in=[counts], bytes_out=[[0] * 3], cpu_busy_s=busy,
            memory_used_bytes=list(range(number, number + 3)),
        )  # fmt: skip
        return Submission(made, number, at[2999])

    present = MetaData()
    present.reflect(released)
    tables = present.tables
    rows = [
        {"node_id": 50, "time": at[i], "net_in_bytes": total(i), "net_out_bytes": 0, "cpu_busy_s": float(i)}
        | {"memory_used_bytes": i, "gap_s": 0.0}
        for begin in every
        if begin != missing
        for i in range(begin, begin + 3)
    ]
    batches = [
        {"node_id": 50, "boot_id": "x", "sequence": i // 3, "checksum": i, "first_time": at[i], "last_time": at[i + 2]}
        | {"samples": 3, "received_at": at[i + 2]}
        | {"counters": json.dumps({"first": state(i), "last": state(i + 2), "interfaces": [card]})}
        for i in every
        if i not in (missing, 2997)
    ]
    next(one for one in batches if one["sequence"] == damaged // 3)["counters"] = "{}"
    of_node = {"cluster": "alpha", "name": "old", "boot_id": "x", "cpus": 4, "interfaces": "[]", "agent": "{}"}
    of_node |= {"first_time": at[0], "last_time": at[2996], "received_at": at[2996]}
    of_node["counters"] = json.dumps({**state(2996), "net_in": true[2996]})  # a shift is in it at once
    with released.begin() as connection:
        counts = dict.fromkeys(("samples", "wraps", "resets", "boots", "missing"), 0)
        connection.execute(tables["nodes"].insert().values(id=50, **of_node, **counts))
        connection.execute(tables["batches"].insert(), batches)
        packed = 900
        chunk = SampleColumns.of_rows([(*list(row.values())[1:], None, None) for row in rows[:packed]])
        values = {"node_id": 50, "first_time": at[0], "last_time": rows[packed - 1]["time"], "samples": packed}
        connection.execute(tables["sample_chunks"].insert().values(**values, packed=_chunk(chunk)))
        connection.execute(tables["samples"].insert(), [row for row in rows[packed:] if row["time"] <= at[2996]])
        moved = dict.fromkeys(("net_out_bytes", "cpu_busy_s", "gap_s"), 0)
        shift = {"node_id": 50, "since": at[shifted], "until": 1e18, "net_in_bytes": 5000, **moved}
        connection.execute(tables["shifts"].insert().values(shift))
    upgrade(released)

    def stored() -> list[tuple[Any, ...]]:
        with released.connect() as connection:
            return [row[:6] for row in read_samples(connection, 50, 0.0, 1e12).rows()]

    def expected(places: list[int]) -> list[tuple[Any, ...]]:
        return [(at[i], true[i], 0, float(i), float(i), 0.0) for i in places]

    known = [i for i in range(2997) if not missing <= i < missing + 3]
    assert [row[:5] for row in stored()] == [row[:5] for row in expected(known)]
    store = SampleStore(released, 1e10, 10**6)
    again = [store.apply([sent(number)])[0].status for number in (0, 1200, damaged, 2994)]
    assert again == ["duplicate"] * 4
    assert [store.apply([sent(number)])[0].status for number in (2997, missing)] == ["stored"] * 2
    found = stored()
    assert [row[:2] for row in found] == [(at[i], true[i]) for i in range(3000)]
    assert {row[5] for row in found} == {0.0}
