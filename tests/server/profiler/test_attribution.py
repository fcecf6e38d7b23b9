"""Values that are shown but not learned: apportioned on shared nodes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.make import not_none

from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.forecasts.history import history
from jobsight_server.forecasts.workload import jobs_of_database
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.learning.finished import profile_finished
from jobsight_server.queries.job_detail import job_detail
from jobsight_server.storage.clusters import Part

GIB = 2**30


def shared_site(site: Any) -> tuple[int, int]:
    """A job that moves 1000 B/s and a silent one on one node, then one alone; returns the silent and the lone run."""
    rows = [(float(t), 1000 * t, 0, 2.0 * t, (2 if 60 < t < 660 else 1) * GIB, 0.0) for t in range(-60, 2401, 60)]
    site.node("n1", rows)
    site.run("1.s", 60, 660, {"n1": 1}, user="loud", submitted=0.0)
    silent = site.run("2.s", 60, 660, {"n1": 1}, user="silent", submitted=0.0)
    alone = site.run("3.s", 1200, 1800, {"n1": 1}, user="silent", submitted=1100.0)
    return silent, alone


@pytest.mark.storage
def test_apportioned_values_are_shown_with_their_label_and_not_learned(site: Any) -> None:
    silent, alone = shared_site(site)
    assert profile_finished(site.engine, 0.0, lambda: 1e9) == 3
    found = site.profile(silent)
    assert found["bandwidth"].value == pytest.approx(500 * 8)
    assert found["memory"].value == pytest.approx(GIB / 2)
    assert [found[metric].attribution for metric in ("bandwidth", "memory", "cpu")] == ["apportioned"] * 3
    assert [found[metric].shown_only for metric in ("bandwidth", "memory", "cpu", "runtime")] == [True] * 3 + [False]
    assert site.profile(alone)["bandwidth"].shown_only is False
    assert site.learned_counts() == {
        ("loud", "runtime"): 1,
        ("silent", "runtime"): 2,
        **{("silent", metric): 1 for metric in ("bandwidth", "memory", "cpu")},
    }
    with site.engine.connect() as connection:
        given = history(connection, "alpha", "silent", 10)["bandwidth"]
        counts = read_event_counts(connection)
        workload = jobs_of_database(connection, "bandwidth", Part(), "site")
        detail = job_detail(connection, AnswerReader(ForecastConfig()), "alpha", "2.s", 1e9)
    assert (given.n, given.job_id, given.shown_only, given.lower_bounds) == (1, ["3.s"], 1, 0)
    assert counts["profiles_shown_only", "bandwidth: apportioned"] == 2
    assert workload.skipped == {"bandwidth value is apportioned: shown, not learned": 2}
    entry = next(one for one in not_none(detail).runs[0].profile if one.metric == "bandwidth")
    assert (entry.value, entry.attribution, entry.learned) == (pytest.approx(4000), "apportioned", False)
