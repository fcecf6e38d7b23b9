"""One site of users, and questions about each of their jobs with and without each field: every surface says the same.

A job of each user is described fully, and again without one field after the other. What is not given is unknown, but
for the command ``predict``, which takes it from the user's last similar job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from sqlalchemy import insert
from tests import make
from tests.make import Jobsight, not_none
from tests.server.web.surfaces import MIB, by_surface

from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.learning.finished import profile_finished
from jobsight_server.mail.weekly import preview
from jobsight_server.queries.report import report
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

T0 = 1_600_000_000.0


class Habit(NamedTuple):
    """MiB that the user's jobs of two processors use in turn, and request; ``killed``: the last ran out of as much."""

    used: tuple[int, ...]
    asked: int | None
    runs: int = 24
    killed: bool = False
    gpus: tuple[int, ...] = (0,)


USERS = {
    "lower": Habit((300, 310, 320), 64 * 1024),
    "raised": Habit((380,), 400, killed=True),
    "tight": Habit((980, 990), 1000),
    "few": Habit((300,), 64 * 1024, runs=2),
    "none": Habit((300, 600, 900), None),
    "gpus": Habit((2000, 9000), 64 * 1024, gpus=(1, 4)),
}
FIELDS = ("application", "queue", "account", "group", "processors", "memory_bytes", "walltime_s", "gpus")
OTHERS = {"queue", "account", "group"}
"""Fields that change no decision on a request."""


def full(user: str) -> dict[str, Any]:
    """The last job of the user, as a question."""
    of = USERS[user]
    job = {"cluster": "gamma", "user": user, "application": "solve", "queue": "batch", "account": "physics"}
    job |= {"group": "hpc", "processors": 2, "walltime_s": 36_000.0, "gpus": of.gpus[(of.runs - 1) % len(of.gpus)]}
    return job | ({} if of.asked is None else {"memory_bytes": of.asked * MIB})


QUESTIONS = [
    {name: value for name, value in full(user).items() if name != left_out}
    for user in USERS
    for left_out in ("", *FIELDS)
    if not left_out or left_out in full(user)
]


@pytest.fixture
def site(served: Any) -> Any:
    """The jobs of ``USERS``, one after the other."""
    with served.engine.begin() as connection:
        for place, (user, of) in enumerate(USERS.items()):
            for number in range(of.runs):
                start = T0 + 7200 * number + place
                row = {
                    "id": 5000 + 100 * place + number, "job_id": f"{user}.{number}", "cluster": "gamma", "user": user,
                    "name": "solve", "queue": "batch", "application": "solve", "account": "physics", "group": "hpc",
                    "processors": 2, "gpus": of.gpus[number % len(of.gpus)], "submitted": start - 10, "start": start,
                    "end": start + 1800, "requested_walltime_s": 36_000.0, "profiled": False, "exit_status": 0,
                    "requested_memory_bytes": of.asked and of.asked * MIB,
                    "used_memory_bytes": of.used[number % len(of.used)] * MIB,
                }  # fmt: skip
                if of.killed and number == of.runs - 1:
                    row |= {"failure": "memory", "exit_status": 137, "used_memory_bytes": None}
                connection.execute(insert(schema.jobs).values(make.job_row(**row)))
    profile_finished(served.engine, 0.0, lambda: 1e10)
    return served


def test_every_question_gets_one_answer_on_every_surface(site: Any) -> None:
    assert len(QUESTIONS) >= 34
    client, answers = site.client("scheduler"), []
    for job in QUESTIONS:
        found = by_surface(site, job)
        assert len(set(found.values())) == 1, (job, found)
        answers.append(found["advice"])
        whole = answers[QUESTIONS.index(full(job["user"]))]
        left_out = full(job["user"]).keys() - job.keys()
        if left_out <= OTHERS and USERS[job["user"]].asked is not None:
            assert found["advice"] == whole, (left_out, "does not change a request")
    of_full = {user: answers[QUESTIONS.index(full(user))] for user in USERS}
    assert of_full["lower"] == (pytest.approx(320 * MIB, rel=0.1), 36_000.0)
    assert of_full["raised"] == (1.5 * 400 * MIB, 36_000.0)
    assert (of_full["tight"], of_full["few"]) == ((1000 * MIB, 36_000.0), (64 * 1024 * MIB, 36_000.0))
    assert 9000 * MIB <= not_none(of_full["gpus"][0]) < 1.2 * 9000 * MIB, "of four GPUs, not of one"
    # The same jobs, as they wait.
    waiting = [job | {"job_id": f"w{number}", "submitted": T0 + 1e7} for number, job in enumerate(QUESTIONS)]
    with site.engine.begin() as connection:
        for number, job in enumerate(waiting):
            row = {name: job.get(name) for name in ("user", "queue", "account", "group", "processors", "gpus")}
            row |= {"id": 9000 + number, "job_id": job["job_id"], "cluster": "gamma", "name": job.get("application")}
            row |= {"requested_memory_bytes": job.get("memory_bytes"), "requested_walltime_s": job.get("walltime_s")}
            row |= {"start": job["submitted"], "submitted": job["submitted"], "state": "queued", "profiled": False}
            connection.execute(insert(schema.jobs).values(make.job_row(**row)))
    runs = make.answered(client.post("/api/v1/forecasts", json={"ids": [job["job_id"] for job in waiting]}))["runs"]
    for job, run, answer in zip(QUESTIONS, runs, answers, strict=True):
        if "gpus" not in job:  # of a job in the log it is known that it has none
            continue
        bounds = {one["metric"]: (one["bound"], one["at_submission"]) for one in run["forecasts"]}
        for metric, expected in zip(("memory", "runtime"), answer, strict=True):
            times = job.get("processors", 1) if metric == "memory" else 1
            now, before = bounds[metric]
            assert before is None or before["bound"] * times == pytest.approx(expected), (job, metric)
            if job.get({"memory": "memory_bytes", "runtime": "walltime_s"}[metric]):  # else by the forecast of now
                assert now * times == pytest.approx(expected), (job, metric)


