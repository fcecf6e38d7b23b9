"""The same job gets one answer wherever it is asked: the prompt, its page, the command, its user's page and savings."""

from __future__ import annotations

import json
import random
import re
from html import unescape
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, update
from tests import make
from tests.make import Jobsight, not_none
from tests.server.web.surfaces import MIB, by_surface

from jobsight_server.adjust.plan import Needs
from jobsight_server.adjust.present import PresentJob
from jobsight_server.advice.words import KEPT
from jobsight_server.decision.evidence import BURSTS
from jobsight_server.decision.rule import LEAST_BURSTS, LEAST_RUNS, Kept
from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.forecasts.stored_model import recommended_requests
from jobsight_server.ground.amounts import size_text, time_text
from jobsight_server.learning.finished import profile_finished
from jobsight_server.savings.sums.add import count_again
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

T0 = 1_600_000_000.0


def run(connection: Any, number: int, **changes: Any) -> None:
    """A job of one processor that used 308 MiB for half an hour."""
    start = T0 + 7200 * number
    row = {
        "id": 5000 + number, "job_id": f"{number}", "cluster": "gamma", "start": start, "end": start + 1800,
        "user": "kim", "name": "solve", "queue": "batch", "application": "solve", "account": "physics",
        "group": "hpc", "processors": 1, "exit_status": 0, "requested_memory_bytes": 64 * 1024 * MIB,
        "requested_walltime_s": 36_000.0, "used_memory_bytes": 308 * MIB, "profiled": False,
        "submitted": changes.get("start", start) - 10,
    } | changes  # fmt: skip
    connection.execute(insert(schema.jobs).values(make.job_row(**row)))  # ``used`` is a column


def learn(served: Any) -> None:
    profile_finished(served.engine, 0.0, lambda: 1e10)


def ask(served: Any, **slurm: Any) -> Any:
    asked = {"cluster": "gamma", "user": "kim", "application": "solve", "queue": "batch", "account": "physics"}
    slurm = {"num_tasks": 1, "mem": "64G", "time_limit": 600} | slurm
    return make.answered(served.client("submitter").post("/api/v1/advice", json=asked | {"slurm": slurm}))


def add_node(connection: Any, memory_bytes: int) -> None:
    make.node(connection, "n9", cluster="gamma", cpus=8, memory_total_bytes=memory_bytes)


@pytest.mark.parametrize(("asked_s", "killed"), [(1200.0, True), (36_000.0, False)])
def test_a_limit_that_killed_is_no_saving_and_a_shorter_one_is_for_gaps(
    served: Any, jobsight: Jobsight, asked_s: float, killed: bool
) -> None:
    with served.engine.begin() as connection:
        for number in range(24):
            end = {"end": T0 + 7200 * number + asked_s, "failure": "time", "exit_status": 1} if killed else {}
            run(connection, number, requested_walltime_s=asked_s, **end)
    learn(served)
    found = served.client("scheduler").get("/api/v1/waste?user=kim&cluster=gamma&sort=runtime").json
    advice = found["rows"][0]["runtime_advice"]
    assert advice["ask_for"] == (2 * 1200 if killed else 2 * 1800)
    client = served.person()
    page = " ".join(client.get("/waste?user=kim&cluster=gamma&sort=runtime").text.split())
    assert (f"instead of {time_text(asked_s)}: 24 of 24 jobs needed more time" in page) is killed
    assert ((advice["more"] or {}).get("needed_more") == 24) is killed
    assert ("can be backfilled sooner" in page) is not killed
    assert (found["runtime"]["freed_hours"] > 0) is killed, "repeats; a shorter limit frees nothing"
    printed = jobsight("savings", "--user", "kim", "--cluster", "gamma", on=served.engine).out
    assert (f"{time_text(advice['ask_for'])} + " in printed) is killed
    assert (f"instead of {time_text(asked_s)}; 24 of 24 needed more" in printed) is killed


