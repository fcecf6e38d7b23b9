"""Waiting jobs are changed within limits, each change recorded before it is made, and undone."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update
from tests import make

from jobsight_server.accounting.parsers import pbspro
from jobsight_server.accounting.store import apply_events
from jobsight_server.savings.changes import changed_runs, last_adjustments
from jobsight_server.storage.schema import jobs

GIB = 2**30


def kib(text: str) -> float:
    return int(text.removesuffix("kb")) / 2**20 if text.endswith("kb") else float(text.removesuffix("gb"))


def given(site: Any) -> dict[str, float]:
    """GiB of each job, as the scheduler has it."""
    return {job_id: kib(text) for job_id, text in site.pbs.given().items()}


def test_a_dry_run_shows_and_changes_nothing(site: Any) -> None:
    site.pbs.submit("101.srv")
    site.pbs.submit("102.srv", Job_Owner="new@login", Job_Name="other")
    site.follow()
    done = site.command()
    assert done.returncode == 0, done.stderr
    assert "101.srv" in done.stdout
    assert "1 change would be made; --apply makes them" in done.stdout
    assert (given(site), site.pbs.calls, site.rows()) == ({"101.srv": 16.0, "102.srv": 16.0}, [], [])


@pytest.mark.storage
def test_requests_are_lowered_on_record_known_as_the_users_own_and_undone(site: Any) -> None:
    site.pbs.submit("101.srv")
    site.pbs.submit("102.srv", resources={"select": "2:ncpus=2:mem=8gb", "mem": "16gb"})
    site.pbs.submit("103.srv", job_state="R", stime="Tue Nov 14 22:13:20 2023")
    site.follow()
    done = site.command("--apply", "--json")
    assert done.returncode == 0, done.stderr
    changes = json.loads(done.stdout)["changes"]
    assert [(one["job_id"], one["outcome"]) for one in changes] == [("101.srv", "done"), ("102.srv", "done")]
    after = given(site)
    assert 1.0 <= after["101.srv"] < 4.0
    assert after["103.srv"] == 16.0
    assert site.pbs.jobs["102.srv"]["Resource_List"]["select"].startswith("2:ncpus=2:mem=")
    assert {row[-1] for row in site.rows()} == {"done"}
    site.follow()
    (run,) = make.rows(site.engine, select(jobs).where(jobs.c.job_id == "101.srv"))
    assert run.asked_memory_bytes == 16 * GIB
    assert run.requested_memory_bytes == pytest.approx(after["101.srv"] * GIB)
    again = json.loads(site.command("--apply", "--json").stdout)
    assert again["changes"] == [], "what the job has now is not taken for its request"
    undone = site.command("--undo")
    assert undone.returncode == 0, undone.stderr
    assert given(site)["101.srv"] == 16.0
    assert site.pbs.jobs["102.srv"]["Resource_List"]["select"] == f"2:ncpus=2:mem={8 * 2**20}kb"
    assert {row[-1] for row in site.rows()} == {"undone"}


@pytest.mark.parametrize(
    ("mode", "after_kill", "resolved"), [("kill before", 16.0, "not made"), ("kill after", None, "done")]
)
def test_killed_in_the_middle_it_knows_what_it_has_done(
    site: Any, mode: str, after_kill: float | None, resolved: str
) -> None:
    for job_id in ("101.srv", "102.srv", "103.srv"):
        site.pbs.submit(job_id)
    site.follow()
    site.pbs.mode(mode)
    assert site.command_to_kill("--apply") == -9
    assert [row[-1] for row in site.rows()] == ["begun"]
    lowered = given(site)["101.srv"]
    assert lowered == after_kill if after_kill else lowered < 4.0
    assert [given(site)[job_id] for job_id in ("102.srv", "103.srv")] == [16.0, 16.0]
    site.pbs.mode("works")
    found = json.loads(site.command("--apply", "--json").stdout)
    assert found["resolved"] == [{"job_id": "101.srv", "resource": "memory", "state": resolved}]
    assert all(value < 4.0 for value in given(site).values())
    site.pbs.mode(mode)
    assert site.command_to_kill("--undo") == -9
    assert [row[-1] for row in site.rows()].count("undoing") == 1
    site.pbs.mode("works")
    assert site.command("--undo").returncode == 0
    assert set(given(site).values()) == {16.0}
    assert "undoing" not in {row[-1] for row in site.rows()}


def test_what_fails_is_kept_shown_and_costs_no_other(site: Any) -> None:
    for number in range(101, 115):
        site.pbs.submit(f"{number}.srv")
    site.follow()
    site.pbs.mode("refuse")
    done = site.command("--apply")
    assert done.returncode == 1
    assert "Unauthorized" in done.stdout
    assert [row[-1] for row in site.rows()] == ["failed"] * 10, "then something else is wrong"
    assert set(given(site).values()) == {16.0}
    site.pbs.mode("hang")
    result = site.adjuster(timeout_s=1.0, jobs_at_most=1).apply()
    assert result.proposed[0].error.startswith("silent for 1 s")


def test_what_has_failed_is_never_given_again_and_a_requeued_job_gets_more(site: Any) -> None:
    site.pbs.submit("101.srv")
    site.follow()
    site.adjuster().apply()
    lowered = given(site)["101.srv"]
    # It runs, runs out of memory, and is requeued with what it had.
    line = (
        "11/14/2023 22:20:00;{};101.srv;user=ann group=g jobname=cfd queue=q ctime=1700000000 qtime=1700000000 "
        "etime=1700000000 start=1700000100 exec_host=n1/0*4 Resource_List.mem={}kb Resource_List.ncpus=4"
    )
    size = int(lowered * 2**20)
    ended = " end=1700000200 Exit_status=-27 resources_used.mem=" + f"{size}kb"
    with site.engine.begin() as connection:
        for kind, more in (("S", ""), ("E", ended)):
            event = pbspro.parse_line(line.format(kind, size) + more)
            apply_events(connection, "alpha", [replace(event, utc_s=1_700_000_300.0)], site.now)
    site.now += 1000
    site.learn()
    site.pbs.alter("101.srv", qtime="Tue Nov 14 22:25:00 2023")
    site.follow()
    site.adjuster().apply()
    raised = given(site)["101.srv"]
    assert 1.25 * lowered * 0.999 <= raised <= 16.0
    for number in range(30, 34):
        site.ran(number, used_gib=12.0, failed_gib=12.0)
    site.learn()
    site.adjuster().apply()
    assert given(site)["101.srv"] >= 15.0 * 0.999
    assert site.adjuster().undo().left == {}
    assert given(site)["101.srv"] == 16.0


def test_a_running_job_whose_limit_is_near_gets_more_where_the_settings_say_so(site: Any) -> None:
    site.pbs.submit("101.srv")
    site.follow()
    assert {one.change.resource for one in site.adjuster().apply().proposed} == {"memory"}
    assert site.pbs.given("walltime") == {"101.srv": "10:00:00"}, "no limit is lowered, though such jobs ran 50 s"
    line = (
        "11/14/2023 22:20:00;S;101.srv;user=ann group=g jobname=cfd queue=q ctime=1700000000 qtime=1700000000 "
        "etime=1700000000 start=1700000400 exec_host=n1/0*4 Resource_List.walltime=10:00:00 Resource_List.ncpus=4"
    )
    with site.engine.begin() as connection:
        event = pbspro.parse_line(line)
        apply_events(connection, "alpha", [replace(event, utc_s=1_700_000_400.0)], site.now)
    began = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(1_700_000_400))
    site.pbs.alter("101.srv", job_state="R", stime=began)
    site.now = 1_700_000_400.0 + 35_700
    memory = site.pbs.given("mem")
    assert site.adjuster(raise_to=4.0).apply().proposed == [], "running jobs are left alone unless the settings say so"
    assert site.adjuster(running_within_s=600.0).apply().proposed == [], "never above the request unless they say so"
    (more,) = site.adjuster(running_within_s=600.0, raise_to=1.5).apply().proposed
    assert (more.outcome, more.change.resource, more.change.reason) == ("done", "runtime", "runs out of time soon")
    assert 36_000 < more.change.new <= 54_000
    assert site.pbs.given("mem") == memory


def test_what_someone_else_changed_is_left_alone(site: Any) -> None:
    site.pbs.submit("101.srv")
    site.follow()
    site.adjuster().apply()
    site.pbs.alter("101.srv", Resource_List={"ncpus": 4, "mem": "32gb"})
    site.follow()
    assert site.adjuster().undo().left == {"someone else has changed it since": 1}
    assert given(site)["101.srv"] == 32.0


def test_only_jobs_of_known_form_and_chosen_users_are_touched(site: Any) -> None:
    for job_id in ("101.srv;id", "101.srv -x", "$(id).srv", "9[].srv", "-l.srv", "101.srv/../x"):
        site.pbs.submit(job_id)
    site.pbs.submit("102.srv", resources={"select": "2:ncpus=2:mem=8gb:x=$(id)"})
    site.follow()
    assert site.adjuster().dry_run().proposed == []
    site.pbs.submit("103.srv")
    site.follow()
    assert site.adjuster(users_share=0.0).dry_run().left == {"user not in users_share": 2}
    assert [one.change.job.job_id for one in site.adjuster().dry_run().proposed] == ["103.srv"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--scheduler", "slurm"), "the scheduler of alpha is pbspro"),
        (("--cluster", "beta"), "no [[adjust]] table for cluster 'beta'; there is one for alpha"),
        (("--trial", "0.5", "--undo"), "exclude each other"),
    ],
)
def test_wrong_usage_is_refused(site: Any, arguments: tuple[str, ...], why: str) -> None:
    done = site.command(*arguments)
    assert done.returncode == 1
    assert why in done.stderr


def test_what_it_did_is_counted(site: Any) -> None:
    for job_id in ("101.srv", "102.srv", "103.srv"):
        site.pbs.submit(job_id)
    site.follow()
    site.adjuster(jobs_at_most=2).apply()
    given_gib = given(site)["101.srv"]
    site.pbs.mode("refuse")
    site.adjuster().apply()
    with site.engine.begin() as connection:
        for job_id, failure in (("101.srv", None), ("102.srv", "memory")):
            run = {"start": site.now + 100, "end": site.now + 3700, "state": "ended", "failure": failure}
            connection.execute(update(jobs).where(jobs.c.job_id == job_id).values(run))
        runs, found = changed_runs(connection, 0.0, "alpha"), last_adjustments(connection, "alpha")
    assert [(run.resource, run.run_time_s, run.ran_out) for run in runs] == [
        ("memory", 3600.0, n) for n in (False, True)
    ]
    assert [run.less / 2**30 for run in runs] == pytest.approx([16.0 - given_gib] * 2)
    assert [(one.job_id[:3], one.state) for one in found] == [("103", "failed"), ("102", "done"), ("101", "done")]
    assert "Unauthorized" in (found[0].error or "")
