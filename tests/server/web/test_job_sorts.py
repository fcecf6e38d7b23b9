"""The list of jobs in an order of its values: over all runs, however many there are."""

from __future__ import annotations

import random
from math import inf
from typing import Any

import pytest
from sqlalchemy import Engine, insert
from tests import make
from tests.server.web.conftest import NOW

from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import ForecastConfig
from jobsight_server.learning.finished import KEEP_PEAKS
from jobsight_server.queries.jobs import JOBS, job_list
from jobsight_server.storage import schema
from jobsight_server.storage.job_counts import count_all

RUNS = 2_500
ENDS = ({"exit_status": 0}, {"exit_status": 3}, {"exit_status": 271}, {"ended_abnormally": True}, {})


def planted(rng: random.Random, number: int) -> dict[str, Any]:
    """One of many runs: ended, killed, running or waiting, with a request or none, measured, logged or unknown."""
    begin = NOW - rng.uniform(1e3, 1e7)
    row: dict[str, Any] = {"id": number, "start": begin, "end": begin + rng.uniform(1, 9e5), "state": "ended"}
    row |= rng.choices(ENDS, (60, 5, 3, 2, 2))[0]
    if number % 40 == 0:
        row |= {"failure": rng.choice(("memory", "time"))}
    if number % 125 == 0:
        row |= {"end": None, "state": "running", "start": NOW - rng.uniform(1.0, 1e6), "failure": None}
    if number % 333 == 0:
        row |= {"end": None, "state": "queued", "start": inf, "queued": NOW - 9.0, "failure": None}
    if rng.random() < 0.1:
        row |= {"suspended_s": 0.5}
    row["processors"] = rng.randint(1, 64)
    row["requested_memory_bytes"] = rng.choice((None, 0, rng.randint(10**6, 10**12)))
    row["asked_memory_bytes"] = rng.choice((None, None, None, rng.randint(10**6, 10**12)))
    row["requested_walltime_s"] = rng.choice((None, rng.uniform(60.0, 1e6)))
    row["used_memory_bytes"] = rng.choice((None, rng.randint(10**6, 10**12)))
    row["cluster"], row["user"] = rng.choice(("alpha", "beta")), rng.choice(("ada", "bob"))
    return row


def value(row: dict[str, Any], peak: float | None, sort: str) -> float | str | None:
    """The value that the list has to show, from what was planted."""
    is_waiting = row["state"] == "queued"
    if sort == "memory":
        asked = row["requested_memory_bytes"] if row["asked_memory_bytes"] is None else row["asked_memory_bytes"]
        used = row["used_memory_bytes"] if peak is None else peak * row["processors"]
        return None if used is None or not asked else used / asked
    if sort == "time":
        end = NOW if row["end"] is None else row["end"]
        limit_s = None if is_waiting else row["requested_walltime_s"]
        return limit_s and (end - row["start"] - row.get("suspended_s", 0.0)) / limit_s
    if row.get("failure"):
        return f"killed: {row['failure']}"
    if row["state"] != "ended":
        return "waiting" if is_waiting else "running"
    status = row.get("exit_status")
    if status == 271 or (row.get("ended_abnormally") and status is None):
        return "cancelled"
    return "ended" if status is None else "completed" if status == 0 else "failed"


@pytest.mark.storage
def test_a_list_is_sorted_over_all_runs(engine: Engine) -> None:
    rng, reader = random.Random(5), AnswerReader(ForecastConfig())
    rows = [planted(rng, number) for number in range(1, RUNS + 1)]
    peaks = {row["id"]: rng.uniform(1e6, 1e11) for row in rows if row["end"] is not None and rng.random() < 0.6}
    so_far = {row["id"]: rng.uniform(1e6, 1e11) for row in rows if row["state"] == "running" and rng.random() < 0.6}
    with engine.begin() as connection:
        names = dict.fromkeys(name for row in rows for name in row)
        connection.execute(insert(schema.jobs), [make.job_row(f"{row['id']}", **names | row) for row in rows])
        of_memory = {"metric": "memory", "source": "node", "attribution": "exclusive", "learn_seq": 1}
        measured = [of_memory | {"run_id": number, "value": peak} for number, peak in peaks.items()]
        connection.execute(insert(schema.profiles), measured)
        connection.execute(KEEP_PEAKS, {"runs": list(peaks)})
        running = [{"run_id": number, "memory": used, "until": NOW} for number, used in so_far.items()]
        connection.execute(insert(schema.running_use), running)
        count_all(connection)
        peaks |= so_far
        make.follow(connection)
    filters: list[dict[str, Any]] = [{}, {"cluster": "beta"}, {"user": "ada"}, {"outcome": "killed"}]
    for sort in ("memory", "time", "outcome"):
        values = {row["id"]: value(row, peaks.get(row["id"]), sort) for row in rows}
        for order in ("asc", "desc"):
            is_down = order == "desc"
            known = sorted((of, run) for run, of in values.items() if of is not None)
            unknown = sorted(run for run, of in values.items() if of is None)
            expected = [run for _, run in known[:: -1 if is_down else 1]] + unknown[:: -1 if is_down else 1]
            for of in filters:
                kept = {row["id"] for row in rows if _is_kept(row, of)}
                whole = [run for run in expected if run in kept]
                for page, limit in ((1, 50), (7, 50), (2, 1000)):
                    with engine.connect() as connection:
                        asked = JOBS.asked(sort, order, page=page, limit=limit, **of)
                        found = job_list(connection, reader, NOW, asked)
                    shown = [int(run.job_id) for run in found.jobs]
                    assert shown == whole[(page - 1) * limit : page * limit], (sort, order, of, page)
                    assert (found.total, found.among_last) == (len(whole), None)


def _is_kept(row: dict[str, Any], of: dict[str, Any]) -> bool:
    if "outcome" in of:
        return row.get("failure") is not None
    return all(row[name] == wanted for name, wanted in of.items())
