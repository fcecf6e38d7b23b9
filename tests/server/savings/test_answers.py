"""Savings in the API, the pages and the command."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from rich.console import Console
from sqlalchemy import Engine
from tests import make
from tests.make import Jobsight
from tests.server.savings.runs import GIB, NOON, ended, learn, write

from jobsight_server.advice.words import KEPT
from jobsight_server.commands.savings import show
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.savings.savings import LeftOut, Raise, SavingsRow
from jobsight_server.savings.waste import Waste, WasteList, WasteRow
from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings
from jobsight_server.web.kit.units import size

Ask = Callable[..., Any]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def client(engine: Engine, database_url: str) -> FlaskClient:
    """Logged in to a site with a wasteful user, a frugal one and one who requests nothing."""
    rows = []
    for number in range(60):
        at = {"start": NOON + 7200 * number, "end": NOON + 7200 * number + 3600}
        rows.append(ended(3 * number, user="ann", used_memory_bytes=2 * GIB + number * 2**20, **at))
        rows.append(ended(3 * number + 1, user="bob", name=SCRIPT, used_memory_bytes=7 * GIB, queue=None, **at))
        rows.append(ended(3 * number + 2, user="eve", cluster="beta", requested_memory_bytes=None, **at))
    last = {"start": NOON + 10 * DAY_S, "end": NOON + 10 * DAY_S + 3600, "exit_status": 0}
    write(engine, [*rows, ended(999, user="ann", used_memory_bytes=4 * GIB, **last)])
    learn(engine)
    return make.person(create_app(load_settings(flags={"database": database_url}), engine, engine), engine)


@pytest.fixture
def ask(client: FlaskClient) -> Ask:
    def ask(**query: Any) -> Any:
        return make.answered(client.get("/api/v1/waste", query_string=query))

    return ask


def test_the_greatest_saving_comes_first_with_what_to_ask_for(ask: Ask, client: FlaskClient) -> None:
    found = ask()
    rows = [row for row in found["rows"] if row["memory"]["jobs"]]
    assert [row["name"] for row in rows] == ["ann", "bob"]
    first, second = (row["memory"] for row in rows)
    assert first["freed_hours"] > 0.3 * first["requested_hours"] > 0
    held = first["requested_hours"] + first["requests_repeated_hours"]
    kept = first["reserved_hours"] + first["repeated_hours"]
    assert first["freed_hours"] == pytest.approx(held - kept) == pytest.approx(held * first["freed_share"])
    # 2 GiB and a little more were used of 8 requested, an hour each; the last job used more and ended well.
    assert first["requested_hours"] == pytest.approx(first["jobs"] * 8)
    assert first["used_hours"] == pytest.approx(2.03 * first["jobs"] + 2, rel=0.02)
    assert (first["needed_more"], first["ran_out"], first["would_run_out"] >= 1) == (0, 0, True)
    # Of the whole job, for one like the last: the job's page says the same.
    advice = rows[0]["memory_advice"]
    assert (advice["like_job"], advice["asked_for"]) == ("999.s", 8 * GIB)
    assert 2 * GIB < advice["ask_for"] < 8 * GIB
    job = client.get("/api/v1/job?name=999.s&cluster=alpha").get_json()["runs"][0]
    next_time = {entry["resource"]: entry["ask_next"] for entry in job["efficiency"]}
    recommended = (advice["recommended"], rows[0]["runtime_advice"]["recommended"])
    assert recommended == (next_time["memory"], next_time["runtime"])
    assert second["used_hours"] / second["requested_hours"] == pytest.approx(7 / 8)
    assert found["left_out"]["memory"]["without_request"] == 60
    assert found["memory"]["jobs"] + sum(found["left_out"]["memory"].values()) == 181
    assert found["runtime"]["requested_hours"] == 2 * found["runtime"]["used_hours"]


def test_every_way_of_looking_adds_up(ask: Ask) -> None:
    total = ask()["memory"]
    for by in ("user", "application", "queue", "account", "cluster"):
        found = ask(by=by)
        assert found["memory"] == total
        rows = [row for row in found["rows"] if row["memory"]["jobs"]]
        for name in ("jobs", "requested_hours", "used_hours", "reserved_hours", "freed_hours", "would_run_out"):
            assert sum(row["memory"][name] for row in rows) == pytest.approx(total[name], rel=1e-12)
        unused = [row["memory"]["unused_hours"] for row in rows]
        assert unused == sorted(unused, reverse=True)
        assert [row["memory_advice"] and row["memory_advice"]["user"] for row in rows] == (
            ["ann", "bob"] if by == "user" else [None] * len(rows)
        )
    assert [row["name"] for row in ask(by="queue", cluster="alpha")["rows"]] == ["batch", ""]
    assert {row["cluster"] for row in ask(cluster="beta")["rows"]} == {"beta"}
    (fluid,), (ann, *_) = ask(user="ann", by="application")["rows"], ask()["rows"]
    assert fluid["memory_advice"]["ask_for"] == ann["memory_advice"]["ask_for"]
    assert (fluid["name"], fluid["memory"]) == ("fluid", ann["memory"])
    listed = ask(limit=1)
    assert (len(listed["rows"]), listed["total"], listed["memory"]) == (1, 3, total)


def test_the_pages_say_who_and_how_much(client: FlaskClient, ask: Ask) -> None:
    text = " ".join(client.get("/waste").text.split())
    rows = text.split("<tbody>")[1].split("<tr>")[1:]
    assert "/user?cluster=alpha&amp;name=ann" in rows[0]
    advice = f"<strong>{size(ask()['rows'][0]['memory_advice']['ask_for'])}</strong>"
    assert advice in rows[0]
    assert "instead of 8.00 GiB, fluid" in rows[0]
    assert "Left out of memory: 60 jobs without a request.</p>" in text
    assert '<p class="note">Left out of processors: 181 jobs whose use is unknown or only a lower bound: ' in text
    assert SCRIPT not in client.get("/waste?by=application").text
    user = " ".join(client.get("/user?cluster=alpha&name=ann").text.split())
    assert f"Next time, request {advice} instead of 8.00 GiB." in user
    eve = " ".join(client.get("/user?cluster=beta&name=eve").text.split())
    assert "Recommended requests would have freed no memory." in eve, "there was none"
    assert "#SBATCH --mem=" in eve


def test_the_command_says_the_same(client: FlaskClient, ask: Ask, database_url: str, jobsight: Jobsight) -> None:
    def command(*arguments: str) -> str:
        return jobsight("savings", *arguments, on=database_url).out

    assert json.loads(command("--json", "--limit", "25")) == ask()
    lines = list(csv.DictReader(io.StringIO(command("--csv", "--by", "application"))))
    (first, *_) = lines
    assert (first["metric"], first["unit"], first["cluster"], first["name"]) == (
        "memory",
        "GiB-hours",
        "alpha",
        "fluid",
    )
    row = ask(by="application")["rows"][0]
    assert float(first["freed_hours"]) == pytest.approx(row["memory"]["freed_hours"], rel=1e-5)
    table = command()
    assert "Jobs that ended from 2023-11-15 to 2023-11-25 (UTC)" in table
    users = [line.split()[0] for line in table.splitlines() if line.strip().startswith(("alpha/", "beta/"))]
    assert users[0] == "alpha/ann"
    assert all(len(line) <= 80 for line in table.splitlines())
    empty = jobsight("savings", "--csv", "--since", "1999-01-01", "--until", "1999-01-02", on=database_url)
    assert len(empty.out.splitlines()) == 1
    assert "jobsight savings: No job was counted on these days" in empty.err
    said = jobsight("savings", "--user", "zoe", on=database_url, status=1).err
    assert "--user 'zoe': no job of this user is known" in said


@pytest.mark.parametrize(
    ("recommended", "needed_more", "words"),
    [
        (4.0 * GIB, 0, "as before: similar jobs need as much"),
        (4.0 * GIB, 2, "as before: similar jobs need as much, and 2 of 10 jobs needed more"),
        (3.0 * GIB, 2, "3.00 GiB instead of 4.00 GiB: 0 of 10 jobs would have run out"),
        (6.0 * GIB, 2, "6.00 GiB instead of 4.00 GiB: 2 of 10 jobs exceeded their request"),
        (6.0 * GIB, 0, "6.00 GiB instead of 4.00 GiB: less is unlikely to be enough"),
    ],
)
def test_a_user_reads_why(client: FlaskClient, recommended: float, needed_more: int, words: str) -> None:
    amounts = (10, 40.0, 10.0, 0.0, 40.0, 0.0, 0.0, 0.0, needed_more, 0, 0)
    ask_for = None if recommended == 4.0 * GIB else recommended
    kept = KEPT["as requested"]
    row = SavingsRow(*amounts, "alpha", "cfd", "ann", "cfd", "7.s", 4.0 * GIB, recommended, ask_for, None, kept)
    template = client.application.jinja_env.get_template("waste_parts.html")
    assert str(template.make_module().why("memory", row)) == f"Memory {words}"  # type: ignore[attr-defined]


def test_each_row_has_its_name_in_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    user = "firstname.lastname12"
    hours = (123_456_789.0, 45_678_901.0, 0.0, 98_765_432.0, 1.0, 45_678_901.0, 0.37)
    figures = Waste(1_234_567, *hours, 12, 10, 123_456, 1.0, 0.5, None, None)
    amounts = (10, 40.0, 10.0, 0.0, 40.0, 0.0, 0.0, 0.0, 2, 2, 0)
    more = Raise("cfd", "7.s", 1_375_000.0, 1_378_380.0, 10, 2)
    advice = SavingsRow(
        *amounts, "alpha", "cfd", user, "cfd", "7.s", more.asked_for, more.asked_for, more.ask_for, more
    )
    row = WasteRow("alpha", user, 1_234_567, figures, figures, figures, figures, advice, advice)
    days = ("2026-01-01", "2026-02-01", None, None)
    left_out = dict.fromkeys(("memory", "runtime"), LeftOut(0, 0, 0))
    found = WasteList(1, 1, 1, None, "user", None, None, *days, figures, figures, figures, figures, left_out, [row])
    show({"memory": found, "runtime": found}, Console(width=80))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    row_of = re.compile(rf" {user} .* 45.7M +37 % +123M +45.7M +1.23M +123k")
    assert sum(row_of.match(line) is not None for line in lines) == 2
    words = f"alpha/{user} cfd: 15 d 22 h 53 min instead of 15 d 21 h 57 min; 2 of 10 needed more"
    assert words in " ".join(" ".join(lines).split())
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)


def test_small_amounts_have_three_digits_and_no_column_is_empty(
    client: FlaskClient, engine: Engine, database_url: str, jobsight: Jobsight
) -> None:
    at = {"start": NOON + 11 * DAY_S, "end": NOON + 11 * DAY_S + 60}
    write(engine, [ended(2000, user="kim", requested_memory_bytes=GIB, used_memory_bytes=GIB // 2, **at)])
    learn(engine)
    out = jobsight("savings", "--by", "application", "--user", "kim", on=database_url).out
    assert "0.0167" in out.split("Run time")[0], "a GiB for a minute"
    assert "e-" not in out
    assert "request" in out.split()
    assert "request" not in jobsight("savings", "--by", "application", on=database_url).out.split()


def test_an_application_that_needs_more_is_shown_beside_the_one_that_saves(
    client: FlaskClient, engine: Engine, ask: Ask, database_url: str, jobsight: Jobsight
) -> None:
    """Of ann's applications ``fluid`` could save most; ``mesh`` is killed at each of its requests."""
    killed = {"failure": "memory", "requested_memory_bytes": GIB, "used_memory_bytes": GIB, "exit_status": 137}
    runs = [
        ended(3000 + n, user="ann", name="mesh", start=NOON + n * 9000, end=NOON + n * 9000 + 60, **killed)
        for n in range(6)
    ]
    write(engine, runs)
    learn(engine)
    advice = ask(user="ann")["rows"][0]["memory_advice"]
    assert (advice["application"], advice["ask_for"] < advice["asked_for"]) == ("fluid", True)
    more = advice["more"]
    assert (more["application"], more["asked_for"], more["jobs"], more["needed_more"]) == ("mesh", GIB, 6, 6)
    assert more["ask_for"] >= 1.25 * GIB
    page = " ".join(client.get("/waste?user=ann&cluster=alpha").text.split())
    assert "Too small: 1 memory request, 0 time limits." in page
    assert "6 of 6 jobs needed more memory" in page
    assert "alpha/ann mesh: " in jobsight("savings", on=database_url).out
