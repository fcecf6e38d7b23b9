"""What the report advises: requests that can be made, each with the jobs that it is about, and kills counted once."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from tests.make import Jobsight
from tests.server.test_walks import RECORD

from jobsight_server.ground.amounts import clock_text

BEGIN = 1_700_006_400  # 2023-11-15
MINUTE_S, HOUR_S = 60, 3600
JOB = {"user": "ann", "asked_mb": 2200, "limit_s": 2 * HOUR_S, "took_s": 1200, "cpu_s": 1150, "slots": 1, "status": 0}


def record(number: int, **changes: Any) -> str:
    """A job that uses 2,000 MiB, six hours after the one before."""
    of = JOB | changes
    begin = BEGIN + 6 * HOUR_S * number
    end = begin + of["took_s"]
    at = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(end))
    line = RECORD.format(at=at, number=number, user=of["user"], name="mesh", begin=begin, end=end)
    for before, after in (
        ("n1/0+n1/1", "+".join(f"n1/{slot}" for slot in range(of["slots"]))),
        ("ppn=2", f"ppn={of['slots']}"),
        ("List.mem=8gb", f"List.mem={of['asked_mb']}mb"),
        ("List.walltime=02:00:00", f"List.walltime={clock_text(of['limit_s'])}"),
        ("Exit_status=0", f"Exit_status={of['status']}"),
        ("cput=00:30:00", f"cput={clock_text(of['cpu_s'])}"),
        ("used.mem=900000kb", "used.mem=2000mb"),
        ("used.walltime=00:20:00", f"used.walltime={clock_text(of['took_s'])}"),
    ):
        assert before in line
        line = line.replace(before, after)
    return line


def killed(number: int, limit_s: int) -> str:
    return record(number, limit_s=limit_s, took_s=limit_s + 20, cpu_s=limit_s, status=-11)


def reported(lines: list[str], place: Path, jobsight: Jobsight) -> tuple[list[list[str]], str]:
    """The cells of the table of changes, and the only letter."""
    log, page, letters = place / "log", place / "report.html", place / "letters"
    log.write_text("".join(lines))
    jobsight("report", "torque", log, "--output", page, "--mail-dir", letters)
    table = page.read_text().partition("What to change first")[2].partition("</table>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", table)]
    (letter,) = letters.iterdir()
    return rows, " ".join(letter.read_text().split())


def test_a_job_on_one_processor_is_not_to_request_fewer(tmp_path: Path, jobsight: Jobsight) -> None:
    rows, letter = reported([record(number, cpu_s=240) for number in range(20)], tmp_path, jobsight)
    assert "processors: 20 % busy in 20 jobs" in rows[0][2]
    assert "mesh: the processor of each of 20 jobs was idle 80 % of the time. Check what they wait for" in letter
    assert "Request fewer" not in letter


def test_jobs_on_several_processors_are_to_request_fewer(tmp_path: Path, jobsight: Jobsight) -> None:
    _, letter = reported([record(number, cpu_s=240, slots=2) for number in range(20)], tmp_path, jobsight)
    assert "mesh: 20 jobs used 10 % of their processors. Request fewer" in letter


def test_each_advice_on_an_application_names_the_jobs_that_it_is_about(tmp_path: Path, jobsight: Jobsight) -> None:
    """Half of the jobs request too much memory, and the others too little time."""
    lines = [record(n, asked_mb=8000) if n % 2 else killed(n, 40 * MINUTE_S) for n in range(24)]
    ((_, _, change, *_),), letter = reported(lines, tmp_path, jobsight)
    advised = [(one.partition(":")[0], one) for one in re.split(r"; (?=jobs of|time limit:)", change)]
    assert {of for of, _ in advised} == {
        "jobs of 8000M and 2 h on 1 processor",
        "jobs of 2200M and 40 min on 1 processor",
        "time limit",
    }
    words = dict(advised)
    assert "memory 2100M instead of 8000M" in words["jobs of 8000M and 2 h on 1 processor"]
    assert "time limit 1 h 30 min instead of 40 min" in words["jobs of 2200M and 40 min on 1 processor"]
    for of in ("8000M and 2 h", "2200M and 40 min"):
        assert letter.count(f"mesh on 1 processor that requests {of}: Request ") == 1


def test_row_and_letter_count_the_same_kills_and_name_others_apart(tmp_path: Path, jobsight: Jobsight) -> None:
    """Six jobs were killed at another limit ten days before; of the last ones three were."""
    lines = [killed(n, 20 * MINUTE_S) for n in range(6)]
    lines += [record(n, limit_s=4 * HOUR_S, took_s=2 * HOUR_S, cpu_s=7000) for n in range(46, 52)]
    lines += [killed(n, 4 * HOUR_S) for n in range(52, 55)]
    ((*_, change, from_tomorrow, from_day_one, _),), letter = reported(lines, tmp_path, jobsight)
    kills = "3 killed, 6 more earlier or with other requests, 14.1 h lost in all"
    assert change == f"time limit 8 h 10 min instead of 4 h; time limit: {kills}"
    assert "mesh: 3 jobs were killed at the time limit, and 6 more earlier or with other requests; 14 " in letter
    assert "3 were killed at 4 h" in letter
    # Without a change of memory, none is freed.
    assert (from_tomorrow, from_day_one) == ("–", "–")


def test_one_kill_is_in_the_singular(tmp_path: Path, jobsight: Jobsight) -> None:
    lines = [record(n, limit_s=4 * HOUR_S, took_s=2 * HOUR_S, cpu_s=7000) for n in range(6)]
    _, letter = reported([*lines, killed(6, 4 * HOUR_S)], tmp_path, jobsight)
    assert "mesh: 1 job was killed at the time limit; 4 processor-hours were lost." in letter
    assert "6 ended within 2 h, 1 was killed at 4 h" in letter


def test_the_row_names_every_change_of_the_letter(tmp_path: Path, jobsight: Jobsight) -> None:
    lines = [record(n, asked_mb=8000, limit_s=20 * HOUR_S) for n in range(40)]
    ((_, _, change, from_tomorrow, *_),), letter = reported(lines, tmp_path, jobsight)
    assert change == "memory 2100M instead of 8000M, time limit 40 min instead of 20 h"
    assert "mesh on 1 processor: Request 2100mb and 40 min." in letter
    assert float(from_tomorrow) > 0


def test_limits_that_jobs_outlast_are_not_said_to_kill(tmp_path: Path, jobsight: Jobsight) -> None:
    lines = [record(n, asked_mb=8000, limit_s=HOUR_S, took_s=3 * HOUR_S, cpu_s=10_000) for n in range(24)]
    _, letter = reported(lines, tmp_path, jobsight)
    assert "Keep the time limit: a shorter one frees nothing by itself; limits are not enforced there" in letter
    assert "are killed" not in letter
