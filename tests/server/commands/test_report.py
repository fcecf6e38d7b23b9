"""The report on a log: its numbers are those of the pages and of SQL, and it leaves one file behind."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine
from tests import make
from tests.make import Jobsight
from tests.server.test_walks import RECORD

from jobsight_server.advice.words import KEPT
from jobsight_server.savings.confidence import over_users
from jobsight_server.serve.app import create_app
from jobsight_server.settings.declared import Settings
from jobsight_server.web.kit.units import count, hours, many, percent, size

BEGIN = 1_700_006_400  # 2023-11-15
SCRIPT = "<script>alert(1)</script>"
JOB = {"number": 0, "user": "ann", "name": "mesh", "gb": 2, "asked": "Resource_List.mem=8gb "}


def record(**changes: Any) -> str:
    """A job of two processors, ``number`` thirds of an hour after the first; with more than 10 GB it fails."""
    of = JOB | changes
    begin = BEGIN + 1200 * of["number"]
    line = RECORD.format(
        at=time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(begin + 1200)),
        number=of["number"], user=of["user"], name=of["name"], begin=begin, end=begin + 1200,
    )  # fmt: skip
    line = line.replace("session=1 ", "owner=u@login session=1 ").replace("status=0", f"status={int(of['gb'] > 10)}")
    return line.replace("mem=900000kb", f"mem={of['gb'] * 2**20:.0f}kb").replace("Resource_List.mem=8gb ", of["asked"])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Seven users: jobs of eve outgrow their requests, fay requests nothing, gus has few; and a damaged line."""
    lines = [
        record(number=20 * number + place, user=user, name=name, gb=gb + number % 3 * 0.01, asked=asked)
        for number in range(14)
        for place, (user, name, gb, asked) in enumerate(
            [
                ("ann", "mesh", 2, JOB["asked"]),
                ("bob", SCRIPT, 3, JOB["asked"]),
                ("cyd", "fit", 4, JOB["asked"]),
                ("dan", "fit", 1, JOB["asked"]),
                ("eve", "grow", 5 + number % 7, JOB["asked"]),
                ("fay", "mesh", 2, ""),
                ("gus", "few", 1, JOB["asked"]),
            ]
        )
        if user != "gus" or number < 2
    ]
    file = tmp_path / "20231115"
    file.write_text("".join(lines) + "damaged;E;line\n")
    return file


def ask(log: Path, tmp_path: Path, engine: Engine, path: str) -> Any:
    """What the pages of a site with the same jobs show."""
    client = make.person(create_app(Settings(database=str(engine.url)), engine, engine), engine)
    return client.get(f"/api/v1/{path}&since=2023-11-15&until=2023-11-18").get_json()


