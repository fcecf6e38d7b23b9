"""The report on a log: its numbers are those of the pages and of SQL, and it leaves one file behind."""

from __future__ import annotations

import gzip
import html
import json
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
from tests.make import Jobsight, not_none
from tests.server.commands.planted_slurm import text_of_sacct
from tests.server.test_walks import RECORD
from tests.traces import trace

from jobsight_server.advice.words import KEPT
from jobsight_server.queries.report import MOST_ON_A_NODE
from jobsight_server.savings.confidence import over_users
from jobsight_server.serve.app import create_app
from jobsight_server.settings.declared import Settings
from jobsight_server.web.kit.units import count, hours, percent

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
    accuracy = ask(log, tmp_path, sqlite_engine, "accuracy?by=cluster")
    for resource, unit in (("memory", "GiB"), ("processors", "processor"), ("runtime", "processor")):
        of = waste[resource]
        figures = (
            f"{hours(of['requested_hours'])} {hours(of['used_hours'])} {percent(of['unused_share'])} {of['jobs']} "
        )
        assert re.search(rf"{unit}-hours [\d,.]+ {figures}", words), of
    memory = waste["memory"]
    found = re.search(
        r"day one \(replayed\): ([\d.]+) GiB-hours freed, (\d+) % of the memory requested; 90 % interval over users: "
        r"(-?[\d.]+) to ([\d.]+) .*? equals up to ([\d.]+) nodes for the whole time, worth ([\d.]+)\.",
        words,
    )
    assert found is not None, words
    amount, _, low, high, nodes, money = map(float, found.groups())
    assert hours(memory["freed_hours"]) == found[1]
    assert found[2] == f"{100 * memory['freed_hours'] / (72 * 8 / 3):.0f}"
    assert low < amount < high < memory["requested_hours"]
    # Four days, and 8 GiB on the only node: what jobs requested at once.
    assert (nodes, money) == pytest.approx((amount / 8 / 96, amount / 8 * 0.5), abs=0.006)
    failed = f"{memory['would_run_out']} needed more than recommended"
    own = f"{memory['needed_more']} exceeded their request; {memory['ran_out']} of them failed"
    assert f"{failed}; {own}" in words
    assert memory["needed_more"] > memory["ran_out"] > 0
    gaining = [row for row in waste["rows"] if (row["memory"]["freed_hours"] or 0) > 0]
    rows = re.findall(r"<tr><td[^>]*>(\w+)</td>(.*?)</tr>", shown)
    assert [name for name, _ in rows][:5] == [*(row["name"] for row in gaining), "eve"]
    for row in gaining:
        advice, cells = row["memory_advice"], re.findall(r"<td[^>]*>(.*?)</td>", dict(rows)[row["name"]])
        # Each of 14 jobs of 20 minutes fits into its user's line.
        from_tomorrow = 14 / 3 * (8 - advice["recommended"] / 2**30)
        assert cells[2:4] == [hours(from_tomorrow), hours(row["memory"]["freed_hours"])]
        effect = max(from_tomorrow, row["memory"]["freed_hours"]) / (72 * 8 / 3)
        assert cells[4] == f"{100 * effect:.2g} % of memory"
        for each in (printed, shown):
            assert each.count(f"#PBS -l mem={advice['recommended'] / 2**20:.0f}mb") == 1
        job = ("--cluster", "c", "--user", row["name"], "--application", advice["application"])
        alone = jobsight("predict", *job, on=sqlite_engine).out
        assert f"Request {advice['recommended'] / 2**20:.0f}M" in alone
    assert f"No advice, because {KEPT['few runs']}." in words
    weeks = {of["metric"]: of["weeks"][0] for of in accuracy["rows"]}
    assert weeks.keys() == {"cpu", "memory", "runtime"}
    assert re.search(r"Week from +Memory +Run time *\n", printed)  # nothing is recommended for CPU
    of_week = [
        f"{percent(week['accuracy'])}, {percent(week['held'])}" for metric, week in weeks.items() if metric != "cpu"
    ]
    assert f"{weeks['memory']['first_day']} {' '.join(of_week)}" in words
    for reason, number in waste["left_out"]["memory"].items():
        phrase = {"without_request": "without a request", "without_use": "whose use is unknown"}.get(
            reason, "submitted before"
        )
        assert (f"Memory {phrase} {count(number)}" in words) == (number > 0)
    (more,) = [of["more"] for row in waste["rows"] if (of := row["memory_advice"]) and of["more"]]
    assert re.search(rf"eve +grow +memory {more['ask_for'] / 2**30:.0f}G +", printed)
    assert "memory: 3 killed, 2.00 h lost" in re.sub(r" +", " ", dict(rows)["eve"])
    for each in (printed, shown):
        assert f"#PBS -l mem={more['ask_for'] / 2**20:.0f}mb" in each
    assert "Of all processor-hours: 3.5 % lost by 3 jobs killed for lack of memory, " in words
    assert "Memory not requested, GiB-hours – – 9.38 – 14" in words
    assert "accounting lines rejected " in words


