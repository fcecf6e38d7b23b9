"""Asking for forecasts and looking back, through the tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import pytest
from msgspec import to_builtins
from sqlalchemy import Engine, delete, insert, update
from tests import make
from tests.make import Jobsight

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS, metrics_of
from jobsight_predictor.profile import Profile
from jobsight_predictor.question import Question
from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest, Prediction
from jobsight_server.forecasts.history import history
from jobsight_server.forecasts.last_runs import last_runs
from jobsight_server.forecasts.request import job_question
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.forecasts.stored_model import StateKey
from jobsight_server.ground.amounts import size_text
from jobsight_server.storage.schema import jobs, model_state

STEPS = [200.0, 200.0, 800.0, 800.0, 800.0, 800.0, 800.0, 800.0]


def fill(engine: Engine, user: str, values: list[float], metric: str = "bandwidth", cluster: str = "alpha") -> None:
    """Runs of one user with these values, learned."""
    with engine.begin() as connection:
        for number, value in enumerate(values):
            row = {"cluster": cluster, "user": user, "start": 0.0, "end": 1000.0 + number, "recorded_at": 0.0}
            used = {metric: {"value": value, "learn_seq": number + 1}}
            make.job(connection, f"{user}-{metric}-{number}", used=used, **row)
    rebuild(engine)


def answers(
    engine: Engine, requests: Sequence[ForecastRequest], reader: AnswerReader | None = None
) -> list[Prediction]:
    with engine.connect() as connection:
        return (reader or AnswerReader(ForecastConfig())).answers(connection, requests)


def test_an_answer_carries_all_five(engine: Engine) -> None:
    fill(engine, "u", STEPS)
    (found,) = answers(engine, [ForecastRequest("alpha", job_question("u"), "bandwidth")])
    answer = to_builtins(found)
    forecasts = answer.pop("forecasts")
    assert forecasts == {
        "history": pytest.approx(650),
        "sliding-window": 800,
        # Bins of 60 over [200, 800]: two values of 200 in the first, six of 800 in the last.
        "weighted": pytest.approx((2 * 400 + 6 * 4800) / (4 + 36)),
        "locality": 800,
        # Brown's line says 846.875, beyond every value seen.
        "exponential": 800,
    }
    accuracy = answer.pop("accuracy")
    assert set(accuracy) == set(FIVE)
    # Wrong once in seven: 200 forecast where 800 came.
    assert accuracy["locality"] == pytest.approx((6 + 0.25) / 7)
    # The same profile, learned in memory.
    expected = Profile(METRICS["bandwidth"].unit, metric="bandwidth")
    for i, value in enumerate(STEPS):
        expected.learn(Question(user="u"), value, seconds=1000.0 + i)
    given = asdict(expected.answer(Question(user="u")))
    assert given["bound"] >= 800
    mean_error = answer.pop("mean_error")
    # Nothing was forecast for the first job; the jump missed by three quarters. The answers waited for a second 800.
    assert mean_error == {
        "jobs": 8,
        "answered": pytest.approx(2.5 / 8),
        "best": pytest.approx(1.75 / 8),
        "best_candidate": "locality by user",
    }
    assert answer == {
        **given,
        "cluster": "alpha",
        "user": "u",
        "metric": "bandwidth",
        "per": "processor",
        "similar": None,
        "unit": METRICS["bandwidth"].unit,
        "value": 800,
        "level": "user",
        "n": 8,
        "last_values": tuple(STEPS[-5:]),
        "user_jobs": 8,
        "pqm": 2 / 8,
        "recent_pqm": 6 / 8,
        "updated": 1007.0,
        "reason": None,
    }


@pytest.mark.storage
def test_a_reader_that_keeps_the_model_answers_as_one_that_reads_it(engine: Engine) -> None:
    users = [f"u{number}" for number in range(3)]
    asked = [ForecastRequest("alpha", job_question(user, "a"), "memory") for user in users]
    keeps = AnswerReader(ForecastConfig())
    for round_ in range(3):
        fill(engine, users[round_], [100.0 * 3**round_] * 5, "memory")
        for request in asked * 2:
            assert answers(engine, [request], keeps) == answers(engine, [request])
    with engine.begin() as connection:  # as parts that have expired
        keys = [key for key in ForecastConfig().profile("memory").state_keys(asked[2].question) if '"u2"' in key]
        expired = [StateKey("alpha", "memory", key).id for key in keys]
        connection.execute(delete(model_state).where(model_state.c.id.in_(expired)))
    assert answers(engine, asked, keeps) == answers(engine, asked)
    assert answers(engine, asked[2:], keeps)[0].level == "site"


def test_a_reader_drops_the_parts_that_it_used_least_lately(sqlite_engine: Engine) -> None:
    users = [f"u{number}" for number in range(30)]
    for number, user in enumerate(users):
        fill(sqlite_engine, user, [100.0 * (number + 1)] * 3, "memory")
    few, many = AnswerReader(ForecastConfig(), parts_kept=40), AnswerReader(ForecastConfig())
    sent = make.queries_sent(sqlite_engine)
    for user in [*users, *reversed(users), *users[::7]]:
        request = [ForecastRequest("alpha", job_question(user, "a"), "memory")]
        assert answers(sqlite_engine, request, few) == answers(sqlite_engine, request, many)
    assert sent
    kept = [len(of.parts) for reader in (few, many) for model in reader._kept for of in model.profiles.values()]
    assert kept[0] <= 40 < kept[1]
    assert any(f'"{users[28]}"' in part for model in few._kept for of in model.profiles.values() for part in of.parts)


@pytest.mark.storage
def test_last_runs_of_an_application_are_found_beside_any_number_of_others(engine: Engine) -> None:
    run = {"cluster": "alpha", "start": 0.0, "state": "ended", "user": "u", "recorded_at": 0.0, "profiled": True}
    with engine.begin() as connection:
        rows = [run | {"job_id": f"{n}", "end": n // 3, "application": "b" if n else "a"} for n in range(390)]
        connection.execute(insert(jobs), rows)
        assert [found.job_id for found in last_runs(connection, "alpha", "u", "a")] == ["0"]
        for name in ("b", None):
            found = last_runs(connection, "alpha", "u", name)
            assert [one.job_id for one in found] == [f"{n}" for n in range(389, 189, -1)]
        assert last_runs(connection, "alpha", "u", "c") == []


def test_an_unknown_user_has_no_history(engine: Engine) -> None:
    found = answers(engine, [ForecastRequest("alpha", job_question("'; DROP TABLE series; --"))])
    assert [answer.metric for answer in found] == list(metrics_of(gpus=False))
    for answer in found:
        assert (answer.value, answer.n, answer.updated) == (None, 0, None)
        assert (answer.reason or "").startswith("no history")
        assert answer.forecasts == dict.fromkeys(FIVE)


def test_questions_are_looked_up_by_key(sqlite_engine: Engine) -> None:
    """Not by reading the whole table, however many are asked at once."""
    statements = make.queries_sent(sqlite_engine)
    answers(sqlite_engine, [ForecastRequest("alpha", job_question(f"u{i}")) for i in range(50)])
    with sqlite_engine.connect() as connection:
        asked = [statement for statement in statements if statement.startswith("WITH asked")]
        plans = [row[3] for each in asked for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {each}")]
    assert any(line.startswith("SEARCH found USING") for line in plans)
    assert not any(line.startswith("SCAN found") for line in plans)


def test_history_says_what_was_forecast_before(engine: Engine) -> None:
    fill(engine, "u", STEPS)
    with engine.connect() as connection:
        whole, tail, without, nobody = (
            history(connection, "alpha", user, limit, with_five=five)["bandwidth"]
            for user, limit, five in (("u", 100, True), ("u", 3, True), ("u", 3, False), ("w", 3, True))
        )
        early = history(connection, "alpha", "u", 3, since=1001.0, until=1003.0)["bandwidth"]
    assert whole.actual == STEPS
    assert whole.forecasts["locality"] == [None, *STEPS[:-1]]
    assert whole.forecasts["history"] == pytest.approx([None, 200, 200, 400, 500, 560, 600, 4400 / 7])
    assert tail.n == 8
    assert tail.time == [1005.0, 1006.0, 1007.0]
    assert tail.job_id == ["u-bandwidth-5", "u-bandwidth-6", "u-bandwidth-7"]
    for name in FIVE:
        assert tail.forecasts[name] == whole.forecasts[name][-3:]
    assert (without.forecasts, without.actual) == ({}, tail.actual)
    assert early.time == [1001.0, 1002.0]
    lists = {key: [] for key in ("time", "job_id", "actual", "answered", "bound")}
    assert to_builtins(nobody) == {
        "n": 0,
        "shown_only": 0,
        "lower_bounds": 0,
        **lists,
        "forecasts": {name: [] for name in FIVE},
    }


def test_the_command_answers_in_json(engine: Engine, jobsight: Jobsight) -> None:
    fill(engine, "u", STEPS)
    predict = partial(jobsight, "predict", "--json", on=engine)
    printed = predict("--cluster", "alpha", "--user", "u")
    assert predict("--user", "u") == printed, "there is one cluster only"
    found = printed.json["predictions"]
    assert [answer["metric"] for answer in found] == list(metrics_of(gpus=False))
    assert found[0]["value"] == 800
    printed = predict("--cluster", "alpha", "--user", "w", "--metric", "CPU")
    (answer,) = printed.json["predictions"]
    assert answer["reason"].startswith("no history")
    assert printed.err == "w has no finished job on alpha: these forecasts are based on other users' jobs\n"
    unknown = predict("--cluster", "beta", "--user", "u", status=1)
    assert unknown.err == "jobsight predict: unknown cluster 'beta'; known: alpha\n"


def test_the_command_takes_what_is_known_of_the_job(engine: Engine, jobsight: Jobsight) -> None:
    fill(engine, "u", STEPS)
    ask = partial(jobsight, "predict", "--cluster", "alpha", "--metric", "bandwidth", "--json", on=engine)
    given = ("--application", "a_1", "--memory", "1e9", "--walltime", "60")
    (answer,) = ask("--user", "u", "--processors", "4", *given).json["predictions"]
    assert (answer["value"] in STEPS, answer["level"]) == (True, "user")
    given = ("--memory", "4gb", "--walltime", "2-12:00:00", "--per", "job")
    (whole,) = ask("--user", "u", "--processors", "4", *given).json["predictions"]
    assert (whole["value"], whole["unit"], whole["per"]) == (4 * 800, "bit/s", "job")
    unknown = ask("--user", "x", "--per", "job", status=1)
    assert "--per job: give the job's --processors, such as 16" in unknown.err
    ask("--user", "u", "--walltime", "6h")
    for flag, wrong, says in (
        ("--memory", "4 apples", "is not an amount of memory; give"),
        ("--walltime", "4 apples", "is not a run time; give"),
        *(("--processors", wrong, "is not a whole number above 0") for wrong in ("0", "-1", "many")),
    ):
        assert f"argument {flag}: '{wrong}' {says}" in ask("--user", "u", flag, wrong, status=2).err


@pytest.mark.storage
def test_the_command_says_first_what_to_do(engine: Engine, jobsight: Jobsight) -> None:
    """For the whole job, in eighty columns, also where the output is piped."""
    fill(engine, "u[bold]", [1.5e9, 2.5e9, 2.5e9, 1.2e9] * 5, metric="memory")
    with engine.begin() as connection:  # one after the other
        times = {"start": 1000.0 * jobs.c.id, "end": 1000.0 * jobs.c.id + 500.0}
        connection.execute(update(jobs).values(times | {"processors": 8, "name": "cfd", "application": "cfd"}))
    rebuild(engine)
    known = ["--processors", "8", "--memory", "64G", "--application", "cfd"]
    ask = partial(jobsight, "predict", "--cluster", "alpha", "--user", "u[bold]", *known, on=engine)
    printed = ask().out
    assert max(len(line) for line in printed.splitlines()) <= 80
    text = " ".join(printed.split())
    assert text.startswith("Request ")
    assert "Your last 20 similar jobs used at most 18.6 GiB" in text
    assert "This job requests 64G" in text
    (answer,) = ask("--json", "--per", "job", "--metric", "memory").json["predictions"]
    row = next(line.split("  ") for line in printed.splitlines() if line.startswith(" memory "))
    row = [cell.strip() for cell in row if cell]
    assert row[1] == size_text(answer["value"])
    assert text.startswith(f"Request {row[2]}")
    assert "bandwidth, CPU, run time: no history" in text
    for word in (" sure ", "exceeds", "runner-up", "mode-", "per processor"):
        assert word not in printed


def test_without_processors_the_job_has_as_many_as_the_last_similar_one(engine: Engine, jobsight: Jobsight) -> None:
    fill(engine, "u", [1.5e9, 2.5e9, 2.5e9, 1.2e9], metric="memory")
    make.execute(engine, update(jobs).values(processors=8))
    ask = partial(jobsight, "predict", "--cluster", "alpha", on=engine)
    assert ask("--user", "u").out == ask("--user", "u", "--processors", "8").out
    assert "What is not given is as in your last job" in ask("--user", "u").err
    assert "u has run no mesh: amounts are for one processor" in ask("--user", "u", "--application", "mesh").err
    text = " ".join(ask("--user", "nobody").out.split())
    assert re.search(r"memory .*– +– +none measured", text)