def test_its_numbers_are_those_of_pages(log: Path, tmp_path: Path, sqlite_engine: Engine, jobsight: Jobsight) -> None:
    page = tmp_path / "report.html"
    printed = jobsight("report", log, "--output", page, "--node-hour", "0.5").out
    shown, words = page.read_text(), " ".join(printed.split())
    jobsight("import", str(log), "--cluster", "c", on=sqlite_engine)
    waste = ask(log, tmp_path, sqlite_engine, "waste?sort=memory_freed")
    trust = ask(log, tmp_path, sqlite_engine, "accuracy?by=cluster")
    for resource in ("memory", "processors", "runtime"):
        of = waste[resource]
        figures = [hours(of["requested_hours"]), hours(of["used_hours"])], percent(of["unused_share"]), of["jobs"]
        assert re.search(rf"-hours +{figures[0][0]} +{figures[0][1]} +{figures[1]} +{figures[2]} *\n", printed), of
    memory = waste["memory"]
    freed = re.search(
        r"would have freed ([\d.]+) \((-?[\d.]+) to ([\d.]+) by a 90 %.*?at most ([\d.]+).*? or ([\d.]+)", words
    )
    assert freed is not None, words
    amount, low, high, nodes, money = map(float, freed.groups())
    assert hours(memory["freed_hours"]) == freed[1]
    assert low < amount < high < memory["requested_hours"]
    # Four days, and 8 GiB on the only node: what one job requested.
    assert (nodes, money) == pytest.approx((amount / 8 / 96, amount / 8 * 0.5), abs=0.006)
    failed = f"{memory['would_run_out']} of {many(memory['jobs'], 'job')} needed more than recommended"
    own = f"{memory['needed_more']} needed more than they requested, and {memory['ran_out']} of these failed"
    assert f"{failed}; {own}" in words
    assert memory["needed_more"] > memory["ran_out"] > 0
    gaining = [row for row in waste["rows"] if (row["memory"]["freed_hours"] or 0) > 0]
    of_users = printed.partition("Applications with")[0]
    (gus,) = [row["memory"] for row in waste["rows"] if row["name"] == "gus"]
    kept = f"gus: {hours(gus['unused_hours'])} of {hours(gus['requested_hours'])} GiB-hours unused; keep the request of"
    for place in (words, shown):
        assert f"{kept} few: {KEPT['few runs']}." in place
    assert re.findall(r"^(\w+): .* freed;", of_users, re.MULTILINE) == [row["name"] for row in gaining]
    for row in gaining:
        of, advice = row["memory"], row["memory_advice"]
        assert f"{row['name']}: {hours(of['freed_hours'])} of {hours(of['requested_hours'])} GiB-hours freed" in words
        assert f"#PBS -l mem={advice['recommended'] / 2**20:.0f}mb" in printed
        assert shown.count(f"#PBS -l mem={advice['recommended'] / 2**20:.0f}mb") >= 1
        assert re.search(r"on \d+ processors?\b", printed)
        job = ("--cluster", "c", "--user", row["name"], "--application", advice["application"])
        alone = jobsight("predict", *job, on=sqlite_engine).out
        assert f"Ask for {advice['recommended'] / 2**20:.0f}M" in alone
    weeks = {of["metric"]: of["weeks"][0] for of in trust["rows"]}
    assert weeks.keys() == {"cpu", "memory", "runtime"}
    assert re.search(r"Week from +Memory +Run time *\n", printed)  # nothing is recommended for CPU
    of_week = [
        f"{percent(week['accuracy'])}, {percent(week['held'])}" for metric, week in weeks.items() if metric != "cpu"
    ]
    assert f"{weeks['memory']['first_day']} {' '.join(of_week)}" in words
    for reason, number in waste["left_out"]["memory"].items():
        phrase = {"without_request": "without a request", "without_use": "without an exact use"}.get(
            reason, "submitted before"
        )
        assert (f"{count(number)} Memory: {phrase}" in words) == (number > 0)
    (more,) = [of["more"] for row in waste["rows"] if (of := row["memory_advice"]) and of["more"]]
    assert f"grow of eve: {size(more['ask_for'])} of memory instead of 8.00 GiB; {more['needed_more']} jobs" in words
    for each in (printed, shown):
        assert f"#PBS -l mem={more['ask_for'] / 2**20:.0f}mb" in each.partition("must ask for more")[2]
    assert "accounting lines rejected: " in words


def test_lines_ask_for_nothing_that_jobs_did_not_request(log: Path, tmp_path: Path, jobsight: Jobsight) -> None:
    log.write_text("".join(record(number=one, user="fay", name="mesh", gb=1, asked="") for one in range(30)))
    printed = jobsight("report", log, "--output", tmp_path / "report.html").out
    assert "No user: recommended requests would have freed nothing." in printed
    assert "#PBS" not in printed


def test_the_page_is_one_file_and_says_what_the_text_says(log: Path, tmp_path: Path, jobsight: Jobsight) -> None:
    page = tmp_path / "a.html"
    packed = tmp_path / "more.gz"
    packed.write_bytes(gzip.compress(record(number=300, name="late").encode()))
    printed = " ".join(jobsight("report", log, packed, "--output", page).out.split())
    shown = page.read_text()
    assert len(shown) < 2_000_000
    assert re.findall(r"(?:src|href)=|https?:|url\(|@import", shown) == []
    assert SCRIPT not in shown
    assert "jobsight setup torque" in shown
    assert "jobsight setup torque" in printed
    for sentence in re.findall(r'<p class="answer">(.*?)</p>', shown):
        assert sentence in printed
    assert len(re.findall(r"<pre ", shown)) == printed.count("#PBS -l mem=") > 4


def test_a_log_without_a_gain_lists_nobody(tmp_path: Path, jobsight: Jobsight) -> None:
    log, page = tmp_path / "one", tmp_path / "page.html"
    log.write_text(record())
    printed, shown = (
        " ".join(jobsight("report", str(log), "--output", str(page), "--node-hour", "1").out.split()),
        page.read_text(),
    )
    assert "one: jobs that ended on 2023-11-15 (UTC)" in printed
    assert "would have freed none of 2.67 GiB-hours" in printed
    assert "nodes all the time" not in printed
    for each in (printed, shown):
        assert "No user: recommended requests would have freed nothing" in each
        assert "No application: recommended" in each
        assert "None: no forecast has been compared with use yet" in each


def test_the_interval_is_that_of_the_central_limit_theorem() -> None:
    """Over many users who are alike, as a reference of its own."""
    amounts = np.random.default_rng(7).exponential(10.0, 400)
    found = over_users(amounts)
    half = 1.645 * amounts.std() * len(amounts) ** 0.5
    assert found.amount == pytest.approx(amounts.sum())
    assert (found.low, found.high) == pytest.approx((amounts.sum() - half, amounts.sum() + half), rel=0.01)
    assert over_users([5.0] * 4).low is None
    assert (over_users([5.0] * 5).low, over_users([]).amount) == (25.0, 0.0)


