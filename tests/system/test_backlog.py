"""A server that comes back to a long log answers questions while it reads and learns it."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests import make

from site_run import Site, wait_until

KNOWN, BACKLOG = 200, 1500
USERS = 20


def write_log(path: Path, numbers: range, start: int) -> None:
    """A job a second, each of a minute, by E records."""
    with path.open("a") as log:
        for number in numbers:
            began = start + number
            log.write(
                f"11/19/2026 00:00:01;E;{number}.server;user=u{number % USERS} group=g jobname=run{'abc'[number % 3]} "
                f"queue=q ctime={began} qtime={began} etime={began} start={began} owner=u@h exec_host=n1/0 "
                f"Resource_List.walltime=01:00:00 session=1 end={began + 60} Exit_status=0 "
                f"resources_used.cput=00:00:50 resources_used.mem={100_000 + number % 7}kb "
                "resources_used.walltime=00:01:00\n"
            )


def asked(site: Site, **question: str) -> Any:
    (answer,) = site.api("predictions", cluster="alpha", user="u3", metric="memory", **question)["predictions"]
    return answer


@pytest.mark.slow
def test_questions_are_answered_while_a_backlog_is_learned(tmp_path: Path) -> None:
    settings = ("--follow-interval-s", "0.1", "--profile-grace-s", "1")
    site = make.site(tmp_path / "site", *settings)
    log, start = site.accounting / "alpha" / "20261119", int(time.time()) - 80_000
    write_log(log, range(KNOWN), start)
    with site.serve():
        wait_until(lambda: site.settled(KNOWN), 120, lambda: site.log.read_text()[-2000:])
        # Jobs are profiled before they are learned, and a query server has what is learned a moment later.
        wait_until(lambda: asked(site)["user_jobs"] == KNOWN // USERS, 60, lambda: str(asked(site)))
    write_log(log, range(KNOWN, KNOWN + BACKLOG), start)
    meanwhile = []
    with site.serve():
        while not site.settled(KNOWN + BACKLOG):
            answers = asked(site), asked(site, application="runa", processors="1", walltime_s="3600")
            if not site.settled(KNOWN + BACKLOG):
                meanwhile.append(answers)
            time.sleep(0.05)
        wait_until(lambda: asked(site)["user_jobs"] == (KNOWN + BACKLOG) // USERS, 60, lambda: str(asked(site)))
    assert len(meanwhile) >= 5
    known = [alone["user_jobs"] for alone, _ in meanwhile]
    assert known == sorted(known)
    assert known[0] >= KNOWN // USERS
    for alone, of_job in meanwhile:
        assert 100_000 * 1024 <= alone["value"] <= 100_006 * 1024 <= alone["bound"] * 1.01
        assert of_job["reason"] is None
        assert of_job["n"] > 0


def append_start(path: Path, job_id: str) -> None:
    """A job that starts now, by its S record."""
    now = time.time()
    stamp = time.strftime("%m/%d/%Y %H:%M:%S", time.localtime(now))
    with path.open("a") as log:
        log.write(
            f"{stamp};S;{job_id};user=newcomer group=g jobname=new queue=q ctime={now:.0f} qtime={now:.0f} "
            f"etime={now:.0f} start={now:.0f} owner=u@h exec_host=n1/0 Resource_List.walltime=01:00:00\n"
        )


def is_ready(site: Site) -> bool:
    with urllib.request.urlopen(f"{site.url}/ready", timeout=60) as answer:
        return answer.status == 200


def seconds_until_on_now(tmp_path: Path, backlog: int) -> list[float]:
    """Seconds until *Now* showed each job that started while the backlog was learned."""
    settings = ("--follow-interval-s", "0.5", "--profile-grace-s", "1")
    site = make.site(tmp_path / "site", *settings)
    log = site.accounting / "alpha" / "20261119"
    write_log(log, range(backlog), int(time.time()) - 80_000)
    took, known = [], -1
    with site.serve():
        while not site.settled(backlog):
            jobs = site.api("now")["runs"]
            if jobs["ended"] < backlog or jobs["waiting"] == known:
                time.sleep(0.1)
                continue  # the next one when more was learned: its first rounds are not all
            known, job_id = jobs["waiting"], f"{100_000 + len(took)}.server"
            append_start(log, job_id)
            began = time.monotonic()
            while job_id not in {job["job_id"] for job in site.api("now", sort="started")["jobs"]}:
                assert is_ready(site)
                assert time.monotonic() - began < 60, site.log.read_text()[-2000:]
                time.sleep(0.05)
            took.append((time.monotonic() - began, site.settled(backlog)))
    print(took)  # if it fails
    return [seconds for seconds, was_settled in took if not was_settled]


@pytest.mark.slow
def test_a_job_that_starts_is_on_now_while_a_backlog_is_learned(tmp_path: Path) -> None:
    assert len(seconds_until_on_now(tmp_path, 2000)) >= 2


@pytest.mark.exhaustive
@pytest.mark.alone
def test_a_job_that_starts_is_on_now_within_five_seconds_beside_a_long_backlog(tmp_path: Path) -> None:
    took = seconds_until_on_now(tmp_path, 6_000)
    assert len(took) >= 5
    assert max(took) < 5.0