def test_a_line_changes_the_request(log: Path, tmp_path: Path, jobsight: Jobsight) -> None:
    """Without a request, or with one that fits, there is none."""
    fits = "Resource_List.mem=2150mb "
    log.write_text(
        "".join(
            record(number=2 * number + place, user=user, gb=2, asked=asked)
            for number in range(15)
            for place, (user, asked) in enumerate((("fay", ""), ("hal", fits)))
        )
    )
    printed = " ".join(jobsight("report", log, "--output", tmp_path / "report.html").out.split())
    assert "Nothing: no change has an effect of 0.1 % or more." in printed
    assert "(estimated on last week's jobs): no change No application with at least 0.1 % of last week's" in printed
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
    texts = [html.unescape(text) for text in re.findall(r'<p class="(?:wrap|detail)">(.*?)</p>', shown)]
    assert len(texts) > 9
    for sentence in texts:
        assert sentence in printed
    assert len(re.findall(r"<pre ", shown)) - 1 == printed.count("#PBS -l mem=") > 4


def test_a_log_without_a_gain_lists_nobody(tmp_path: Path, jobsight: Jobsight) -> None:
    log, page = tmp_path / "one", tmp_path / "page.html"
    log.write_text(record())
    printed, shown = (
        " ".join(jobsight("report", str(log), "--output", str(page), "--node-hour", "1").out.split()),
        page.read_text(),
    )
    assert "one: jobs that ended on 2023-11-15 (UTC)" in printed
    assert "They requested 2.67 GiB-hours of memory, and held 0.667 processor-hours." in printed
    assert "(replayed): 0.00 GiB-hours freed" in printed
    assert "nodes for the whole time" not in printed
    for each in (printed, shown):
        assert "No memory would be freed, so there is no saving to price." in each
        assert "Nothing: no change has an effect" in each
        assert "None: no forecast has been compared with use yet" in each


def seconds_of(row: dict[str, str]) -> int:
    return int(row["End"]) - int(row["Start"])


def test_planted_findings_come_first_each_with_a_text_to_its_user(tmp_path: Path, jobsight: Jobsight) -> None:
    log, texts = tmp_path / "sacct", tmp_path / "texts"
    log.write_text(text_of_sacct())
    printed = jobsight("report", "slurm", log, "--output", tmp_path / "a.html", "--mail-dir", texts).out
    words = " ".join(printed.split())
    assert words.startswith("sacct: jobs that ended from 2026-11-01 to 2026-11-29 (UTC) 2,000 jobs ended.")
    page = (tmp_path / "a.html").read_text()
    found = re.findall(r"<tr><td[^>]*>(\w+)</td><td[^>]*>(\w+)</td><td[^>]*>(.*?)</td>.*?>([\d.]+) % of", page)
    assert [user for user, *_ in found] == ["gina", "wide", "serial", "ghost", "greedy", "late", "tight"]
    assert [float(effect) for *_, effect in found] == sorted((float(effect) for *_, effect in found), reverse=True)
    changes = {user: change for user, _, change, _ in found}
    assert "GPUs: 1 % busy in 40 jobs" in changes["gina"]
    assert changes["ghost"] == "processors: idle or unseen in 20 jobs, 7,708 h"
    assert changes["wide"] == "memory 62G instead of 400G"
    assert "processors: 3 % busy in 50 jobs" in changes["serial"]
    assert changes["greedy"] == "memory 10G instead of 64G"
    # The advice counts the last 40 bursts.
    kills = re.search(
        r"time limit 8 h instead of 4 h; time limit: (\d+) killed, (\d+) more earlier or with other requests, "
        r"1,536 h lost in all$",
        changes["late"],
    )
    assert kills is not None, changes["late"]
    assert int(kills[1]) + int(kills[2]) == 24
    of_late = " ".join((texts / "late.txt").read_text().split())
    assert f"climate: {kills[1]} jobs were killed at the time limit, and {kills[2]} more earlier" in of_late
    assert f", {kills[1]} were killed at 4 h" in of_late
    assert "memory 12G instead of 8G" in changes["tight"]
    assert "memory: 17 killed, 275 h lost" in changes["tight"]
    assert "ghost" not in words.partition("What to change first")[0]
    assert {file.stem for file in texts.iterdir()} == {*changes}
    # On the jobs of the last week.
    heads, *lines = (line.split("\x1f") for line in log.read_text().splitlines())
    jobs = [row for line in lines if "." not in (row := dict(zip(heads, line, strict=True)))["JobIDRaw"]]
    newest = max(int(row["End"]) for row in jobs) // 86_400
    of_wide = [row for row in jobs if row["User"] == "wide" and int(row["End"]) >= (newest - 6) * 86_400]
    assert len(of_wide) > 3
    freed = sum(seconds_of(row) for row in of_wide) / 3600 * (400 - 62)
    assert re.search(rf"wide +ocean +memory 62G instead +{hours(freed)} +", printed)
    text = (texts / "wide.txt").read_text()
    assert "ocean on 64 processors of 4 nodes: Request 62G." in text
    assert "    #SBATCH --mem=15872M\n    # on each of 4 nodes\n" in text
    assert max(map(len, text.splitlines())) <= 80
    (texts / "wide.txt").unlink()
    texts.rename(tmp_path / "file")
    (tmp_path / "texts").write_text("")
    command = ("report", log, "--output", tmp_path / "a.html", "--mail-dir", texts)
    assert "name a directory to create" in jobsight(*command, status=1).err