def test_whole_nodes_are_answered_by_what_was_asked_for(served: Any) -> None:
    """Jobs of one task that hold all eight processors of a node of 8,000 MiB."""
    with served.engine.begin() as connection:
        add_node(connection, 8000 * MIB)
        for number in range(8):
            run(connection, number, used_memory_bytes=505 * MIB, processors=8, asked_processors=1)
            connection.execute(insert(schema.job_nodes).values(run_id=5000 + number, node="n1", processors=8))
    learn(served)
    answer = ask(served)
    assert "used at most 505 MiB and ran" in answer["text"]
    assert 505 <= answer["slurm"]["mem"] <= 4 * 505
    job = served.client("scheduler").get("/api/v1/job?name=7&cluster=gamma").json["runs"][0]
    memory = next(entry for entry in job["efficiency"] if entry["resource"] == "memory")
    assert (memory["used"], memory["ask_next"]) == (505 * MIB, answer["slurm"]["mem"] * MIB)
    client = served.person()
    profile = (
        client.get("/job?cluster=gamma&name=7")
        .text.partition("<h2>Requested, allocated, used, recommended</h2>")[2]
        .partition("</table>")[0]
    )
    assert "505 MiB" in profile, "of the one processor asked for, not of the eight that it held"
    savings = served.client("scheduler").get("/api/v1/waste?user=kim&cluster=gamma").json["memory"]
    assert savings["used_hours"] == pytest.approx(savings["jobs"] * 505 / 1024 / 2, rel=1e-3)
    assert savings["freed_hours"] > 0
    # No answer exceeds what the nodes have.
    eight = ask(served, num_tasks=8, nodes=1, mem="7G")
    assert eight["slurm"]["mem"] is None or eight["slurm"]["mem"] <= 8000
    assert all(entry["reserve"] <= 8000 * MIB for entry in eight["forecasts"] if entry["metric"] == "memory")


