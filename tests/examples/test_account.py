"""The demo's account of forecasts, bounds and memory, from a few jobs that can be worked out by hand."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sqlalchemy import Engine
from tests import make

from account import Row, forecasts_of_five, take_account
from account_tables import show
from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_server.savings.sums.add import count_again
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade


def row(learn_seq: int, value: float, forecast_seq: int, user: str = "a", **changes: Any) -> Row:
    values = {"cluster": "c", "seconds": 3600.0, "forecast": None, "bound": None, **changes}
    return Row(user=user, learn_seq=learn_seq, value=value, forecast_seq=forecast_seq, **values)


def test_the_five_know_only_what_had_been_learned_when_the_job_was_submitted() -> None:
    """The third job was submitted before the second had ended."""
    rows = [row(1, 100.0, 0), row(2, 200.0, 1), row(3, 400.0, 1), row(4, 300.0, 3, "b"), row(5, 50.0, 3)]
    found = forecasts_of_five(rows)
    assert list(found) == list(FIVE)
    np.testing.assert_equal(found["locality"], [np.nan, 100.0, 100.0, np.nan, 400.0])
    np.testing.assert_allclose(found["history"], [np.nan, 100.0, 100.0, np.nan, 700.0 / 3])
    for name in FIVE:
        forecaster = FORECASTERS[name]()
        for value in (100.0, 200.0, 400.0):
            forecaster.learn(value)
        assert found[name][4] == pytest.approx(forecaster.forecast())


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = open_engine(f"sqlite:///{tmp_path / 'jobsight.db'}")
    upgrade(engine)
    return engine


def finished(engine: Engine, number: int, user: str, forecast_seq: int, **given: Any) -> None:
    """A run of an hour, the ``number``-th that was learned, which used ``value`` of each metric."""
    run = {"id": number, "user": user, "start": 0.0, "end": 3600.0, "processors": 1, "forecast_seq": forecast_seq}
    run["requested_memory_bytes"] = given.pop("requested", None)
    used = {"memory": given, "runtime": given | {"shown_only": False}}  # a shared node says nothing of the run time
    with engine.begin() as connection:
        make.job(connection, f"{number}.s", cluster="c", used=used, **run)


def test_all_forecasters_are_scored_on_the_same_jobs(engine: Engine) -> None:
    finished(engine, 1, "a", 0, value=100.0)
    finished(engine, 2, "a", 1, value=200.0, forecast=150.0, bound=250.0, requested=400)
    finished(engine, 3, "a", 1, value=400.0, forecast=200.0, bound=300.0, requested=350)  # and ended well
    finished(engine, 4, "b", 3, value=300.0, forecast=300.0, bound=300.0, requested=400)
    with engine.begin() as connection:
        count_again(connection, [0])
    found = take_account(engine)
    assert found.compared["memory"] == 2  # the first of each user had no five, and the very first no forecast at all
    assert found.first["memory"] == 1
    scores = found.scores["memory"]
    assert scores["Jobsight"].accuracy == pytest.approx((0.75 + 0.5) / 2)
    assert scores["locality"].accuracy == pytest.approx((0.5 + 0.25) / 2)
    assert {score.within20 for score in scores.values()} == {0.0}
    fit = found.fits["memory"]
    assert (fit.jobs, fit.by_jobs) == (3, pytest.approx(2 / 3))
    assert fit.weighted == pytest.approx((200 + 300) / (200 + 400 + 300))
    assert "bandwidth" not in found.scores
    console = Console(width=80, record=True, file=io.StringIO())
    show(found, console)
    lines = console.export_text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    (ours,) = [line.split() for line in lines if "Jobsight  " in line]
    assert ours == ["Jobsight", "0.62", "(0", "%)", "0.62", "(0", "%)"]
    need_more = [line.split()[-2] for line in lines if line.startswith(("  requested by users", "  recommended"))]
    assert need_more == ["1", "1"]