@pytest.mark.exhaustive
def test_a_real_day_names_its_dearest_request(tmp_path: Path, jobsight: Jobsight) -> None:
    """No job of user027 could have followed advice: all were submitted before the first one ended."""
    page = tmp_path / "a.html"
    jobsight("report", trace("../accounting/torque-20110908.gz"), "--output", page)
    found = re.findall(r"<tr><td[^>]*>(user\d+)</td>.*?>(.*?)</tr>", page.read_text())
    assert [user for user, _ in found[:2]] == ["user032", "user046"]
    assert "idle or unseen in 7 jobs, 33,912 h" in found[0][1]
    (row,) = [row for user, row in found[:7] if user == "user027"]
    assert "memory 1700M instead of 2300M" in row
    assert 4000 < float(re.findall(r'num">([\d,.]+)</td>', row)[0].replace(",", "")) < 4500
    assert "user037" in dict(found)  # one job that held much and used little


@pytest.mark.storage
def test_a_node_has_what_was_requested_on_it_at_once(engine: Engine) -> None:
    """Jobs that meet only at their ends were never there together; address space is no memory."""
    spans = {1: (0, 10, 3, False), 2: (5, 20, 5, False), 3: (20, 30, 6, None), 4: (5, 9, 90, True)}
    with engine.begin() as connection:
        for number, (start, end, gib, is_virtual) in spans.items():
            asked = {"requested_memory_bytes": 2 * gib * 2**30, "memory_is_virtual": is_virtual}
            make.job(connection, f"{number}", id=number, start=start, end=end, **asked, on={"a": 1, "b": 1})
        assert connection.scalar(MOST_ON_A_NODE) == 8 * 2**30


