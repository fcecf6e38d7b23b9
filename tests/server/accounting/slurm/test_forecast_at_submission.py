"""The forecast that is scored is made at submission, although what ended while the job waited was learned since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.profiler.run import profile_finished
from jobsight_server.storage.schema import jobs, pending_forecasts, profiles

from .conftest import MIB, NOON

SMALL, LARGE = 100 * MIB, 800 * MIB


@pytest.fixture
def take_in(sqlite_engine: Engine, tmp_path: Path, newest: Any) -> Callable[..., None]:
    numbers = iter(range(100))

    def take(*records: dict[str, Any]) -> None:
        file = tmp_path / f"{next(numbers)}.json"
        file.write_bytes(newest.document(*records))
        import_files(sqlite_engine, [file], "lab", lambda: 1.8e9, "slurm")
        profile_finished(sqlite_engine, 0.0, lambda: 1.8e9)

    return take


def ended(release: Any, number: int, start: int, memory: int, submission: int | None = None) -> dict[str, Any]:
    step = release.step("batch", start, start + 100, memory, 1.0)
    times = {"submission": start - 10 if submission is None else submission, "start": start, "end": start + 100}
    found: dict[str, Any] = release.job(job_id=number, name="solver", steps=[step], **times)
    return found


def forecast_of(engine: Engine, job_id: str) -> float:
    columns = (profiles.c.forecast, jobs.c.processors)
    query = select(*columns).join(jobs, jobs.c.id == profiles.c.run_id)
    with engine.connect() as connection:
        row = connection.execute(query.where(jobs.c.job_id == job_id, profiles.c.metric == "memory")).one()
    return float(row.forecast) * row.processors


@pytest.mark.parametrize("seen_waiting", [True, False])
def test_what_is_learned_while_it_waits_does_not_count(
    sqlite_engine: Engine, take_in: Callable[..., None], newest: Any, seen_waiting: bool
) -> None:
    take_in(*(ended(newest, number, NOON + 200 * number, SMALL) for number in range(1, 7)))
    submitted = NOON + 2000
    nothing = {"start": 0, "end": 0, "nodes": "None assigned", "steps": [], "allocated": []}
    waits = newest.job(job_id=50, name="solver", submission=submitted, state=("PENDING",), **nothing)
    if seen_waiting:
        take_in(waits)
    for number in range(10, 40):
        take_in(ended(newest, number, submitted + 100 * number, LARGE))
    with sqlite_engine.connect() as connection:
        assert bool(connection.execute(select(pending_forecasts)).all()) == seen_waiting
    if seen_waiting:
        rebuild(sqlite_engine)  # keeps it
    take_in(ended(newest, 50, submitted + 9000, LARGE, submission=submitted))
    forecast = forecast_of(sqlite_engine, "50")
    assert forecast == pytest.approx(SMALL if seen_waiting else LARGE, rel=0.2)
    with sqlite_engine.connect() as connection:
        assert connection.execute(select(pending_forecasts)).all() == []
