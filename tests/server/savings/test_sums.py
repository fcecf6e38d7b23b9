"""The totals agree with the profiles, whatever happened to the runs: learned, measured late, withdrawn, shown only."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, func, select, text, update
from tests import make
from tests.server.savings.runs import GIB, NOON, ended, learn, many, run, write

from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest
from jobsight_server.forecasts.request import job_question
from jobsight_server.forecasts.rounds import lock_learning
from jobsight_server.ground.amounts import DAY_S, day_of
from jobsight_server.savings.sums.add import COLUMNS, count_again, count_marked, days_of, mark_all
from jobsight_server.savings.sums.kept import (
    GROUPS_OF_A_USER,
    OTHER,
    SCORES,
    as_date,
    counted_as,
    forget_empty_groups,
    group_name,
)
from jobsight_server.savings.sums.read import Days, periods_of, sums_of_all, sums_of_user
from jobsight_server.savings.waits import waited_at_most_s
from jobsight_server.storage.schema import (
    forecast_scores,
    jobs,
    pending_forecasts,
    profiles,
    savings,
    savings_groups,
    savings_to_do,
    waits,
)

NOUNS = ("cluster", "user", "application", "queue", "account")


def totals(engine: Engine) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """The stored totals, by metric, level, period, first day and names."""
    names = [savings_groups.c[noun] for noun in NOUNS]
    query = select(
        savings.c.metric,
        savings.c.level,
        savings.c.period,
        savings.c.first_day,
        *names,
        *(savings.c[n] for n in COLUMNS),
    )
    rows = make.rows(engine, query.join(savings_groups, savings_groups.c.id == savings.c.group_id))
    return {tuple(row[:9]): tuple(row[9:]) for row in rows}


def expected(engine: Engine) -> dict[tuple[Any, ...], dict[str, float]]:
    """The same from all profiles at once, the simplest way, using only the program's tables."""
    found: dict[tuple[Any, ...], dict[str, float]] = defaultdict(lambda: dict.fromkeys(COLUMNS, 0.0))
    rows = make.rows(engine, select(jobs, profiles).join(profiles, profiles.c.run_id == jobs.c.id))
    for row in rows:
        if row.metric not in ("memory", "runtime", "cpu"):
            continue
        moment = datetime.fromtimestamp(row.end, UTC).date()
        both = [(row.metric, counted(row))]
        if row.metric == "runtime" and row.queued is not None:
            both.append(("wait", {"jobs": 1, "used": round(row.start - row.queued)}))
        application = {"fluid_1": "fluid", "fluid_2": "fluid", "fluid_7": "fluid"}.get(row.name, row.name)
        monday = moment - timedelta(days=moment.weekday())
        for period, first in (("day", moment), ("month", moment.replace(day=1)), ("week", monday)):
            day = (first - datetime(1970, 1, 1, tzinfo=UTC).date()).days
            user, application, queue, account = row.user, application or "", row.queue or "", row.account or ""
            for level, names in (
                ("group", (user, application, queue, account)),
                ("user", (user, "", "", "")),
                ("application", ("", application, "", "")),
                ("queue", ("", "", queue, "")),
                ("account", ("", "", "", account)),
                ("cluster", ("", "", "", "")),
            ):
                for metric, one in both:
                    if period == "week" and level != "user":
                        continue
                    sums = found[metric, level, period, day, row.cluster, *names]
                    for name, value in one.items():
                        sums[name] += value
    return found


