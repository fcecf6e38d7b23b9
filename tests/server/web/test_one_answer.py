"""The same job gets one answer wherever it is asked: the prompt, its page, the command, its user's page and savings."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from sqlalchemy import insert, update
from tests import make

from jobsight_server.accounting.amounts import time_text
from jobsight_server.cli import main
from jobsight_server.forecasts import rebuild
from jobsight_server.profiler.run import profile_finished
from jobsight_server.profiler.totals import count_again
from jobsight_server.storage import schema

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

MIB = 2**20
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
    answer = served.client("submitter").post("/api/v1/advice", json=asked | {"slurm": slurm})
    assert answer.status_code == 200, answer.text
    return answer.json


def add_node(connection: Any, memory_bytes: int) -> None:
    numbers = ("first_time", "last_time", "received_at", "samples", "wraps", "resets", "boots", "missing")
    texts = {"boot_id": "b", "interfaces": "[]", "counters": "{}", "agent": "a"}
    node = {"cluster": "gamma", "name": "n9", "cpus": 8, "memory_total_bytes": memory_bytes}
    connection.execute(insert(schema.nodes).values(node | texts | dict.fromkeys(numbers, 1)))


def test_after_a_job_ran_out_of_its_own_request_what_such_jobs_used_counts(served: Any) -> None:
    with served.engine.begin() as connection:
        for number in range(8):
            run(connection, number)
        killed = {"failure": "memory", "exit_status": 137, "requested_memory_bytes": 100 * MIB}
        run(connection, 8, used_memory_bytes=100 * MIB, end=T0 + 7200 * 8 + 3, **killed)
    learn(served)
    answer = ask(served, mem="100M")
    assert "used at most 308M and ran at most 30 min (1 ran out of memory). This job requests 100M" in answer["text"]
    assert 308 <= answer["slurm"]["mem"] <= 4 * 308
    assert "ran at most 30 min" in answer["text"], "the three seconds are no run time"


@pytest.mark.parametrize(("asked_s", "more"), [(1200.0, True), (36_000.0, False)])
def test_a_limit_below_the_need_is_no_saving_and_one_above_is_for_gaps(
    served: Any, capsys: pytest.CaptureFixture[str], asked_s: float, more: bool
) -> None:
    with served.engine.begin() as connection:
        for number in range(12):
            run(connection, number, requested_walltime_s=asked_s)
    learn(served)
    found = served.client("scheduler").get("/api/v1/waste?user=kim&cluster=gamma&sort=runtime").json
    advice = found["rows"][0]["runtime_advice"]
    assert (advice["ask_for"] > asked_s) is more
    assert advice["ask_for"] >= 1800
    client = served.person()
    page = " ".join(client.get("/waste?user=kim&cluster=gamma&sort=runtime").text.split())
    needs = f"asks for {time_text(asked_s)}, jobs like these need up to {time_text(advice['ask_for'])}"
    assert (f"{needs}: ask for more time, or jobs are killed" in page) is more
    assert ("fits into shorter gaps" in page) is not more
    assert ("shorter in all" in page) is not more
    assert (found["runtime"]["freed_hours"] > 0) is not more
    url = served.engine.url.render_as_string(hide_password=False)
    assert main(["savings", "--user", "kim", "--cluster", "gamma", "--database", url]) == 0
    assert (f"{time_text(advice['ask_for'])} + " in capsys.readouterr().out) is more


def test_whole_nodes_are_answered_by_what_was_asked_for(served: Any) -> None:
    """Jobs of one task that hold all eight processors of a node of 8,000 MiB."""
    with served.engine.begin() as connection:
        add_node(connection, 8000 * MIB)
        for number in range(8):
            run(connection, number, used_memory_bytes=505 * MIB, processors=8, asked_processors=1)
            connection.execute(insert(schema.job_nodes).values(run_id=5000 + number, node="n1", processors=8))
    learn(served)
    answer = ask(served)
    assert "used at most 505M and ran" in answer["text"]
    assert 505 <= answer["slurm"]["mem"] <= 4 * 505
    job = served.client("scheduler").get("/api/v1/job?name=7&cluster=gamma").json["runs"][0]
    memory = next(entry for entry in job["efficiency"] if entry["resource"] == "memory")
    assert (memory["used"], memory["ask_next"]) == (505 * MIB, answer["slurm"]["mem"] * MIB)
    client = served.person()
    profile = client.get("/job?cluster=gamma&name=7").text.partition("<h2>Profile</h2>")[2].partition("</table>")[0]
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


def test_nothing_is_recommended_of_what_only_strangers_used(served: Any) -> None:
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
    asked = {"cluster": "gamma", "user": "new", "application": "solve", "queue": "batch", "slurm": {"num_tasks": 1}}
    answer = served.client("submitter").post("/api/v1/advice", json=asked).json
    assert answer["text"] == "No similar job of yours has been measured yet."
    assert answer["slurm"] == {"mem": None, "mem_per_cpu": None, "time_limit": None}
    assert answer["forecasts"][0]["reserve"] > 0, "the model's answer is there for programs"


def test_a_requirement_rests_on_what_the_log_knows(served: Any) -> None:
    """Without any report: the same amount as /predictions, and the same chance that it is too little."""
    with served.engine.begin() as connection:
        for number in range(12):
            run(connection, number)
    learn(served)
    job = {"cluster": "gamma", "user": "kim", "application": "solve", "processors": 1, "memory_bytes": "64G"}
    client = served.client("scheduler")
    found = client.post("/api/v1/requirements", json=job).json
    asked = {**job, "per": "job", "metric": "memory"}
    (answer,) = client.post("/api/v1/predictions", json={"questions": [asked]}).json["predictions"]
    assert 308 * MIB <= answer["bound"] <= found["memory_bytes"] < answer["bound"] + MIB
    steps = [share for amount, share in answer["need_steps"] if amount <= found["memory_bytes"]]
    assert found["confidence"] == max(steps) > 0.9
    assert found["reason"].startswith("Of 12 similar jobs (user + application")


def test_a_user_whose_jobs_are_killed_half_of_the_time_reads_what_would_have_held(served: Any) -> None:
    """149 of 276 jobs, killed at the 4 GiB that they asked for; the others used 2.5 GiB."""
    with served.engine.begin() as connection:
        for number in range(276):
            killed = number * 149 // 276 < (number + 1) * 149 // 276
            used = {"used_memory_bytes": 4096 * MIB, "failure": "memory", "exit_status": 137} if killed else {
                "used_memory_bytes": 2560 * MIB}  # fmt: skip
            run(connection, number, requested_memory_bytes=4096 * MIB, **used)
    learn(served)
    advice = ask(served, mem="4G")
    (memory,) = [forecast for forecast in advice["forecasts"] if forecast["metric"] == "memory"]
    assert memory["reserve"] > 4096 * MIB
    assert advice["slurm"]["mem"] == math.ceil(memory["reserve"] / MIB) > 4096
    assert "(108 ran out of memory). This job requests 4G" in advice["text"], "of the last 200"
    question = {"cluster": "gamma", "user": "kim", "application": "solve", "processors": 1, "memory_bytes": "4G"}
    client = served.client("scheduler")
    asked = {"questions": [question | {"metric": "memory", "per": "job"}]}
    (answer,) = client.post("/api/v1/predictions", json=asked).json["predictions"]
    assert answer["bound"] == memory["reserve"]
    assert client.post("/api/v1/requirements", json=question).json["memory_bytes"] == 4096 * MIB, "no more than asked"


def predicted(served: Any, metric: str, **question: Any) -> Any:
    asked = {"cluster": "gamma", "user": "kim", "application": "solve", "queue": "batch", "account": "physics"}
    asked |= {"processors": 1, "walltime_s": 36_000.0, "metric": metric, "per": "job"} | question
    answer = served.client("scheduler").post("/api/v1/predictions", json={"questions": [asked]})
    return answer.json["predictions"][0]


def test_the_share_is_that_of_the_amount_also_where_the_request_is_too_little(served: Any) -> None:
    """30 jobs that asked for 64G used 300M to 1025M: of those that ask for 100M, all would run out."""
    with served.engine.begin() as connection:
        for number in range(30):
            run(connection, number, used_memory_bytes=(300 + 25 * (number * 7 % 30)) * MIB)
    learn(served)
    for mem in ("100M", "64G"):
        text = ask(served, mem=mem)["text"]
        amount, share = re.search(r"Ask for (\d+)M and .*: enough for (\d+) of 100", text).groups()  # type: ignore[union-attr]
        within = sum(300 + 25 * number <= int(amount) for number in range(30)) / 30
        assert int(share) / 100 <= within + 0.05
        assert int(share) > 90


def test_a_kill_counts_before_its_run_is_profiled(served: Any) -> None:
    """Users and workflow engines submit again within seconds."""
    with served.engine.begin() as connection:
        for number in range(12):
            run(connection, number)
    learn(served)
    assert 308 <= ask(served)["slurm"]["mem"] < 400
    for number, given_mib, least in ((12, 400, 500), (13, 500, 781)):
        killed = {"requested_memory_bytes": given_mib * MIB, "asked_memory_bytes": 64 * 1024 * MIB}
        with served.engine.begin() as connection:
            run(connection, number, used_memory_bytes=None, failure="memory", exit_status=137, **killed)
        assert ask(served)["slurm"]["mem"] >= least


def test_no_share_is_said_of_an_amount_that_the_nodes_cut(served: Any) -> None:
    with served.engine.begin() as connection:
        add_node(connection, 8000 * MIB)
        for number in range(12):
            run(connection, number, used_memory_bytes=(7000 + 80 * (number % 12)) * MIB)
            connection.execute(insert(schema.job_nodes).values(run_id=5000 + number, node="n9", processors=1))
    learn(served)
    cut = predicted(served, "memory", memory_bytes="64G", walltime_s=None)
    assert (cut["bound"], cut["bound_basis"]) == (8000 * MIB, "similar jobs")
    text = ask(served, nodes=1)["text"]
    assert text.startswith("Ask for 8000M and ")
    assert "of 100" not in text


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


def test_every_route_command_and_page_gives_the_same_amounts(
    served: Any, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one job that each describes in full: what to reserve, and what to ask for, in whole MiB and minutes."""
    with served.engine.begin() as connection:
        for number in range(20):
            end = T0 + 7200 * number + 1500 + 2 * (number * 7 % 20)
            run(connection, number, used_memory_bytes=(300 + 5 * (number * 3 % 20)) * MIB, end=end)
    learn(served)
    client, url = served.client("scheduler"), served.engine.url.render_as_string(hide_password=False)
    job = {"cluster": "gamma", "user": "kim", "application": "solve", "queue": "batch", "account": "physics"}
    job |= {"group": "hpc", "processors": 1}
    asked = {"memory_bytes": "64G", "walltime_s": 36_000.0}
    questions = [job | asked | {"metric": metric, "per": "job"} for metric in ("memory", "runtime")]
    answers = client.post("/api/v1/predictions", json={"questions": questions}).json["predictions"]
    memory, runtime = (answer["bound"] for answer in answers)
    assert 300 * MIB < memory < 64 * 1024 * MIB
    # Programs: what to reserve.
    advice = client.post("/api/v1/advice", json=job | asked).json
    minutes = math.ceil(min(runtime, 1.25 * 1538) / 60)  # a quarter more than the longest of these jobs
    rounded = [math.ceil(memory / MIB) * MIB, minutes * 60]
    assert [entry["reserve"] for entry in advice["forecasts"]] == rounded
    for entry, answer in zip(advice["forecasts"], answers, strict=True):
        assert entry["attempts"][1:] == [amount for amount in answer["attempts"] if amount > 1.05 * entry["reserve"]]
    profile = client.get("/api/v1/user?name=kim&cluster=gamma").json["next_job"]
    of_user = {entry["metric"]: entry["bound"] for entry in profile["forecasts"]}
    assert (of_user["memory"], of_user["runtime"]) == (memory, runtime)
    query = "&".join(f"{name}={value}" for name, value in (job | asked | {"per": "job"}).items())
    by_query = client.get(f"/api/v1/predictions?{query}").json["predictions"]
    assert {entry["metric"]: entry["bound"] for entry in by_query}.items() >= {
        "memory": memory,
        "runtime": runtime,
    }.items()
    flags = ["--cluster", "gamma", "--user", "kim", "--application", "solve", "--queue", "batch", "--group", "hpc"]
    flags += ["--account", "physics", "--processors", "1", "--memory", "64G", "--walltime", "10h", "--database", url]
    assert main(["predict", *flags, "--json", "--per", "job"]) == 0
    printed = {entry["metric"]: entry["bound"] for entry in json.loads(capsys.readouterr().out)["predictions"]}
    assert (printed["memory"], printed["runtime"]) == (memory, runtime)
    node = {"type": "compute", "capacities": {"slots": {"total": 9}, "memory_gib": {"total": 99}}, "static": True}
    admin = served.client("admin")
    assert admin.put("/api/v1/resources/node", json=node).status_code == 200
    need = {"name": "n", "type": "compute", "amounts": {"slots": 1, "memory_gib": "predicted"}}
    batch = {"jobs": [{"name": "j", "duration_s": "predicted", "dependencies": [need], **job, **asked}]}
    predicted = admin.post("/api/v1/matches", json=batch).json["predicted"]
    assert [entry["amount"] for entry in predicted] == [pytest.approx(memory / 1024 / MIB), pytest.approx(runtime)]
    # People: what to ask for.
    mib = math.ceil(memory / MIB)
    words = f"Ask for {mib}M and {minutes} min: "
    slurm = client.post("/api/v1/advice", json={name: value for name, value in job.items() if name != "processors"} | {
        "slurm": {"num_tasks": 1, "mem": "64G", "time_limit": 600}}).json  # fmt: skip
    assert (slurm["slurm"]["mem"], slurm["slurm"]["time_limit"]) == (mib, minutes)
    assert slurm["text"] == advice["text"] == profile["text"]
    assert advice["text"].startswith(words)
    assert client.post("/api/v1/requirements", json=job | asked).json["memory_bytes"] == mib * MIB
    of_job = client.get("/api/v1/job?name=19&cluster=gamma").json["runs"][0]
    by_efficiency = client.get("/api/v1/efficiency?name=19&cluster=gamma").json["runs"][0]
    for found in (of_job, by_efficiency):
        assert found["advice"] == advice["text"]
        next_time = {entry["resource"]: entry["ask_next"] for entry in found["efficiency"]}
        assert (next_time["memory"], next_time["runtime"]) == (mib * MIB, minutes * 60)
    for name in ("user", "application"):
        (row,) = client.get(f"/api/v1/waste?user=kim&cluster=gamma&by={name}").json["rows"]
        advised = [row[f"{metric}_advice"]["recommended"] for metric in ("memory", "runtime")]
        assert advised == [mib * MIB, minutes * 60]
    for command in (["predict", *flags], ["seff", "19", "--cluster", "gamma", "--database", url]):
        assert main(command) == 0
        assert " ".join(capsys.readouterr().out.split()).startswith(advice["text"]), command
    browser = served.person()
    for page in ("/job?cluster=gamma&name=19", "/user?cluster=gamma&name=kim"):
        assert f'<p class="advice">{advice["text"]}</p>' in browser.get(page).text, page
    assert f"{mib}M" in browser.get("/waste?user=kim&cluster=gamma").text


def test_a_running_job_on_a_whole_node_is_forecast_by_what_it_asked_for(served: Any) -> None:
    """Of eight processors that it holds it asked for one, and the submit plugin lowered its memory."""
    with served.engine.begin() as connection:
        for number in range(8):
            run(connection, number, used_memory_bytes=300 * MIB)
            run(connection, 20 + number, used_memory_bytes=8 * 2000 * MIB, processors=8)
        changed = {"processors": 8, "asked_processors": 1, "asked_memory_bytes": 64 * 1024 * MIB}
        given = {"requested_memory_bytes": 1024 * MIB, "used_memory_bytes": None}
        run(connection, 99, state="running", end=None, **changed, **given)
    learn(served)
    bound = predicted(served, "memory", group="hpc", memory_bytes="64G")["bound"]
    assert bound < 1000 * MIB
    job = served.client("scheduler").get("/api/v1/job?name=99&cluster=gamma").json["runs"][0]
    (memory,) = [entry for entry in job["profile"] if entry["metric"] == "memory"]
    assert (memory["bound"], memory["provisional"]) == (bound, True)
