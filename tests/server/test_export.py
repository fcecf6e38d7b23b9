"""``jobsight export``: what other programs read from the files is what is stored."""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
import pytest
from sqlalchemy import Engine, insert

from jobsight_server import cli
from jobsight_server.command_line.parquet import whole_file
from jobsight_server.errors import UserError
from jobsight_server.ingest.packing import pack_samples
from jobsight_server.ingest.shifts import Amounts, Shift, write_shifts
from jobsight_server.queries.exported_readings import READING_COLUMNS
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.sample_columns import MODULUS, NAMES
from jobsight_server.storage.schema import jobs, nodes, profiles

Row = tuple[Any, ...]
DAY_S = 86400.0
BEGIN = 20_700 * DAY_S  # 2026-09-04
_INSERT = "INSERT INTO samples (node_id, {}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)".format(", ".join(NAMES))
_RISES = ("received_bytes", "sent_bytes", "cpu_busy_s", None, "gap_s", "infiniband_received_bytes")


def add_node(engine: Engine, number: int, cluster: str, name: str) -> None:
    row = dict.fromkeys(("boot_id", "interfaces", "counters", "agent"), "")
    row |= dict.fromkeys(("first_time", "last_time", "received_at"), 0.0)
    row |= dict.fromkeys(("samples", "wraps", "resets", "boots", "missing"), 0)
    with engine.begin() as connection:
        connection.execute(insert(nodes), {**row, "id": number, "cluster": cluster, "name": name, "cpus": 16})