def counted(row: Any) -> dict[str, float]:
    """The contribution of one metric of one job."""
    memory = row.metric == "memory"
    if row.metric == "cpu":
        held_s = row.processors * (row.end - row.start)
        if row.value is None:
            return {"without_use": 1, "weight": held_s}
        same = dict.fromkeys(("weight", "requested", "reserved", "request_held", "bound_held"), held_s)
        return {"jobs": 1, **same, "used": round(min(row.value, 1.0) * held_s)}
    unit = 2**20 if memory else 1
    weight = row.processors * (row.end - row.start if memory else 1)
    request = row.requested_memory_bytes and row.requested_memory_bytes / row.processors
    request = request if memory else row.requested_walltime_s
    if row.value is None or row.shown_only:
        return {"without_use": 1}
    if request is None:
        return {"without_request": 1}
    if row.bound is None:
        return {"without_bound": 1}
    attempts = json.loads(row.attempts or f"[{row.bound!r}]")
    per_unit = {"requested": request, "used": row.value, "reserved": attempts[0]}
    repeated = held(attempts, row.value, request) if row.value <= request else attempts[0]
    per_unit |= {"request_held": request, "bound_held": repeated}
    amounts = {name: round(each * weight / unit) * unit for name, each in per_unit.items()}
    ran_on = not memory and row.value > request  # a limit that is not enforced kills no job
    needed_more = memory and row.value > request
    failures = {"needed_more": needed_more, "request_failures": needed_more and bool(row.exit_status)}
    failures |= {"bound_failures": row.value > attempts[0] and not ran_on}
    return {"jobs": 1, "weight": weight, **amounts, **failures}


def held(attempts: list[float], needed: float, request: float) -> float:
    reserved, *more = attempts
    if reserved >= needed:
        return reserved
    twice = 2 * reserved
    return reserved + held(more or [request if reserved < request < twice else twice], needed, request)


def check(engine: Engine) -> int:
    """Hold what is kept against the profiles, exactly; return how many jobs have savings."""
    kept, wanted = totals(engine), expected(engine)
    assert kept.keys() == wanted.keys()
    for key, sums in kept.items():
        assert dict(zip(COLUMNS, sums, strict=True)) == wanted[key], key
    check_waits(engine)
    return int(sum(sums[0] for sums in kept.values()))