def reporting(log: Path | str, place: Path, **more: Any) -> subprocess.Popen[str]:
    """A report whose temporary files are in ``place / "tmp"``."""
    (place / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "jobsight_server.cli", "report", str(log)]
    environment = {**os.environ, "TMPDIR": str(place / "tmp"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=place, env=environment, text=True, **pipes, **more)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_report_that_is_interrupted_leaves_nothing(log: Path, tmp_path: Path, number: int) -> None:
    place = tmp_path / "here"
    place.mkdir()
    log.write_text("".join(record(number=one) for one in range(5000)))
    running = reporting(log, place)
    deadline = time.monotonic() + 600
    # Jobs are being stored: Python ignores an exception of a signal's handler in a callback of its imports.
    while not any(file.stat().st_size > 2**21 for file in (place / "tmp").glob("*/report.db*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode in (128 + number, -number)
    assert "Traceback" not in said
    assert [*(place / "tmp").iterdir(), *place.glob("*.html")] == []


def test_standard_input_is_a_log_too(log: Path, tmp_path: Path) -> None:
    with log.open() as stream:
        out, said = reporting("-", tmp_path, stdin=stream).communicate(timeout=120)
    assert out.startswith("standard input: jobs that ended from 2023-11-15 to 2023-11-18"), said
    assert max(map(len, out.splitlines())) <= 80
    assert list((tmp_path / "tmp").iterdir()) == []
    assert (tmp_path / "report.html").exists()


def test_a_directory_is_its_files(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobsight: Jobsight
) -> None:
    directory = tmp_path / "accounting"
    directory.mkdir()
    lines = log.read_text().splitlines(keepends=True)
    (directory / "20231115").write_text("".join(lines[:40]))
    (directory / "20231116").write_text("".join(lines[40:]))
    monkeypatch.chdir(directory)
    whole = jobsight("report", log, "--output", tmp_path / "whole.html").out
    found = jobsight("report", ".").out
    assert found.splitlines()[2:-1] == whole.splitlines()[2:-1]
    (directory / "README").write_text("free text")
    Path("report.html").unlink()
    assert "unreadable: README: no known format" in jobsight("report", ".", status=1).err
    assert "Who must ask for more" in Path("report.html").read_text()
    (tmp_path / "empty").mkdir()
    assert "empty: this directory has no files" in jobsight("report", tmp_path / "empty", status=1).err


def test_runs_that_were_idle_or_not_seen_are_named_and_count_nowhere(
    log: Path, tmp_path: Path, jobsight: Jobsight
) -> None:
    """Two runs of gus's hold as long as 40 others together, with 11 s of CPU time in each."""
    page = tmp_path / "report.html"
    without = jobsight("report", log, "--output", page).out
    unseen = [record(number=300 + number, user="gus", name="raw") for number in range(2)]
    with log.open("a") as stream:
        stream.writelines(
            line.replace("cput=00:30:00", "cput=00:00:11").replace("Resource_List.nodes=1:ppn=2", "x=y")
            for line in unseen
        )
    printed = " ".join(jobsight("report", log, "--output", page).out.split())
    held = 88 * 2 * 20 / 60
    assert (f"2 runs, most of gus, used less than .5 % of 1.33 processor-hours ({4 / 3 / (held + 4 / 3):.0%}").replace(
        "%", " %"
    ).replace(".5  %", ".5 %") in printed
    assert "idle, or started past the batch system" in page.read_text()
    rows = {line.split()[0]: line for line in without.splitlines() if line.startswith((" Memory", " Processors"))}
    assert len(rows) == 2
    for row in rows.values():
        assert " ".join(row.split()) in printed


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (
            "JobName State MaxRSS\nx COMPLETED 5\n",
            [],
            "For columns of sacct, run sacct -aDP --delimiter=$'\\x1f' --format=",
        ),
        ("free text", [], "log: no known format: it begins with 'free text'. Name one: torque, "),
        ("", [], "log: no known format: it is empty"),
        (record().replace(";E;", ";S;"), [], "no job has ended in log"),
        (record(), ["--output", "absent/report.html"], "--output absent/report.html: there is no directory absent"),
        (record(), ["--output", "log"], "the report would replace this log"),
        (record(), ["absent"], "no such file: absent; formats are torque"),
        (record(), ["--node-hour", "0"], "--node-hour 0.0 is not a price above 0"),
        (record(), ["--output", "."], "--output .: it cannot be written"),
    ],
)
def test_what_gives_no_report_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobsight: Jobsight,
    content: str,
    more: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log").write_text(content)
    assert said in jobsight("report", "log", *more, status=1).err
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
    assert Path("log").read_text() == content
