"""Forecasts are as accurate as docs/use/accuracy.json records; `make accuracy` writes it on the whole traces."""

from __future__ import annotations

import json

import pytest
from benchmarks.recorded_accuracy import FOLDER, QUICK, TRACES, figures, moved, read, workload
from tests import traces

from jobsight_predictor.evaluation.backtest import run_backtest


@pytest.mark.parametrize(("trace", "metric"), QUICK)
def test_accuracy_is_as_recorded(trace: str, metric: str) -> None:
    if trace in TRACES:
        traces.trace(TRACES[trace])  # or skip
    found = figures(run_backtest(workload(FOLDER, trace, metric)))
    assert not moved(f"{trace} {metric}", found), "a change that moves a figure says so: run `make accuracy`"


def test_a_figure_that_moves_is_named() -> None:
    recorded = json.loads(json.dumps(read()["small memory"]))
    assert moved("small memory", recorded) == []
    recorded["held"]["jobsight"] -= 0.003
    (line,) = moved("small memory", recorded)
    assert line.startswith("small memory, held of jobsight: ")
