"""``jobsight export``: other programs read the stored values from the files."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy import Engine, insert
from tests import make
from tests.make import Jobsight

from jobsight_server.ground.errors import UserError
from jobsight_server.storage.named_files import whole_file
from jobsight_server.storage.schema import jobs, profiles

DAY_S = 86400.0
BEGIN = 20_700 * DAY_S  # 2026-09-04


def test_an_unknown_cluster_is_named_and_nothing_written(
    sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight
) -> None:
    command = ["export", "jobs", str(tmp_path / "jobs.csv"), "--database", f"{sqlite_engine.url}"]
    assert "unknown cluster 'beta'; known: none" in jobsight(*command, "--cluster", "beta", status=1).err
    assert not (tmp_path / "jobs.csv").exists()


def test_without_pyarrow_it_says_what_to_install(
    sqlite_engine: Engine, tmp_path: Path, jobsight: Jobsight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as Python notes what it must not import
    refused = jobsight("export", "jobs", tmp_path / "jobs.parquet", on=sqlite_engine, status=1).err
    assert "pip install 'jobsight[parquet]'" in refused
    jobsight("export", "jobs", tmp_path / "jobs.csv", on=sqlite_engine)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"

    def interrupted() -> None:
        with whole_file(file) as place:
            place.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(file.parent.iterdir()) == []
    with whole_file(file) as place:
        place.write_text("all")
    with pytest.raises(UserError, match="No such file"), whole_file(tmp_path / "none" / "x.csv"):
        pass
    assert [path.read_text() for path in file.parent.iterdir()] == ["all"]


@pytest.mark.storage
def test_finished_jobs_with_requests_use_and_forecasts(engine: Engine, jobsight: Jobsight, tmp_path: Path) -> None:
    job = {"processors": 4, "name": "cfd", "exit_status": 0, "requested_walltime_s": 60.0}
    values = {"learn_seq": 1, "value": 5e8, "lower_bound": True, "forecast": 4e8, "bound": 7.5e8}
    rows = [make.job_row(str(n), id=n, start=BEGIN + n, end=BEGIN + n * 1000.5, **job) for n in range(1, 2501)]
    rows[6]["state"] = "requeued"
    with engine.begin() as connection:
        connection.execute(insert(jobs), rows)
        connection.execute(insert(profiles), [{**values, "run_id": n, "metric": "memory"} for n in (1, 2200)])
    for form in ("parquet", "csv"):
        file = tmp_path / f"jobs.{form}"
        jobsight("export", "jobs", file, on=engine)
        jobsight("export", "jobs", file, on=engine, status=1)
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
    assert by_id["1"]["used_more_than_memory_bytes_per_processor"] == "true"
    day = tmp_path / "day.csv"
    jobsight("export", "jobs", day, "--since", "2026-09-05T00:00Z", on=engine)
    assert len(day.read_text().splitlines()) == 1 + sum(row["end"] >= BEGIN + DAY_S for row in rows)
