"""A database of release 0.1, which learned memory as a time average, is brought up to the peak."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import delete, event, select, text

from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest, rebuild
from jobsight_server.forecasts.request import job_question
from jobsight_server.profiler.run import measure_again, profile_finished
from jobsight_server.queries.rejected import rejected_data
from jobsight_server.storage.event_counts import read_event_counts
from jobsight_server.storage.migrate import alembic_config
from jobsight_server.storage.schema import model_state, pending_forecasts, profiles, remeasure, series

MIB = 2**20
MEAN = 431 * MIB


def migrate(site: Any) -> None:
    """The step of the migration from 0.1 that concerns memory."""
    step = ScriptDirectory.from_config(alembic_config()).get_revision("0032").module
    with site.engine.begin() as connection:
        step.forget_averages(connection)
        connection.execute(delete(model_state))
        connection.execute(delete(pending_forecasts))


def of_release_01(site: Any) -> dict[str, int]:
    """A database with its tables and content: memory learned as a time average where it comes from samples.

    Of the run ``there`` the samples are still there, of ``gone`` no more; ``logged`` has its peak from the log.
    """
    ramp = [(float(t), 0, 0, 0.0, (500 + (max(0, min(807, (t - 600) * 807 // 840)) if t < 1500 else 0)) * MIB, 0.0)
            for t in range(0, 2101, 60)]  # fmt: skip
    site.node("n1", ramp)
    site.node("n2", [])
    runs = {
        "there": site.run("1.s", 600, 1500, {"n1": 1}, submitted=0.0),
        "gone": site.run("2.s", 600, 1510, {"n2": 1}, submitted=0.0),
        "logged": site.run("3.s", 700, 1520, {"n2": 1}, submitted=1.0, used_memory_bytes=900 * MIB),
        "running": site.run("4.s", 1530, None, {"n2": 1}, submitted=1505.0),
    }
    profile_finished(site.engine, 0.0, lambda: 1e9)
    learned_as = text(
        "UPDATE profiles SET value = :value, peak = :value, source = 'samples', attribution = 'exclusive', "
        "reason = NULL WHERE run_id = :run AND metric = 'memory'"
    )
    with site.engine.begin() as connection:
        for name in ("there", "gone"):
            connection.execute(learned_as, {"value": float(MEAN), "run": runs[name]})
    return runs


def model(site: Any) -> list[Any]:
    return [site.dump(table) for table in (series, model_state, pending_forecasts)]


def asked(site: Any, metric: str) -> Any:
    with site.engine.connect() as connection:
        request = ForecastRequest("alpha", job_question("u1"), metric)
        return AnswerReader(site.engine, ForecastConfig()).answers(connection, [request])[0].value


def test_time_averages_are_measured_again_or_dropped_and_the_model_is_retrained(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runs = of_release_01(site)
    migrate(site)
    # Until it is measured again no answer rests on an average.
    assert {row[0] for row in site.dump(remeasure)} == {runs["there"], runs["gone"]}
    assert site.profile(runs["there"])["memory"].value is None
    assert "time average" in site.profile(runs["there"])["memory"].reason
    assert asked(site, "memory") is None
    positions = {row[:3] for row in site.dump(profiles)}

    with caplog.at_level("INFO"):
        assert profile_finished(site.engine, 0.0, lambda: 1e9) == 0
    there, gone, logged = (site.profile(runs[name])["memory"] for name in ("there", "gone", "logged"))
    assert (there.value, there.source, there.reason) == (pytest.approx(807 * MIB), "samples", None)
    assert there.mean == pytest.approx(MEAN, rel=0.02)
    assert (gone.value, gone.mean) == (None, None)
    assert gone.reason == "dropped: release 0.1 learned its time average, and the peak is not known: no samples of n2"
    assert (logged.value, logged.source) == (900 * MIB, "accounting")
    assert {row[:3] for row in site.dump(profiles)} == positions
    assert {row[2]: row[3] for row in site.dump(series)}["memory"] == 2
    assert asked(site, "memory") > MEAN
    assert {(row[0], row[1]) for row in site.dump(pending_forecasts)} >= {(runs["running"], "memory")}
    assert site.dump(remeasure) == []

    with site.engine.connect() as connection:
        counts = read_event_counts(connection)
        shown = [(row.name, row.label, row.value) for row in rejected_data(connection).rejected]
    label = "memory: dropped: release 0.1 learned its time average, and the peak is not known: no samples of a node"
    assert counts["profiles_remeasured", "memory"] == 1
    assert ("profiles_dropped", label, 1) in shown
    assert "measured 1 again, dropped 1" in caplog.text
    assert "retraining on all finished jobs" in caplog.text

    learned = model(site)
    caplog.clear()
    assert profile_finished(site.engine, 0.0, lambda: 1e9) == 0
    rebuild(site.engine)
    assert model(site) == learned
    assert "dropped" not in caplog.text


def test_what_is_interrupted_goes_on(site: Any) -> None:
    runs = of_release_01(site)
    migrate(site)
    steps = 0

    def fail(_connection: Any, _cursor: Any, statement: str, *_rest: object) -> None:
        nonlocal steps
        steps += statement.startswith("INSERT INTO event_counts")
        if steps == 2:
            raise RuntimeError("the disk is full")

    event.listen(site.engine, "before_cursor_execute", fail)
    with pytest.raises(RuntimeError, match="disk is full"):
        measure_again(site.engine, ForecastConfig(), limit=1)
    event.remove(site.engine, "before_cursor_execute", fail)
    assert [row[0] for row in site.dump(remeasure)] == [runs["gone"]]
    # Learned in between, as by an import: the rest is measured all the same, and learned then.
    rebuild(site.engine)
    assert profile_finished(site.engine, 0.0, lambda: 1e9) == 0
    assert site.dump(remeasure) == []
    with site.engine.connect() as connection:
        assert connection.scalar(select(series.c.n).where(series.c.metric == "memory")) == 2
