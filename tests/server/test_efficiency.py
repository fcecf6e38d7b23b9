"""A finished job's use of its request: the command, the API and the page."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, update
from tests import make
from tests.make import Jobsight

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

GIB = 2**30
USED = {"memory": 0.5 * GIB, "runtime": 2400.0, "cpu": 0.45, "bandwidth": 1e6}  # per processor


def add(connection: Any, number: int, job_id: str, values: dict[str, Any], **fields: Any) -> None:
    row = {
        "id": number, "start": number * 1e4, "end": number * 1e4 + 2400.0, "name": "cfd", "queue": "batch",
        "processors": 4, "exit_status": 0, "requested_memory_bytes": 64 * GIB, "requested_walltime_s": 86400.0,
    } | fields  # fmt: skip
    how = {"attribution": "exclusive", "learn_seq": 10 * number}
    used = {m: how | (value if isinstance(value, dict) else {"value": value}) for m, value in values.items()}
    make.job(connection, job_id, used=used, **row)


@pytest.fixture
def site(engine: Engine) -> Engine:
    with engine.begin() as connection:
        for number in range(1, 13):
            add(connection, number, f"{number}.head", USED)
        unmeasured = {"memory": {"value": None, "reason": "no samples of n2"}, "runtime": 100.0}
        add(connection, 20, "20.head", unmeasured, requested_memory_bytes=None, requested_walltime_s=None)
        killed = {"memory": {"value": 16 * GIB, "lower_bound": True, "shown_only": True}, "runtime": 60.0}
        add(connection, 21, "21.head", killed, failure="memory", exit_status=-27)
        shared = {"bandwidth": {"value": 1e6, "attribution": "apportioned", "shown_only": True}}
        add(connection, 22, "22.head", shared, processors=None)
        absent = {"bandwidth": {"value": None, "attribution": "apportioned", "reason": "no samples of n1"}}
        add(connection, 26, "26.head", absent)
        add(connection, 23, "23.head", {}, end=None, state="running", profiled=False)
        add(connection, 24, "[bold]24", USED)
        add(connection, 25, "1.head", USED, cluster="beta")
        again = {"state": "requeued", "profiled": False, "end": 27e4 + 12}
        add(connection, 27, "27.head", {}, **again, used_walltime_s=3.0, suspended_s=9.0)
        add(connection, 28, "28.head", {}, **again | {"end": 28e4 + 12}, suspended_s=9.0)
        add(connection, 29, "29.head", absent | {"cpu": 0.037}, user="zed", name="other", requested_memory_bytes=GIB)
        # An array of Slurm: its last task has the raw id of the array. A heterogeneous job of two parts.
        for task in range(1, 6):
            used = USED | {"memory": task * 0.5 * GIB}
            add(connection, 40 + task, "50" if task == 5 else str(50 + task), used, array_task=f"50_{task}")
        ran_out = {"memory": {"value": 16 * GIB, "lower_bound": True, "shown_only": True}}
        add(connection, 46, "56", ran_out, array_task="50_6", failure="memory", exit_status=137)
        add(connection, 47, "57", {}, array_task="50_7", end=None, state="running", profiled=False)
        for part in range(2):
            add(connection, 48 + part, str(60 + part), USED, array_task=f"60+{part}")
        make.node(connection, "n9")
    rebuild(engine)
    return engine


@pytest.fixture
def seff(site: Engine, jobsight: Jobsight) -> Jobsight:
    return partial(jobsight, "seff", on=site)


def of(found: Any) -> dict[str, Any]:
    return {entry["resource"]: entry for entry in found}


def test_use_is_compared_with_the_request_of_the_whole_job(seff: Jobsight) -> None:
    [run] = seff("12.head", "--json").json
    found = of(run["efficiency"])
    assert (found["memory"]["requested"], found["memory"]["used"]) == (64 * GIB, 2 * GIB)
    assert found["memory"]["efficiency"] == pytest.approx(2 / 64)
    assert found["runtime"]["efficiency"] == pytest.approx(2400 / 86400)
    assert (found["processors"]["requested"], found["processors"]["used"]) == (4.0, pytest.approx(1.8))
    assert found["processors"]["efficiency"] == pytest.approx(0.45)
    assert (found["bandwidth"]["used"], found["bandwidth"]["efficiency"]) == (4e6, None)
    assert found["bandwidth"]["reason"] == "jobs request no bandwidth"
    # What to ask for next time: one of these jobs was killed with the 64 GiB that it asked for.
    assert found["memory"]["ask_next"] > 64 * GIB
    assert 2400 <= found["runtime"]["ask_next"] <= 6 * 3600
    assert found["processors"]["ask_next"] is None, "ranks that wait are no processors to spare"
    assert found["bandwidth"]["ask_next"] >= 4e6


def test_a_table_for_people(seff: Jobsight) -> None:
    out = seff("12.head").out
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:2] == ["Request", "96G"], "what to do comes first"
    title = next(line for line in lines if line[:1] == ["Job"])
    assert title[:8] == ["Job", "12.head", "on", "alpha:", "cfd", "of", "ada,", "1970-01-02"]
    assert "UTC. Completed in 40 min of 1 d; used 2 of 64 GiB and 1.8 of 4 processors." in " ".join(out.split())
    memory = next(line for line in lines if line[:1] == ["Memory"])
    assert memory[:7] == ["Memory", "64.0", "GiB", "2.00", "GiB", "3", "%"]
    assert next(line for line in lines if line[:2] == ["Run", "time"])[2:6] == ["1", "d", "40", "min"]
    assert "Bandwidth: jobs request no bandwidth." in out
    out = seff("[bold]24").out
    assert "\nJob [bold]24 on alpha: " in out


def test_what_was_not_measured_is_said_and_never_zero(seff: Jobsight) -> None:
    found = of(seff("20.head", "--json").json[0]["efficiency"])
    assert (found["memory"]["used"], found["memory"]["efficiency"]) == (None, None)
    assert found["memory"]["reason"] == "no samples of n2"
    assert found["processors"]["reason"] == "no source measured it"
    assert (found["runtime"]["used"], found["runtime"]["reason"]) == (100.0, "no request")
    out = seff("20.head").out
    assert out.count("not measured") == 3
    assert "Memory: no samples of n2." in out
    found = of(seff("22.head", "--json").json[0]["efficiency"])
    assert found["bandwidth"]["used"] is None
    assert found["bandwidth"]["reason"] == "the log does not say how many processors it had"
    assert found["bandwidth"]["apportioned"] is True


def test_a_job_that_ran_out_used_at_least_so_much(seff: Jobsight) -> None:
    out = seff("21.head").out
    assert "Ran out of memory and was killed after 1 min of 1 d; used at least 64 of 64 GiB" in " ".join(out.split())
    assert "at least 64.0 GiB" in out
    assert "100 %" in out


def test_without_agents_only_the_log_could_have_had_it(site: Engine, seff: Jobsight) -> None:
    assert "Bandwidth: no samples of n1." in seff("29.head").out
    make.execute(site, delete(schema.nodes))
    out = seff("29.head").out
    assert "Bandwidth: not in the accounting log, and no agent reports from this cluster." in " ".join(out.split())


def test_a_run_that_was_requeued_has_the_run_time_of_the_log(seff: Jobsight) -> None:
    for job in ("27.head", "28.head"):
        found = of(seff(job, "--json").json[0]["efficiency"])
        assert (found["runtime"]["used"], found["runtime"]["reason"]) == (3.0, None)
        assert found["runtime"]["efficiency"] == pytest.approx(3 / 86400)
        assert found["memory"]["reason"] == "a run that is requeued is not profiled"


def test_a_job_that_runs_or_waits_has_a_sentence_of_its_own_and_no_advice(seff: Jobsight, site: Engine) -> None:
    out = seff("23.head").out
    assert re.search(
        r" UTC\. Running for [0-9,]+ d( [0-9]+ h)? of 1 d; its memory and processor use is unknown",
        " ".join(out.split()),
    )
    assert "Ask for" not in out
    make.execute(site, insert(schema.running_use).values(run_id=23, memory=3 * GIB, until=23e4 + 60, idle_bytes=0.0))
    assert "; used 12 of 64 GiB so far." in " ".join(seff("23.head").out.split())
    [run] = seff("23.head", "--json").json
    assert (of(run["efficiency"])["memory"]["used"], run["advice"]) == (12 * GIB, None)
    make.execute(site, update(schema.jobs).where(schema.jobs.c.id == 23).values(state="queued"))
    out = " ".join(seff("23.head").out.split())
    assert out == "Job 23.head on alpha: cfd of ada. Waiting for 64 GiB and 4 processors for up to 1 d."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99.head"], "no run of a job '99.head' is known: check the id. Jobs are known once"),
        (["8_4"], "no run of a job '8_4' is known"),
        (["1.head"], "give --cluster NAME; clusters with job '1.head': alpha, beta"),
        (["2.head", "--cluster", "beta"], "unknown cluster 'beta'; clusters with job '2.head': alpha"),
    ],
)
def test_a_job_that_is_not_there(seff: Jobsight, arguments: list[str], message: str) -> None:
    out, err = seff(*arguments, status=1)
    assert out == ""
    assert message in err
    seff("1.head", "--cluster", "beta")


def test_busy_processors_below_one_have_two_digits(seff: Jobsight) -> None:
    line = next(line for line in seff("29.head").out.splitlines() if "Processors" in line)
    assert line.split()[1:5] == ["4", "0.15", "4", "%"]


def test_a_task_has_the_id_that_people_see_and_an_array_is_summed_up(seff: Jobsight) -> None:
    out = seff("50_1").out
    assert "\nJob 50_1 (51) on alpha: cfd of ada, " in out
    assert seff("51").out == out
    assert "Job 60+1 (61) on alpha" in seff("61").out
    out = seff("50").out
    lines = out.splitlines()
    assert lines[0].startswith("Request ")
    assert any(line.startswith("  #SBATCH --mem=") for line in lines)
    text = " ".join(out.split())
    assert "Job 50 on alpha: cfd of ada, 7 tasks: 5 completed, 1 killed: memory, 1 running" in text
    memory = next(line.split() for line in lines if line.split()[:1] == ["Memory"])
    # Four processors each: 2, 4, 6, 8 and 10 GiB, and at least 64.
    assert memory[1:9] == ["64.0", "GiB", "2.00", "GiB", "7.00", "GiB", "64.0", "GiB"]
    assert "Bandwidth: not measured for 1 of 6 tasks." in out
    assert all(len(line) <= 80 for line in lines)
    assert "2 tasks: 2 completed" in seff("60").out


@pytest.mark.parametrize(("log", "words"), [("torque", "#PBS -l "), ("pbspro", "#PBS -l "), ("gridengine", "#$ -l ")])
def test_an_imported_cluster_has_the_words_of_its_own_scheduler(
    seff: Jobsight, jobsight: Jobsight, site: Engine, log: str, words: str
) -> None:
    jobsight("import", Path(__file__).parents[1] / f"golden/logs/{log}.log", "--cluster", "alpha", on=site)
    out = seff("12.head").out
    assert (words in out, "#SBATCH" in out) == (True, False)


def test_several_jobs_follow_each_other(seff: Jobsight) -> None:
    out = seff("12.head", "50").out
    assert out.index("Job 12.head on alpha") < out.index("Job 50 on alpha")
    found = seff("12.head", "50_2", "--json").json
    assert [(run["job_id"], run["task"]) for run in found] == [("12.head", None), ("52", "50_2")]
    assert found[1]["ask_lines"][0]["text"].startswith("#SBATCH --mem=")