def test_the_interval_is_that_of_the_central_limit_theorem() -> None:
    """Over many users who are alike, as a reference of its own."""
    amounts = np.random.default_rng(7).exponential(10.0, 400)
    found = over_users(amounts)
    half = 1.645 * amounts.std() * len(amounts) ** 0.5
    assert found.amount == pytest.approx(amounts.sum())
    assert (found.low, found.high) == pytest.approx((amounts.sum() - half, amounts.sum() + half), rel=0.01)
    assert over_users([5.0] * 4).low is None
    assert (over_users([5.0] * 5).low, over_users([]).amount) == (25.0, 0.0)
    assert over_users([90.0, *[1.0] * 9]).high is None, "one user who differs says nothing of the others"
    few = 90.0, 60.0, 30.0, 20.0, 10.0, 5.0, 5.0
    assert 220.0 < not_none(over_users(few).high) < 600.0
    assert over_users(few, 300.0).high == 300.0


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
    report = f"{sys.executable} -m jobsight_server.cli report torque"
    pipe = f"{report} <(gzip -c {log} | zcat)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    closed = subprocess.run(
        ["bash", "-c", f"{report} - <&-"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (closed.returncode, closed.stdout) == (1, "")
    assert closed.stderr == "jobsight report: standard input is closed: pipe a log into it, or name a file\n"
    done = subprocess.run(
        ["bash", "-c", pipe], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == "a pipe: jobs that ended from 2023-11-15 to 2023-11-18 (UTC)"
    assert done.stdout.splitlines()[-1] == "The same as a page: report.html, which replaces the one before"


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
    assert found.splitlines()[0] == "accounting: jobs that ended from 2023-11-15 to 2023-11-18 (UTC)"
    (directory / "README").write_text("free text")
    Path("report.html").unlink()
    assert "unreadable: README: no known format" in jobsight("report", ".", status=1).err
    assert "What to change first" in Path("report.html").read_text()
    (tmp_path / "empty").mkdir()
    assert "empty: this directory has no files" in jobsight("report", tmp_path / "empty", status=1).err


def test_runs_that_were_idle_or_not_seen_are_one_row_of_the_table_and_count_nowhere_else(
    log: Path, tmp_path: Path, jobsight: Jobsight
) -> None:
    """Two runs of gus's, of two applications, used 11 s of CPU time each."""
    page = tmp_path / "report.html"
    without = jobsight("report", log, "--output", page).out
    unseen = [record(number=300 + number, user="gus", name=f"raw{'ab'[number]}") for number in range(2)]
    with log.open("a") as stream:
        stream.writelines(
            line.replace("cput=00:30:00", "cput=00:00:11").replace("Resource_List.nodes=1:ppn=2", "x=y")
            for line in unseen
        )
    printed = " ".join(jobsight("report", log, "--output", page).out.split())
    held = 86 * 2 * 20 / 60
    share = f"{100 * 4 / 3 / (held + 4 / 3):.2g} %"
    assert f", {share} idle or unseen." in printed
    assert "idle, or started outside the batch system" in printed
    shown = page.read_text()
    row = re.search(r"<tr><td[^>]*>gus</td><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>.*?>([^<]*)</td></tr>", shown)
    assert row is not None
    assert row.groups() == ("–", "processors: idle or unseen in 2 jobs, 1.33 h", f"{share} of processors")
    assert "2 jobs held 1 processor-hours and used less than 0.5 % of them" in printed
    rows = [line.split() for line in without.splitlines() if line.startswith((" Memory,", " Processors,"))]
    assert len(rows) == 2
    for row in rows:
        assert " ".join(row[3:]) in printed


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
        (record(), ["--output", "../notes"], "--output ../notes: this file is not a report and would be replaced"),
        (record(), ["absent"], "no such file: absent; formats are torque"),
        (record(), ["--node-hour", "0"], "--node-hour 0.0 is not a price above 0"),
        (record(), ["--output", "."], "--output .: it cannot be written"),
    ],
)
def test_what_gives_no_report_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobsight: Jobsight, content: str, more: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log").write_text(content)
    (tmp_path.parent / "notes").write_text("of mine")
    assert said in jobsight("report", "log", *more, status=1).err
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
    assert Path("log").read_text() == content


def test_a_history_of_htcondor_gets_lines_for_its_submit_files(tmp_path: Path, jobsight: Jobsight) -> None:
    history = tmp_path / "history.json"
    ads = [
        {
            "ClusterId": number,
            "ProcId": 0,
            "JobStatus": 4,
            "Owner": "ann",
            "Cmd": "/home/ann/fold.sh",
            "QDate": BEGIN + 7200 * number,
            "JobCurrentStartDate": BEGIN + 7200 * number + 60,
            "CompletionDate": BEGIN + 7200 * number + 3660,
            "RequestCpus": 1,
            "RequestMemory": 8192,
            "ResidentSetSize_RAW": 2**20 + number,
            "RemoteUserCpu": 3500.0,
        }
        for number in range(1, 40)
    ]
    history.write_text("\n".join(json.dumps(ad) for ad in ads))
    printed = " ".join(jobsight("report", "condor", history, "--output", tmp_path / "report.html").out.split())
    asked = re.search(r"request_memory = ([0-9]+)M retry_request_memory = ([0-9]+)M", printed)
    assert asked is not None
    assert 1024 < int(asked[1]) < 2048
    assert int(asked[2]) == 8192
    assert 'format = "condor"' in printed
    assert "jobsight setup" not in printed


def test_a_use_that_the_log_lacks_is_not_blamed_on_nodes(tmp_path: Path, jobsight: Jobsight) -> None:
    table = tmp_path / "jobs.csv"
    head = "job_id,user,start_epoch_s,end_epoch_s,processors,used_memory_bytes"
    table.write_text(f"{head}\n1,ann,1700000000,1700003600,1,\n2,ann,1700010000,1700013600,1,1000000000\n")
    printed = jobsight("report", "table", table, "--output", tmp_path / "page.html").out
    assert re.findall(r"(CPU|Memory) unknown +(.*?) +(\d+)", printed) == [
        ("CPU", "not in the log", "2"),
        ("Memory", "not in the log", "1"),
    ]