def random_readings(rng: random.Random, days: float) -> list[Row]:
    """Readings whose totals pass the modulus, lack one at times, and rise across silence with a gap."""
    time, received, gap, rows = BEGIN + 1000.25 * rng.random(), MODULUS - 10**12, 0.0, []
    while time < BEGIN + days * DAY_S:
        received += rng.randrange(10**9)
        silence = 4000.0 if rng.random() < 0.01 else 0.0
        gap += silence / 2
        time = round(time + 60.0 + silence + rng.random(), 6)
        out = None if rng.random() < 0.1 else (received // 3) % MODULUS
        memory = None if rng.random() < 0.2 else rng.randrange(2**38)
        rows.append((time, received % MODULUS, out, round(time - BEGIN, 2), memory, gap, None, 7))
    return rows


def store(engine: Engine, node_id: int, rows: list[Row], late: set[int]) -> None:
    with engine.begin() as connection:
        early = [(node_id, *row) for number, row in enumerate(rows) if number not in late]
        write_many(connection, _INSERT, early)
        while pack_samples(connection, node_id):
            pass
        write_many(connection, _INSERT, [(node_id, *rows[number]) for number in late])


def expected_rows(name: str, rows: list[Row]) -> list[dict[str, Any]]:
    """From the full list, one after the other."""
    found = []
    for before, row in zip([None, *rows], rows, strict=False):
        one: dict[str, Any] = {"time": pd.Timestamp(round(row[0] * 1e6), unit="us", tz="UTC"), "node": name}
        one["interval_s"] = None if before is None else row[0] - before[0]
        for number, column in enumerate(_RISES, 1):
            if column is not None:
                known = before is not None and row[number] is not None and before[number] is not None
                rise = (row[number] - before[number]) if known and before else None
                one[column] = rise % MODULUS if isinstance(rise, int) else rise
        one["memory_used_bytes"] = row[4]
        found.append(one)
    return found


def read(place: Path) -> pd.DataFrame:
    table = ds.dataset(place, format="parquet", partitioning="hive").to_table()
    frame: pd.DataFrame = table.to_pandas(types_mapper={table.schema.field("sent_bytes").type: pd.Int64Dtype()}.get)
    return frame


@pytest.mark.storage
def test_files_hold_all_readings_and_what_totals_rose_by(
    engine: Engine, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, out, expected = random.Random(3), tmp_path / "out", []
    for number, (cluster, name) in enumerate((("alpha", "n1"), ("alpha", "n2"), ("b/ta", "x")), 1):
        add_node(engine, number, cluster, name)
        rows = random_readings(rng, 2.6)
        store(engine, number, rows, set(rng.sample(range(len(rows)), len(rows) // 10)))
        if name == "n2":  # a late batch revealed a wrap, in the middle of a day and of a chunk
            since = BEGIN + 1.4 * DAY_S
            with engine.begin() as connection:
                write_shifts(connection, number, [Shift(since, 1e18, Amounts(net_in=2**32, cpu=5.0, gap=3.0))])
            rows = [
                (t, (i + 2**32) % MODULUS, o, c + 5.0, m, g + 3.0, *rest) if t >= since else (t, i, o, c, m, g, *rest)
                for t, i, o, c, m, g, *rest in rows
            ]
        expected += [{**one, "cluster": cluster.replace("/", "%2F")} for one in expected_rows(name, rows)]
    command = ["export", "samples", "--parquet", str(out), "--database", database_url]
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith(f"{len(expected):,} readings of 3 nodes in 6 files")
    paths = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert paths[0] == "cluster=alpha/day=2026-09-04/readings.parquet"
    assert len(paths) == 6
    one_file = ds.dataset(out / paths[0], format="parquet")
    assert one_file.schema.names == list(READING_COLUMNS)

    found = read(out).sort_values(["node", "time"], ignore_index=True)
    wanted = pd.DataFrame(expected).sort_values(["node", "time"], ignore_index=True)
    assert found["time"].tolist() == wanted["time"].tolist()
    assert found["node"].tolist() == wanted["node"].tolist()
    assert (found["node_cpus"] == 16).all()
    assert found["infiniband_received_bytes"].isna().all()
    assert found["infiniband_sent_bytes"].dropna().eq(0).all()
    assert (found["time"].dt.date.astype(str) == found["day"].astype(str)).all()
    for name in ("received_bytes", "sent_bytes", "memory_used_bytes"):
        assert found[name].tolist() == wanted[name].astype("Int64").tolist(), name
    for name in ("interval_s", "gap_s", "cpu_busy_s"):
        pd.testing.assert_series_equal(found[name], wanted[name], check_dtype=False, rtol=0, atol=3e-6)


def test_existing_files_are_replaced_only_if_asked_for(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_node(sqlite_engine, 1, "alpha", "n1")
    add_node(sqlite_engine, 2, "alpha", "m1")
    for node in (1, 2):
        store(sqlite_engine, node, random_readings(random.Random(node), 2.0), set())
    out = tmp_path / "out"
    command = ["export", "samples", "--parquet", str(out), "--database", f"{sqlite_engine.url}"]
    assert cli.main([*command, "--node", "m*", "--until", "2026-09-04"]) == 0
    (file,) = out.rglob("*.parquet")
    assert set(read(out)["node"]) == {"m1"}
    before = file.read_bytes()
    capsys.readouterr()
    assert cli.main(command) == 1
    assert f"{file} exists" in capsys.readouterr().err
    assert list(out.rglob("*.parquet")) == [file]
    assert cli.main([*command, "--keep"]) == 0
    assert "1 were there and are left as they were" in capsys.readouterr().out
    assert file.read_bytes() == before
    assert cli.main([*command, "--replace"]) == 0
    assert set(read(file.parent)["node"]) == {"m1", "n1"}
    assert {path.name for path in out.rglob("*") if path.is_file()} == {"readings.parquet"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster", "beta"], "unknown cluster 'beta'; known: alpha"),
        (["--node", "z*"], "no node with readings matches 'z*'"),
        (["--since", "2026-09-05", "--until", "2026-09-04"], "--since must not be after --until"),
    ],
)
def test_what_cannot_be_exported_is_said(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    add_node(sqlite_engine, 1, "alpha", "n1")
    command = ["export", "samples", "--parquet", str(tmp_path / "out"), "--database", f"{sqlite_engine.url}"]
    assert cli.main([*command, *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_pyarrow_it_says_what_to_install(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as Python notes what it must not import
    for arguments in (["samples", "--parquet", str(tmp_path / "out")], ["jobs", str(tmp_path / "jobs.parquet")]):
        assert cli.main(["export", *arguments, "--database", f"{sqlite_engine.url}"]) == 1
        assert "pip install 'jobsight[parquet]'" in capsys.readouterr().err
    assert cli.main(["export", "jobs", str(tmp_path / "jobs.csv"), "--database", f"{sqlite_engine.url}"]) == 0


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a" / "jobs.csv"

    def interrupted() -> None:
        with whole_file(file, replace=False) as place:
            place.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(file.parent.iterdir()) == []
    with whole_file(file, replace=False) as place:
        place.write_text("all")
    with pytest.raises(UserError, match="exists"), whole_file(file, replace=False) as place:
        place.write_text("other")  # another process has written it meanwhile
    assert [path.read_text() for path in file.parent.iterdir()] == ["all"]


@pytest.mark.storage
def test_finished_jobs_with_requests_use_and_forecasts(engine: Engine, database_url: str, tmp_path: Path) -> None:
    job = {"cluster": "alpha", "state": "ended", "profiled": True, "recorded_at": 0.0, "user": "ada", "processors": 4}
    job |= {"name": "cfd", "exit_status": 0}
    values = {"learn_seq": 1, "value": 5e8, "lower_bound": True, "forecast": 4e8, "bound": 7.5e8}
    rows = [
        {**job, "id": n, "job_id": str(n), "start": BEGIN + n, "end": BEGIN + n * 1000.5, "requested_walltime_s": 60.0}
        for n in range(1, 2501)
    ]
    rows[6]["state"] = "requeued"
    rows[8] |= {"user": "=1+1", "name": "@SUM(A1)", "exit_status": -9}
    with engine.begin() as connection:
        connection.execute(insert(jobs), rows)
        connection.execute(insert(profiles), [{**values, "run_id": n, "metric": "memory"} for n in (1, 2200)])
    for form in ("parquet", "csv"):
        file = tmp_path / f"jobs.{form}"
        assert cli.main(["export", "jobs", str(file), "--database", database_url]) == 0
        assert cli.main(["export", "jobs", str(file), "--database", database_url]) == 1
    frame = pd.read_parquet(tmp_path / "jobs.parquet").set_index("job_id")
    assert len(frame) == 2499
    one = frame.loc["2200"]
    assert (one["user"], one["processors"], one["requested_walltime_s"]) == ("ada", 4, 60.0)
    assert one["end"] == pd.Timestamp(BEGIN + 2200 * 1000.5, unit="s", tz="UTC")
    found = [one[f"{part}_memory_bytes_per_processor"] for part in ("used", "used_more_than", "forecast", "reserve")]
    assert found == [5e8, True, 4e8, 7.5e8]
    assert pd.isna(frame.loc["2", "used_memory_bytes_per_processor"])
    with (tmp_path / "jobs.csv").open(newline="") as text:
        by_id = {row["job_id"]: row for row in csv.DictReader(text)}
    assert len(by_id) == 2499
    assert (by_id["2"]["end"], by_id["2"]["used_runtime_s"]) == ("2026-09-04T00:33:21Z", "")
    safe = next(row for row in by_id.values() if row["user"] == "'=1+1")
    assert (safe["name"], safe["exit_status"]) == ("'@SUM(A1)", "-9")
    assert by_id["1"]["used_more_than_memory_bytes_per_processor"] == "true"
    day = tmp_path / "day.csv"
    assert cli.main(["export", "jobs", str(day), "--since", "2026-09-05", "--database", database_url]) == 0
    assert len(day.read_text().splitlines()) == 1 + sum(row["end"] >= BEGIN + DAY_S for row in rows)