@pytest.mark.parametrize(("shortest_s", "chance"), [(900, None), (1800, 1.0)])
def test_the_chance_of_running_out_below_the_median_is_known_only_if_all_used_more(
    served: Any, shortest_s: int, chance: float | None
) -> None:
    with served.engine.begin() as connection:
        for number in range(12):
            start, used_s = T0 + 7200 * number, shortest_s if number % 6 == 0 else 1800
            row = {
                "id": 7000 + number, "job_id": f"x.{number}", "cluster": "gamma", "user": "xena", "name": "solve",
                "application": "solve", "processors": 2, "submitted": start - 10, "start": start,
                "end": start + used_s, "requested_walltime_s": 3600.0, "profiled": False, "exit_status": 0,
            }  # fmt: skip
            connection.execute(insert(schema.jobs).values(make.job_row(**row)))
    profile_finished(served.engine, 0.0, lambda: 1e10)
    job = {"cluster": "gamma", "user": "xena", "application": "solve", "processors": 2, "walltime_s": 1200.0}
    answer = served.client("scheduler").get("/api/v1/predictions", query_string=job | {"metric": "runtime"})
    (found,) = make.answered(answer)["predictions"]
    assert (found["bound"], found["exceed_probability"]) == (1200.0, chance)
    assert found["need_steps"][0][0] > 1200.0


def pasted(lines: list[dict[str, str]]) -> Iterator[float]:
    """Memory of Slurm's lines in MiB."""
    for entry in lines:
        for amount, unit in re.findall(r"--mem=(\d+)([MG])", entry["text"] if isinstance(entry, dict) else entry):
            yield float(amount) * (1024 if unit == "G" else 1)


@pytest.mark.parametrize("user", USERS)
def test_predict_takes_what_is_not_given_from_the_last_job_and_pages_and_mail_say_the_same(
    site: Any, jobsight: Jobsight, user: str
) -> None:
    job, client = full(user), site.client("scheduler")
    memory, runtime = by_surface(site, job)["advice"]
    options = {"memory_bytes": "memory", "walltime_s": "walltime"}
    for left_out in ("", *FIELDS):
        written = {name: f"{value:g}" if isinstance(value, float) else value for name, value in job.items()}
        given = [f"--{options.get(name, name)}={written[name]}" for name in job if name not in (left_out, "gpus")]
        printed = jobsight("predict", *given, "--json", "--per", "job", on=site.engine).out
        of = {one["metric"]: one["bound"] for one in json.loads(printed)["predictions"]}
        assert (of["memory"], of["runtime"]) == (pytest.approx(memory), runtime), left_out
    last = f"{user}.{USERS[user].runs - 1}"
    (of_job,) = make.answered(client.get(f"/api/v1/job?name={last}&cluster=gamma"))["runs"]
    next_job = make.answered(client.get(f"/api/v1/user?name={user}&cluster=gamma"))["next_job"]
    advice = make.answered(client.post("/api/v1/advice", json=job | {"sets_memory": False}))
    assert of_job["advice"] == next_job["text"] == advice["text"]
    mib = not_none(memory) / MIB
    is_known = next(one["ask_next"] for one in of_job["efficiency"] if one["resource"] == "memory") is not None
    assert [*pasted(of_job["ask_lines"])] == [*pasted(next_job["ask_lines"])] == ([mib] if is_known else [])
    reader = AnswerReader(ForecastConfig())
    with site.engine.connect() as connection:
        mail = preview(connection, reader, site.app.extensions["jobsight"].settings, user, 1e10)
        page = not_none(report(connection, reader, "slurm", None, 1e10))
    is_less = mib < (USERS[user].asked or 0)
    assert (mail is not None) == is_less
    assert mail is None or [*pasted([{"text": mail.text}])] == [mib]
    lines = [line for one in page.findings if one.user == user for line in one.lines if line.metric == "memory"]
    assert [line.ask_for for line in lines] == ([memory] if is_less or user == "raised" else [])
    for line in lines:
        assert [*pasted([{"text": part.text} for part in line.ask_lines])] == [mib]
