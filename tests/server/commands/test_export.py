"""``jobsight export``: what is in the files is what is in the database."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from sqlalchemy import Engine, insert

from jobsight_server.cli import main
from jobsight_server.ingest.packing import pack_samples
from jobsight_server.storage import schema
from jobsight_server.storage.sample_columns import MASK, NAMES, UNKNOWN, SampleColumns
from jobsight_server.storage.samples import read_samples

DAY_S, BEGIN = 86400.0, 1_793_491_200.0  # 2026-11-01


def some_site(engine: Engine) -> None:
    """Three nodes of two clusters over two and a half days; of the first, most readings are packed."""
    rng = random.Random(3)
    with engine.begin() as connection:
        for number, (cluster, name) in enumerate((("alpha", "n1"), ("alpha", "n2"), ("b/c=d", "n1")), 1):
            node = {"id": number, "cluster": cluster, "name": name, "first_time": BEGIN, "last_time": BEGIN}
            connection.execute(insert(schema.nodes).values(**_needed(node)))
            rows = [
                {
                    "node_id": number, "time": BEGIN + 60.25 * i, "net_in_bytes": rng.choice((None, MASK - i)),
                    "net_out_bytes": i, "cpu_busy_s": rng.choice((None, i / 4)), "gap_s": 0.5 * (i // 100),
                    "memory_used_bytes": rng.choice((None, 2**33 + i)), "ib_in_bytes": None, "ib_out_bytes": None,
                }
                for i in range(3585)
            ]  # fmt: skip
            connection.execute(insert(schema.samples), rows)
        while pack_samples(connection, 1):
            pass


def _needed(values: dict[str, Any]) -> dict[str, Any]:
    """``values``, and something for columns that must not be empty."""
    kinds = {str: "x", int: 0, float: 0.0, bool: False, bytes: b""}
    for column in schema.nodes.columns:
        if not column.nullable and column.server_default is None and column.default is None:
            values.setdefault(column.name, kinds.get(column.type.python_type, 0))
    return values


def read(file: Path) -> dict[str, SampleColumns]:
    """The readings of each node in ``file``."""
    frame = pyarrow.parquet.read_table(file, partitioning=None).to_pandas(integer_object_nulls=True)
    return {
        str(node): SampleColumns(*(_as_stored(name, of_node[name]) for name in NAMES))
        for node, of_node in frame.groupby("node")
    }


def _as_stored(name: str, values: Any) -> Any:
    if name == "time":
        return values.astype("int64").to_numpy() / 1e6
    if name == "memory_used_bytes":
        return np.array([np.nan if value is None else value for value in values], dtype=float)
    if name.endswith("_bytes"):
        return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)
    return values.to_numpy(dtype=float)


def test_the_files_hold_what_the_database_holds(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some_site(sqlite_engine)
    url = f"sqlite:///{sqlite_engine.url.database}"
    assert main(["export", "samples", "--parquet", str(tmp_path / "out"), "--database", url]) == 0
    files = sorted(str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.parquet"))
    days = ("2026-11-01", "2026-11-02", "2026-11-03")
    clusters = ("cluster=alpha", "cluster=b%2Fc%3Dd")
    assert files == [f"{cluster}/day={day}/samples.parquet" for cluster in clusters for day in days]
    assert f"{3 * 3585:,} readings in 6 files\n" in capsys.readouterr().out
    with sqlite_engine.connect() as connection:
        for cluster, nodes in (("cluster=alpha", {"n1": 1, "n2": 2}), ("cluster=b%2Fc%3Dd", {"n1": 3})):
            for number, day in enumerate(days):
                found = read(tmp_path / "out" / cluster / f"day={day}" / "samples.parquet")
                assert set(found) == set(nodes)
                for name, node_id in nodes.items():
                    begin = BEGIN + number * DAY_S
                    expected = read_samples(connection, node_id, begin, begin + DAY_S - 1e-6)
                    for column in NAMES:
                        np.testing.assert_allclose(
                            getattr(found[name], column), getattr(expected, column), rtol=0, atol=1e-6, err_msg=column
                        )


def test_some_nodes_and_days_and_what_is_there_already(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some_site(sqlite_engine)
    url = f"sqlite:///{sqlite_engine.url.database}"
    common = ["export", "samples", "--parquet", str(tmp_path / "out"), "--database", url]
    one = [*common, "--cluster", "alpha", "--node", "*2", "--since", "2026-11-02", "--until", "2026-11-02"]
    assert main(one) == 0
    (file,) = (tmp_path / "out").rglob("*.parquet")
    assert file.parent.name == "day=2026-11-02"
    assert set(read(file)) == {"n2"}
    before = file.read_bytes()
    capsys.readouterr()
    assert main(common) == 0
    assert "in 5 files; 1 files were there already" in capsys.readouterr().out
    assert file.read_bytes() == before
    assert not [left for left in (tmp_path / "out").rglob("*") if left.name.endswith("unfinished")]


def test_a_wrong_question_is_refused(sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{sqlite_engine.url.database}"
    common = ["export", "samples", "--parquet", str(tmp_path / "out"), "--database", url]
    assert main(common) == 1
    assert "no agent has sent readings of any node" in capsys.readouterr().err
    some_site(sqlite_engine)
    assert main([*common, "--cluster", "gamma", "--node", "x*"]) == 1
    assert "no agent has sent readings of cluster 'gamma' node 'x*'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*common, "--since", "2026-13-01"])
    assert "2026-13-01" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main([*common[:3], str(tmp_path / "file"), *common[4:]]) == 1
    assert "choose another --parquet" in capsys.readouterr().err