def check_waits(engine: Engine) -> None:
    """Hold how long half and nine tenths of the jobs of each queue waited on each day against the jobs."""
    run = select(jobs.c.queue, jobs.c.end, jobs.c.start - jobs.c.queued).where(jobs.c.queued.is_not(None))
    run = run.join(profiles, profiles.c.run_id == jobs.c.id).where(profiles.c.metric == "runtime")
    waited: dict[tuple[str, int], list[float]] = defaultdict(list)
    for queue, end, wait_s in make.rows(engine, run):
        waited[queue or "", int(end // 86_400)].append(wait_s)
    with engine.connect() as connection:
        for day in {day for _, day in waited}:
            of_day = {queue: sorted(waits) for (queue, of), waits in waited.items() if of == day}
            for tenths in (5, 9):
                found = waited_at_most_s(connection, savings_groups.c.queue, "day", (day, day), None, tenths)
                assert found.keys() == of_day.keys()
                for queue, waits in of_day.items():
                    exact = waits[(tenths * len(waits) - 1) // 10]
                    assert exact <= found[queue] <= max(1.0, 1.19 * exact)


def check_scores(engine: Engine) -> int:
    """Hold the sums of accuracy against the profiles, by plain SQL; return how many forecasts of jobs are counted."""
    by_hand = text(
        'SELECT p.metric, CAST(floor(j."end" / 86400) AS INTEGER) AS day, j.cluster, j."user", p.value, p.forecast, '
        "p.bound, p.attempts, CASE p.metric WHEN 'memory' THEN j.requested_memory_bytes / j.processors "
        "WHEN 'runtime' THEN j.requested_walltime_s END FROM profiles p JOIN jobs j ON j.id = p.run_id "
        "WHERE p.value IS NOT NULL AND p.forecast IS NOT NULL AND NOT p.shown_only AND j.failure IS NULL"
    )
    query = select(
        *(forecast_scores.c[name] for name in ("metric", "period", "first_day")),
        savings_groups.c.cluster,
        savings_groups.c.user,
        *(forecast_scores.c[name] for name in SCORES),
    ).join(savings_groups, savings_groups.c.id == forecast_scores.c.group_id)
    wanted: dict[Any, list[int]] = defaultdict(lambda: [0] * len(SCORES))
    with engine.connect() as connection:
        for metric, day, cluster, user, value, forecast, bound, attempts, asked in connection.execute(by_hand):
            near = max(0.0, 1 - abs(forecast - value) / value) if value else float(forecast == 0)
            recommended = json.loads(attempts)[0] if attempts else bound
            # A request that was kept is no recommendation.
            is_one = recommended is not None and (asked is None or abs(recommended - asked) > 1e-9 * asked)
            one = (1, round(1e6 * near), abs(forecast - value) <= 0.2 * value, is_one)
            held = is_one and value <= recommended
            monday = day - as_date(day).weekday()
            for period, first in (("day", day), ("week", monday)):
                into = wanted[metric, period, first, cluster, user]
                into[:] = [a + int(b) for a, b in zip(into, (*one, held), strict=True)]
        rows = connection.execute(query.where(forecast_scores.c.level == "user")).all()
        levels = connection.execute(
            select(forecast_scores.c.level, func.sum(forecast_scores.c.jobs)).group_by(forecast_scores.c.level)
        ).all()
    assert {tuple(row[:5]): list(row[5:]) for row in rows} == wanted
    assert len({int(number) for _, number in levels}) <= 1  # every level counts each job once
    return sum(sums[0] for sums in wanted.values())


@pytest.mark.exhaustive
def test_what_is_learned_is_counted_in_the_same_transaction(engine: Engine) -> None:
    many(engine, 120)
    assert learn(engine, limit=50) == 120
    assert check(engine) > 100
    assert check_scores(engine) > 100
    assert learn(engine) == 0
    before = totals(engine)
    many_more = [
        run(engine, 1000 + n, start=NOON + 50 * DAY_S, end=NOON + 50 * DAY_S + 60.0 * n + 60) for n in range(9)
    ]
    learn(engine)
    check(engine)
    assert totals(engine) != before
    with engine.begin() as connection:
        # Counted again from nothing, and once more.
        connection.execute(delete(savings))
        mark_all(connection)
        assert day_of(NOON + 50 * DAY_S) in days_of(connection, many_more)
    count_marked(engine)
    check(engine)
    with engine.begin() as connection:
        mark_all(connection)
        mark_all(connection)
        assert connection.scalars(select(savings_to_do.c.day)).all()
    learn(engine)
    check(engine)
    with engine.connect() as connection:
        assert connection.scalars(select(savings_to_do.c.day)).all() == []
    assert check_scores(engine) > 100


def test_the_attempts_are_those_of_the_answer_at_submission(sqlite_engine: Engine) -> None:
    """Also of a job whose forecast waited in the database until it ended."""
    at = {"start": NOON, "end": NOON + 3600}
    waits = {"start": NOON + 9000, "submitted": NOON + 9000}
    for number in range(6):
        run(sqlite_engine, number, **at, used_memory_bytes=(2 + number % 3) * GIB)
    late = run(sqlite_engine, 6, **waits, state="running", end=None, used_memory_bytes=None)
    learn(sqlite_engine)
    question = job_question("ann", "fluid_7", "batch", 2, 8.0 * GIB, 7200.0)
    reader = AnswerReader(ForecastConfig())
    run(
        sqlite_engine, 7, start=NOON + 9001, end=NOON + 9100, used_memory_bytes=2 * GIB
    )  # so that the other is forecast
    with sqlite_engine.connect() as connection:
        (answer,) = reader.answers(connection, [ForecastRequest("alpha", question, "memory")])
    learn(sqlite_engine)
    with sqlite_engine.begin() as connection:
        assert connection.scalar(select(pending_forecasts.c.state).where(pending_forecasts.c.run_id == late))
        ends = {"state": "ended", "end": NOON + 9500, "used_memory_bytes": 30 * GIB}
        connection.execute(update(jobs).where(jobs.c.id == late).values(ends))
    learn(sqlite_engine)
    rows = make.rows(sqlite_engine, select(profiles).where(profiles.c.metric == "memory"))
    (found,) = [row for row in rows if row.run_id == late]
    assert json.loads(found.attempts) == list(answer.attempts)
    assert len(answer.attempts) > 1
    assert {row.attempts for row in rows if row.bound is not None and row.value <= row.bound} == {None}
    check(sqlite_engine)


def test_runs_that_are_withdrawn_are_taken_back(engine: Engine) -> None:
    first = many(engine, 40)
    learn(engine)
    before = totals(engine)
    second = write(engine, [ended(500 + n, user=f"new{n % 3}") for n in range(30)])
    learn(engine)
    with engine.begin() as connection:
        lock_learning(connection)
        days = days_of(connection, second)
        connection.execute(delete(jobs).where(jobs.c.id.in_(second)))
        count_again(connection, days)
        forget_empty_groups(connection)
    assert totals(engine) == before
    check(engine)
    with engine.begin() as connection:
        days = days_of(connection, first)
        connection.execute(delete(jobs).where(jobs.c.id.in_(first)))
        count_again(connection, days)
        forget_empty_groups(connection)
        for table in (savings, savings_groups, forecast_scores, waits):
            assert connection.execute(select(table)).all() == []


def test_values_that_are_shown_only_count_as_not_measured(engine: Engine) -> None:
    runs = many(engine, 40)
    learn(engine)
    before = check(engine)
    with engine.begin() as connection:
        connection.execute(
            update(profiles)
            .where(profiles.c.run_id.in_(runs[:20]), profiles.c.metric == "memory", profiles.c.value.is_not(None))
            .values(attribution="apportioned", shown_only=True)
        )
        mark_all(connection)
    learn(engine)
    assert check(engine) < before


def test_a_user_with_a_name_for_each_job_has_a_bounded_number_of_groups(engine: Engine) -> None:
    write(engine, [ended(n, name=f"sample-{n}x", end=NOON + 60 + n) for n in range(GROUPS_OF_A_USER + 30)])
    run(engine, 9999, user="bob", name="é" * 3000, queue="q" * 4000)
    learn(engine)
    with engine.connect() as connection:
        groups = connection.execute(select(savings_groups)).all()
        days = Days(0, 10**5)
        rows = sums_of_user(connection, "runtime", days, "application", "alpha", "ann")
        applications = {row[1] for row in sums_of_all(connection, "runtime", days, "application")}
    of_ann = [group for group in groups if group.user == "ann" and group.application]
    assert len(of_ann) == GROUPS_OF_A_USER + 1
    assert len(applications) == GROUPS_OF_A_USER + 2
    others = rows["alpha", OTHER]
    assert others.jobs + others.without_bound == 30
    (long,) = [group for group in groups if group.user == "bob" and group.queue]
    assert (len(long.application), len(long.queue)) == (93, 93)
    with engine.begin() as connection:  # the same names lead to the same groups
        name = group_name("alpha", "ann", "sample-129x", "batch", None)
        assert counted_as(connection, [name]) == {name: name._replace(application=OTHER)}


@settings(max_examples=300)
@given(st.integers(-1000, 60_000), st.integers(0, 1500), st.booleans())
def test_months_weeks_and_days_make_up_the_span(first: int, length: int, by_week: bool) -> None:
    days: list[int] = []
    for period, day in periods_of(Days(first, first + length), by_week=by_week):
        date = as_date(day)
        if period == "month":
            assert date.day == 1
            after = (date + timedelta(31)).replace(day=1)
            days.extend(range(day, day + (after - date).days))
        elif period == "week":
            assert by_week
            assert date.weekday() == 0
            days.extend(range(day, day + 7))
        else:
            days.append(day)
    assert days == list(range(first, first + length + 1))