def test_a_bound_for_one_processor_never_exceeds_the_node_of_a_job_of_eight(served: Any) -> None:
    with served.engine.begin() as connection:
        add_node(connection, 8000 * MIB)
        for number in range(8):
            run(connection, number, used_memory_bytes=7000 * MIB)
            connection.execute(insert(schema.job_nodes).values(run_id=5000 + number, node="n9", processors=1))
        for number in range(8, 14):  # a log that does not say what was asked for
            run(connection, number, used_memory_bytes=7000 * MIB, processors=8)
            connection.execute(insert(schema.job_nodes).values(run_id=5000 + number, node="n9", processors=8))
    learn(served)
    answer = ask(served, num_tasks=8, nodes=1)
    assert answer["slurm"]["mem"] <= 8000
    assert answer["forecasts"][0]["reserve"] <= 8000 * MIB
    job = served.client("scheduler").get("/api/v1/job?name=8&cluster=gamma").json["runs"][0]
    assert next(entry["ask_next"] for entry in job["efficiency"] if entry["resource"] == "memory") <= 8000 * MIB
    with served.engine.begin() as connection:
        of_run = (schema.profiles.c.run_id == 5008) & (schema.profiles.c.metric == "memory")
        connection.execute(update(schema.profiles).where(of_run).values(bound=8000 * MIB))  # as older releases had it
        request = update(schema.jobs).where(schema.jobs.c.id == 5008).values(requested_memory_bytes=7500 * MIB)
        connection.execute(request)
        count_again(connection, [int((T0 + 7200 * 8 + 1800) // 86400)])
    day = f"since={T0 + 7200 * 8 + 1800:.0f}&until={T0 + 7200 * 8 + 1801:.0f}"
    savings = served.client("scheduler").get(f"/api/v1/waste?user=kim&cluster=gamma&{day}").json["memory"]
    assert 0 < savings["reserved_hours"] <= savings["jobs"] * (8000 / 1024) * 0.5


def test_what_only_strangers_used_is_called_an_estimate_and_changes_no_request(served: Any) -> None:
    with served.engine.begin() as connection:
        for number in range(8):
            run(connection, number, user="other", job_id=f"o{number}")
        run(connection, 20, used_memory_bytes=None, job_id="20")
    learn(served)
    with served.engine.begin() as connection:
        moved = {"metric": "bandwidth", "value": 22.1e6, "learn_seq": 9000, "shown_only": False}
        for number in range(8):
            of_run = (schema.profiles.c.run_id == 5000 + number) & (schema.profiles.c.metric == "bandwidth")
            connection.execute(update(schema.profiles).where(of_run).values(moved | {"learn_seq": 9000 + number}))
    rebuild(served.engine)
    job = served.client("scheduler").get("/api/v1/job?name=20&cluster=gamma").json["runs"][0]
    found = {entry["resource"]: entry["ask_next"] for entry in job["efficiency"]}
    assert (found["bandwidth"], found["memory"]) == (None, None)
    asked = {"cluster": "gamma", "user": "new", "application": "solve", "queue": "batch"}
    client = served.client("submitter")
    answer = client.post("/api/v1/advice", json=asked | {"slurm": {"num_tasks": 1}}).json
    assert re.fullmatch(
        r"Request \d+M and \d+ min\. No similar job is known, so treat this as an estimate from other jobs\. "
        r"This job has no memory request and no time limit\.",
        answer["text"],
    ), answer["text"]
    assert (answer["such_jobs"], answer["notable"]) == (0, False)
    answer = client.post(
        "/api/v1/advice", json=asked | {"slurm": {"num_tasks": 1, "mem": "64G", "time_limit": 99}}
    ).json
    assert answer["text"] == "No similar job of yours has been measured yet."
    assert answer["slurm"] == {"mem": None, "mem_per_cpu": None, "time_limit": None}
    assert answer["forecasts"][0]["forecast"] > 0, "the model's answer is there for programs"


def predicted(served: Any, metric: str, **question: Any) -> Any:
    asked = {"cluster": "gamma", "user": "kim", "application": "solve", "queue": "batch", "account": "physics"}
    asked |= {"processors": 1, "walltime_s": 36_000.0, "metric": metric, "per": "job"} | question
    answer = served.client("scheduler").post("/api/v1/predictions", json={"questions": [asked]})
    return answer.json["predictions"][0]


def test_the_use_named_is_that_of_the_amount(served: Any) -> None:
    """30 jobs that asked for 64G used 300M to 1025M: of those that ask for 100M, all would run out."""
    with served.engine.begin() as connection:
        for number in range(30):
            run(connection, number, used_memory_bytes=(300 + 25 * (number * 7 % 30)) * MIB)
    learn(served)
    answer = ask(served)
    assert answer["text"].startswith(
        f"Request {answer['slurm']['mem']}M and 1 h. Your last 30 similar jobs used at most 1.00 GiB"
    )
    assert 1025 <= answer["slurm"]["mem"] <= 1.1 * 1025
    other = ask(served, mem="100M")
    assert (other["slurm"]["mem"], other["such_jobs"], other["notable"]) == (None, 0, False)
    assert other["text"].startswith(f"Keep the memory request and time limit: {KEPT['other requests']}."), other["text"]


def test_a_kill_counts_before_its_run_is_profiled(served: Any) -> None:
    """Users and workflow engines submit again within seconds."""
    with served.engine.begin() as connection:
        for number in range(12):
            run(connection, number)
    learn(served)
    assert 308 <= ask(served)["slurm"]["mem"] < 400
    for number, given_mib in ((12, 400), (13, 500)):
        killed = {"requested_memory_bytes": given_mib * MIB, "asked_memory_bytes": 64 * 1024 * MIB}
        with served.engine.begin() as connection:
            run(connection, number, used_memory_bytes=None, failure="memory", exit_status=137, **killed)
        again = ask(served)
        assert again["slurm"]["mem"] is None, "the user's own request"
        assert f"{number - 11} ran out of memory" in again["text"]
        assert f"Keep the memory request: {KEPT['ran out']}." in again["text"]
    with served.engine.begin() as connection:
        run(connection, 14)
    learn(served)
    assert ask(served)["slurm"]["mem"] >= 1.5 * 500


def test_what_is_only_shown_changes_no_later_answer(served: Any) -> None:
    """A job that was lowered may have been killed since; one whose script only comments was not lowered."""
    with served.engine.begin() as connection:
        for number in range(12):
            run(connection, number)
    learn(served)
    served.clock.now = T0 + 1e6
    job = {"cluster": "gamma", "user": "kim", "application": "solve", "slurm": {"num_tasks": 1, "mem": "64G"}}

    def memory(**more: Any) -> Any:
        served.clock.now += 20.0
        return make.answered(served.client("submitter").post("/api/v1/advice", json=job | more))["slurm"]["mem"]

    shown = [memory(sets_memory=False) for _ in range(3)]
    assert len(set(shown)) == 1
    assert shown[0] < 400
    assert [memory(), memory()] == [shown[0], None], "the first one may have been killed"


@pytest.mark.parametrize("is_profiled", [False, True])
def test_a_kill_counts_where_the_log_has_only_the_lowered_request(served: Any, is_profiled: bool) -> None:
    with served.engine.begin() as connection:
        for number in range(12):
            run(connection, number)
    learn(served)
    with served.engine.begin() as connection:
        killed = {"failure": "memory", "exit_status": 137, "used_memory_bytes": None}
        run(connection, 12, requested_memory_bytes=400 * MIB, **killed)
    if is_profiled:
        learn(served)
    assert (ask(served)["slurm"]["mem"] or 64 * 1024) >= 1.5 * 400


def test_trust_judges_what_was_recommended(served: Any) -> None:
    """The first three keep their request; the last one is killed with more than was recommended."""
    with served.engine.begin() as connection:
        for number in range(12):
            run(connection, number)
        killed = {"requested_memory_bytes": 500 * MIB, "asked_memory_bytes": 64 * 1024 * MIB}
        run(connection, 12, used_memory_bytes=None, failure="memory", exit_status=137, **killed)
    learn(served)
    recorded = recorded_requests(served)
    recommended = [amount for number in range(13) if (amount := recorded[f"{number}"]) != 64 * 1024 * MIB]
    assert len(recommended) == 10
    assert all(amount is not None and 308 * MIB <= amount < 500 * MIB for amount in recommended)
    metrics = served.client("scheduler").get("/api/v1/accuracy?cluster=gamma").json["metrics"]
    memory = next(each for each in metrics if each["metric"] == "memory")
    assert (memory["jobs"], memory["bounds"], memory["held"]) == (11, 10, 9 / 10), "of the first job nothing was known"


def test_a_job_without_a_name_is_answered_by_its_users_jobs_without_one(served: Any) -> None:
    with served.engine.begin() as connection:
        for number in range(60):
            run(
                connection,
                number,
                used_memory_bytes=(308 + number) * MIB,
                **({"name": None, "application": None} if number < 30 else {}),
            )
    learn(served)
    asked = {"cluster": "gamma", "user": "kim", "slurm": {"num_tasks": 1, "mem": "64G"}}
    answer = served.client("submitter").post("/api/v1/advice", json=asked).json
    assert re.fullmatch(
        r"Request \d\d min\. Your last 30 jobs used at most 337 MiB and ran at most 30 min\. "
        r"Keep the memory request: a job without a name may belong to any application\. "
        r"This job requests 64G and has no time limit\.",
        answer["text"],
    ), answer["text"]
    assert answer["slurm"]["mem"] is None


def test_no_amount_exceeds_what_the_nodes_have(served: Any) -> None:
    with served.engine.begin() as connection:
        add_node(connection, 8000 * MIB)
        for number in range(12):
            run(connection, number, used_memory_bytes=(7000 + 80 * (number % 12)) * MIB)
            connection.execute(insert(schema.job_nodes).values(run_id=5000 + number, node="n9", processors=1))
    learn(served)
    cut = predicted(served, "memory", memory_bytes="64G", walltime_s=None)
    assert (cut["bound"], cut["bound_basis"]) == (8000 * MIB, "similar jobs")
    assert ask(served, nodes=1)["text"].startswith(
        "Request 8000M. Your last 12 similar jobs used at most 7.70 GiB and "
    )


def test_facts_of_the_last_job_count_wherever_it_is_asked_about(served: Any) -> None:
    """Memory is what is read, between 1 and 32 GiB: the last job reads 1."""
    with served.engine.begin() as connection:
        for number in range(120):
            read = 1 + number * 11 % 32 if number < 119 else 1
            facts = json.dumps({"input_bytes": read * 1024 * MIB})
            run(connection, number, used_memory_bytes=read * 1024 * MIB, facts=facts)
    learn(served)
    answer = ask(served, num_tasks=1)
    with_facts = served.client("submitter").post(
        "/api/v1/advice",
        json={
            "cluster": "gamma", "user": "kim", "application": "solve", "queue": "batch", "account": "physics",
            "group": "hpc", "facts": {"input_bytes": 1024 * MIB},
            "slurm": {"num_tasks": 1, "nodes": 1, "mem": "64G", "time_limit": 600},
        },
    ).json  # fmt: skip
    memory = with_facts["slurm"]["mem"]
    assert 1024 <= memory < 0.5 * answer["slurm"]["mem"]
    job = served.client("scheduler").get("/api/v1/job?name=119&cluster=gamma").json["runs"][0]
    assert next(entry["ask_next"] for entry in job["efficiency"] if entry["resource"] == "memory") == memory * MIB
    savings = served.client("scheduler").get("/api/v1/waste?user=kim&cluster=gamma").json["rows"][0]["memory_advice"]
    assert (savings["like_job"], savings["recommended"]) == ("119", memory * MIB)


def test_two_similar_jobs_are_named_as_the_source(served: Any) -> None:
    with served.engine.begin() as connection:
        for number, processors in enumerate((1, 1, 4)):
            run(connection, number, processors=processors, requested_memory_bytes=None)
    learn(served)
    answer = ask(served, mem="100M", num_tasks=1, time_limit=600)
    assert answer["text"].startswith(
        "Your last 2 similar jobs on 1 processor used at most 308 MiB and ran at most 30 min."
    )
    assert (answer["such_jobs"], answer["such_jobs_memory_bytes"]) == (2, 308 * MIB)
    assert answer["notable"]


SITES: dict[
    str, Any
] = {  # MiB used, MiB requested, bursts of so many, seconds; the last one was killed with so many MiB
    "new": {"used": [300] * 2, "asked": 1000},
    "one burst": {"used": [300] * 12, "asked": 1000, "burst": 12},
    "too large": {"used": [300 + 5 * (number * 3 % 20) for number in range(20)], "asked": 65536},
    "in bursts": {"used": [195 + number for number in range(12)], "asked": 1000, "burst": 4},
    "too small": {"used": [500 + 30 * (number * 7 % 20) for number in range(40)], "asked": 800},
    "killed": {"used": [300] * 12, "asked": 2000, "killed": 400},
    "killed at the request": {"used": [300] * 12, "asked": 400, "killed": 400},
    "no request": {"used": [300 + number for number in range(12)], "asked": None},
    "tight": {"used": [980 + number for number in range(15)], "asked": 1000},
}


def generated(seed: int) -> dict[str, Any]:
    """Jobs, bursts, a request and a kill as they may come."""
    draw = random.Random(seed)
    count, middle = draw.choice([1, 3, 5, 8, 19, 20, 40, 110]), draw.choice([200, 300, 3000])
    used = [round(middle * (1.0 + draw.choice([0.0, 0.1, 1.0]) * draw.random())) for _ in range(count)]
    asked = draw.choice([None, 0.6, 0.9, 1.0, 1.2, 3.0, 40.0])
    killed = draw.choice([None, None, 0.8, 1.0, 1.5])
    request = None if asked is None else max(1, round(asked * max(used)))
    return {
        "used": used,
        "asked": request,
        "burst": draw.choice([1, 1, 4, count]),
        "killed": None if killed is None or request is None else min(round(killed * max(used)), request),
    }


REASONS: dict[str, Kept] = {
    "new": "few runs",
    "one burst": "few runs",
    "killed": "ran out",
    "tight": "enough requested",
}


def plant_site(served: Any, used: list[int], asked: int | None, burst: int = 1, killed: int | None = None) -> None:
    """Jobs of two processors; those of a burst were submitted together."""
    with served.engine.begin() as connection:
        request = {"requested_memory_bytes": asked and asked * MIB, "processors": 2, "name": "solve"}
        for number, mib in enumerate(used):
            submitted = T0 + 7200 * (number // burst * burst) - 10
            run(connection, number, used_memory_bytes=mib * MIB, **request | {"submitted": submitted})
    learn(served)
    if killed is not None:
        with served.engine.begin() as connection:
            failed = {"failure": "memory", "exit_status": 137, "used_memory_bytes": None}
            given = {"requested_memory_bytes": killed * MIB, "asked_memory_bytes": asked and asked * MIB}
            run(connection, len(used), **request | failed | given)


def check_waiting(served: Any, job: dict[str, Any], memory_bytes: int | None) -> None:
    """Of such a job that waits, and may start at any time, `jobsight adjust` and `/forecasts` say the same."""
    columns = {name: job[name] for name in ("cluster", "user", "application", "queue", "account", "group")}
    asked = {"requested_memory_bytes": memory_bytes, "requested_walltime_s": 36_000.0}
    with served.engine.begin() as connection:
        last = connection.scalar(select(func.max(schema.jobs.c.end))) or T0
        row = make.job_row("w1", name="solve", state="queued", processors=2, profiled=False, **columns | asked, id=9999)
        connection.execute(insert(schema.jobs).values(row | {"start": last + 1.0, "submitted": last + 1.0}))
    reader = AnswerReader(ForecastConfig())
    present = PresentJob("w1", "kim", last + 1.0, None)
    with served.engine.connect() as connection:
        known = not_none(Needs(connection, reader, "gamma", {"w1": present}).of(present))
    (run,) = served.client("scheduler").post("/api/v1/forecasts", json={"ids": ["w1"]}).json["runs"]
    bounds = {one["metric"]: one["bound"] for one in run["forecasts"]}
    make.execute(served.engine, delete(schema.jobs).where(schema.jobs.c.id == 9999))
    for resource, bound in (("memory", bounds["memory"] * 2), ("runtime", bounds["runtime"])):
        of = known["memory" if resource == "memory" else "runtime"]
        assert of.attempts[0] == pytest.approx(bound)
        assert bound == pytest.approx(of.recommended or of.request or bound), resource


def amounts(served: Any, asked: int | None, last: str, jobsight: Jobsight) -> dict[str, Any]:
    """Memory and run time to reserve for one like the last job, by surface."""
    client = served.client("scheduler")
    job = {"cluster": "gamma", "user": "kim", "application": "solve", "queue": "batch", "account": "physics"}
    job |= {"group": "hpc", "processors": 2, "walltime_s": 36_000.0} | ({"memory_bytes": asked * MIB} if asked else {})
    found: dict[str, Any] = dict(by_surface(served, job))

    def pasted(limit: float) -> float:
        """The limit for programs of one that is shown to users, to whom a shorter one may be shown."""
        shorter = next((line for line in next_job["text"].split(".") if " min" in line or " h" in line), "")
        assert limit >= 36_000.0 or time_text(limit) in shorter
        return max(limit, 36_000.0)

    next_job = make.answered(client.get("/api/v1/user?name=kim&cluster=gamma"))["next_job"]
    (of_job,) = client.get(f"/api/v1/job?name={last}&cluster=gamma").json["runs"]
    (of_seff,) = client.get(f"/api/v1/efficiency?name={last}&cluster=gamma").json["runs"]
    for name, entry in (("page of the job", of_job), ("seff", of_seff)):
        assert entry["advice"] == next_job["text"]
        if next_time := {one["resource"]: one["ask_next"] for one in entry["efficiency"]}:
            found[name] = next_time["memory"], pasted(next_time["runtime"])
    similar = {entry["metric"]: entry["similar"] for entry in next_job["forecasts"]}["memory"]
    least, most = (size_text(similar[name]) for name in ("least", "most"))
    assert re.search(f"used (at most )?{most}", next_job["text"])
    flags = [f"--{name}={job[name]}" for name in ("cluster", "user", "application", "queue", "group", "account")]
    flags += ["--processors=2", "--walltime=10h", *([f"--memory={asked}M"] if asked else [])]
    shown = least if least == most else f"{least} to {most}"
    printed = jobsight("predict", *flags, on=served.engine).out
    assert re.search(rf"^ memory .*  {shown} *$", printed, re.MULTILINE), "as in the sentence"
    node = {"type": "compute", "capacities": {"slots": {"total": 9}, "memory_gib": {"total": 99}}, "static": True}
    admin = served.client("admin")
    assert admin.put("/api/v1/resources/node", json=node).status_code == 200
    need = {"name": "n", "type": "compute", "amounts": {"slots": 2, "memory_gib": "predicted"}}
    batch = {"jobs": [{"name": "j", "duration_s": "predicted", "dependencies": [need], **job}]}
    predicted = admin.post("/api/v1/matches", json=batch).json["predicted"]
    found["matching"] = predicted[0]["amount"] * 1024 * MIB, predicted[1]["amount"]
    (row,) = client.get("/api/v1/waste?user=kim&cluster=gamma").json["rows"]
    if row["memory_advice"] is not None and row["runtime_advice"] is not None:
        of_row = [row[f"{metric}_advice"]["recommended"] for metric in ("memory", "runtime")]
        found["Waste"] = of_row[0], pasted(of_row[1])
    check_waiting(served, job, job.get("memory_bytes"))
    return found


@pytest.mark.systems
@pytest.mark.parametrize("site", SITES)
def test_every_surface_gives_the_same_amounts_by_the_rules(served: Any, jobsight: Jobsight, site: str) -> None:
    used, asked = SITES[site]["used"], SITES[site]["asked"]
    plant_site(served, **SITES[site])
    last = f"{len(used) - ('killed' not in SITES[site])}"
    found = amounts(served, asked, last, jobsight)
    (memory, runtime), *others = found.values()
    assert {name: each for name, each in found.items() if each != pytest.approx((memory, runtime))} == {}
    assert len(others) >= 8
    mib, largest = memory / MIB, max(used)
    assert {
        "new": mib == 1000,
        "one burst": mib == 1000,
        "too large": largest <= mib <= 1.1 * largest,
        "in bursts": largest <= mib <= 1.2 * largest,
        "too small": largest <= mib <= 1.2 * largest,
        "killed": mib == 2000,
        "killed at the request": mib == 1.5 * 400,
        "no request": mib >= largest,
        "tight": mib == 1000,
    }[site], mib
    if site in REASONS:
        (row,) = served.client("scheduler").get("/api/v1/waste?user=kim&cluster=gamma").json["rows"]
        assert row["memory_advice"]["kept"] == KEPT[REASONS[site]]
        assert KEPT[REASONS[site]] in unescape(served.person().get("/waste?cluster=gamma").text)
    assert runtime == 36_000
    job = served.client("scheduler").get(f"/api/v1/job?name={last}&cluster=gamma").json["runs"][0]
    (line,) = {line for entry in job["ask_lines"] for line in entry["text"].splitlines() if "--time" in line}
    assert line == f"#SBATCH --time={'01' if len(used) >= 20 else '10'}:00:00"


@pytest.mark.systems
@pytest.mark.parametrize("seed", range(10))
def test_the_rules_hold_on_generated_sites(served: Any, jobsight: Jobsight, seed: int) -> None:
    site = generated(seed)
    used, asked, burst, killed = (site[name] for name in ("used", "asked", "burst", "killed"))
    plant_site(served, **site)
    found = amounts(served, asked, f"{len(used) - (killed is None)}", jobsight)
    (memory, runtime), *_ = found.values()
    assert {name: each for name, each in found.items() if each != pytest.approx((memory, runtime))} == {}, site
    mib, latest = memory / MIB, used[-BURSTS * burst :]
    recorded, largest = recorded_requests(served), max(latest)
    if not asked:
        assert sum(amount <= mib for amount in latest) >= 2 * len(latest) / 3, site
        return
    held = min(largest, asked)  # where limits are enforced
    is_few = len(used) < LEAST_RUNS or len(used) <= burst * (LEAST_BURSTS - 1)
    assert mib >= held, site
    assert mib <= asked or killed == asked or max(used) > asked, site
    if killed == asked:
        assert mib >= 1.5 * asked, site
    elif is_few or killed is not None:
        assert mib >= asked, site
    elif held * 1.3 < asked:
        assert mib <= 1.3 * held, site
    for number in range(min(len(used), LEAST_RUNS)):
        if max(used) <= asked:
            assert recorded[f"{number}"] == asked * MIB / 2, "what Savings count"


def recorded_requests(served: Any) -> dict[str, float | None]:
    """The memory recommended at each submission, per processor; None if nothing was known."""
    query = select(schema.jobs.c.job_id, schema.profiles.c.bound, schema.profiles.c.attempts)
    query = query.join(schema.profiles, schema.profiles.c.run_id == schema.jobs.c.id)
    with served.engine.connect() as connection:
        rows = connection.execute(query.where(schema.profiles.c.metric == "memory"))
        return {job_id: next(iter(recommended_requests(*columns)), None) for job_id, *columns in rows}
