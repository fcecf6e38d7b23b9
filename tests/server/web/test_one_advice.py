"""What a job should ask for is one number: in the table of applications, "What if", commands, the mail, the plan."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import insert

from jobsight_server.accounting.amounts import memory_text, time_text
from jobsight_server.adjust.plan import Needs
from jobsight_server.adjust.present import PresentJob
from jobsight_server.cli import main
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.mail.weekly import due_mails
from jobsight_server.profiler.run import profile_finished
from jobsight_server.settings import Settings
from jobsight_server.settings.mail import WeeklyMail
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MIB = 2**20
T0 = 1_690_000_000.0
JOBS = 40

# MiB requested, hours of the limit.
REQUESTS = {"right": (1300, 1), "high": (65536, 10), "killed": (1024, 2), "new": (2048, 5)}

Amounts = tuple[float | None, float | None]


def used(user: str, number: int) -> dict[str, Any]:
    """What a job of this user used; every second one of ``killed`` ran out of memory."""
    if user == "killed" and number % 2:
        return {"used_memory_bytes": 1024 * MIB, "failure": "memory", "exit_status": 137}
    return {"used_memory_bytes": {"right": 1280, "high": 300, "killed": 700}[user] * MIB + number % 8 * MIB}


@pytest.fixture
def site(served: Any) -> Any:
    """Jobs of four processors, none of which waited: then answers at both moments are the same."""
    rows = []
    for user in ("right", "high", "killed"):
        mib, limit_h = REQUESTS[user]
        for number in range(JOBS):
            start = T0 + 7200.0 * number
            rows.append(
                {"cluster": "gamma", "job_id": f"{user}{number}", "user": user, "name": f"cfd_{number}"}
                | {"application": "cfd", "queue": "q", "submitted": start, "start": start, "end": start + 1800 + number}
                | {"state": "ended", "processors": 4, "requested_memory_bytes": mib * MIB, "exit_status": 0}
                | {"requested_walltime_s": limit_h * 3600.0, "failure": None, "recorded_at": 0.0, "profiled": False}
                | used(user, number)
            )
    with served.engine.begin() as connection:
        connection.execute(insert(schema.jobs), rows)
    profile_finished(served.engine, 0.0, lambda: served.clock.now)
    waiting = [
        {"job_id": f"{user}-waits", "user": user, "application": "cfd", "queue": "q", "processors": 4}
        | {"submitted": served.clock.now, "memory_bytes": mib * MIB, "walltime_s": limit_h * 3600.0}
        for user, (mib, limit_h) in REQUESTS.items()
    ]
    posted = served.client("scheduler").post("/api/v1/jobs", json={"cluster": "gamma", "jobs": waiting})
    assert posted.json["waiting"] == 4
    return served


def get(site: Any, path: str, **query: Any) -> Any:
    answer = site.client("scheduler").get(f"/api/v1/{path}", query_string={"cluster": "gamma"} | query)
    assert answer.status_code == 200, answer.text
    return answer.json


def described(user: str) -> dict[str, Any]:
    mib, limit_h = REQUESTS[user]
    return {
        "application": "cfd",
        "queue": "q",
        "processors": 4,
        "memory_bytes": mib * MIB,
        "walltime_s": limit_h * 3600,
    }


def printed(capsys: Any, site: Any, *arguments: str) -> str:
    url = site.engine.url.render_as_string(hide_password=False)
    assert main([*arguments, "--database", url, "--cluster", "gamma"]) == 0
    return str(capsys.readouterr().out)


def predicted(out: str) -> tuple[str, str]:
    """The column "ask for" of memory and run time."""
    found = re.findall(r"^ (?:memory|run time) .*", out, re.MULTILINE)
    memory, runtime = (re.split("  +", line.strip())[2] for line in found)
    return memory, runtime


def of_adjust(site: Any, user: str) -> Amounts:
    with site.engine.connect() as connection:
        name = f"{user}-waits"
        reader = AnswerReader(site.engine, forecast_config(Settings()))
        job = PresentJob(name, user, site.clock.now, None)
        need = Needs(connection, reader, "gamma", {name: job}).of(job)
    assert need is not None
    return need["memory"].recommended, need["runtime"].recommended


@pytest.mark.parametrize("user", ["right", "high", "killed"])
def test_every_place_asks_for_the_same(site: Any, capsys: pytest.CaptureFixture[str], user: str) -> None:
    mib, limit_h = REQUESTS[user]
    requested = (mib * MIB, limit_h * 3600.0)
    (row,) = get(site, "user/applications", name=user, range="1y")["applications"]
    table = tuple(row[f"{metric}_advice"]["recommended"] for metric in ("memory", "runtime"))
    assert (table[0] > requested[0]) - (table[0] < requested[0]) == {"right": 0, "high": -1, "killed": 1}[user]
    slurm = f"#SBATCH --mem-per-cpu={-(-table[0] // (4 * MIB)):.0f}M\n#SBATCH --time="

    last = f"{user}{JOBS - 1}"
    job = get(site, "job", name=last)["runs"][0]
    next_time = {entry["resource"]: entry["ask_next"] for entry in job["efficiency"]}
    assert (next_time["memory"], next_time["runtime"]) == table
    (of_seff,) = json.loads(printed(capsys, site, "seff", last, "--json"))
    assert {entry["resource"]: entry["ask_next"] for entry in of_seff["efficiency"]} == next_time

    like_last = get(site, "user", name=user)["next_job"]
    what_if = get(site, "user", name=user, **described(user))["next_job"]
    assert like_last["ask_lines"] == what_if["ask_lines"] == row["ask_lines"] == job["ask_lines"]
    assert row["ask_lines"][0]["text"].startswith(slurm)
    assert like_last["text"] == what_if["text"] == job["advice"] == of_seff["advice"]
    client = site.person()
    page = client.get(f"/user?cluster=gamma&name={user}&range=1y").text
    assert page.count(row["ask_lines"][0]["text"]) >= 2, "in the table and below the form"

    (waste,) = get(site, "waste", user=user, since="2023-07-22", until="2023-07-26")["rows"]
    assert (waste["memory_advice"]["recommended"], waste["runtime_advice"]["recommended"]) == table

    asked = {"num_tasks": 4, "mem": f"{mib}M", "time_limit": limit_h * 60}
    submitted = {"cluster": "gamma", "user": user, "application": "cfd", "queue": "q", "slurm": asked}
    advice = site.client("submitter").post("/api/v1/advice", json=submitted).json
    assert advice["text"] == what_if["text"]
    assert ((advice["slurm"]["mem"] or mib) * MIB, (advice["slurm"]["time_limit"] or limit_h * 60) * 60) == table

    job_of = ("--application", "cfd", "--queue", "q", "--processors", "4", "--memory", f"{mib}M")
    out = printed(capsys, site, "predict", "--user", user, *job_of, "--walltime", f"{limit_h}h")
    assert predicted(out) == (memory_text(table[0]), time_text(table[1]))

    adjusted = of_adjust(site, user)
    assert tuple(own or asked for own, asked in zip(adjusted, requested, strict=True)) == table


def test_the_mail_asks_for_what_the_page_does(site: Any) -> None:
    settings = replace(Settings(), weekly_mail=WeeklyMail("example.org"))
    reader = AnswerReader(site.engine, forecast_config(settings))
    with site.engine.connect() as connection:
        (mail,) = due_mails(connection, reader, settings, site.clock.now)
    assert mail.user == "high"
    (row,) = get(site, "user/applications", name="high", range="1y")["applications"]
    assert f"should request {memory_text(row['memory_advice']['recommended'])}." in mail.text
    for lines in row["ask_lines"]:
        assert lines["text"].splitlines()[0] in mail.text


def test_a_user_without_history_is_advised_nothing_anywhere(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = get(site, "user", name="new", **described("new"))["next_job"]
    assert found["ask_lines"] == []
    assert found["text"] == "No similar job of yours has been measured yet."
    asked = {"num_tasks": 4, "mem": "2048M", "time_limit": 300}
    submitted = {"cluster": "gamma", "user": "new", "application": "cfd", "queue": "q", "slurm": asked}
    advice = site.client("submitter").post("/api/v1/advice", json=submitted).json
    assert (advice["text"], advice["slurm"]["mem"], advice["slurm"]["time_limit"]) == (found["text"], None, None)
    out = printed(capsys, site, "predict", "--user", "new", "--application", "cfd", "--processors", "4")
    assert predicted(out) == ("-", "-")
    assert of_adjust(site, "new") == (None, None)
