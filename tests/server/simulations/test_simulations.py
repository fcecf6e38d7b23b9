"""Simulations from the page's form to figures, pictures and comparisons, executed as the background role does."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, func, insert, select

from jobsight_server.auth.sessions import create_login
from jobsight_server.cli import main
from jobsight_server.serve.app import create_app
from jobsight_server.settings import Settings
from jobsight_server.storage import schema
from jobsight_server.storage.event_counts import read_event_counts
from jobsight_server.systems.simulations import tables as simulations_tables
from jobsight_server.systems.simulations.execute import run_queued
from jobsight_server.systems.simulations.runs import stop_interrupted


def swf(job: int, submit: float, run: float, processors: int, requested: float = -1) -> str:
    return f"{job} {submit} -1 {run} {processors} -1 -1 {processors} {requested} -1 1 {job % 3} -1 -1 -1 -1 -1 -1"


def workload(count: int, header: str = "; MaxProcs: 8\n") -> bytes:
    rows = (swf(i, i * 20, 40 + i * 37 % 300, 1 + i * 5 % 8, 300 + i % 50) for i in range(count))
    return (header + "\n".join(rows) + "\n").encode()


@pytest.fixture(autouse=True)
def path_for_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation runs in a process of its own, which has to find the packages where this one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


@pytest.fixture
def app(engine: Engine, database_url: str) -> Flask:
    settings = Settings(database=database_url, sections={"simulations": {"kept": 3, "trace_bytes": 400_000}})
    return create_app(settings, engine, engine, time.time)


@pytest.fixture
def client(app: Flask, engine: Engine) -> FlaskClient:
    """Logged in."""
    client = app.test_client()
    with engine.begin() as connection:
        secret = create_login(connection, time.time())
    assert client.get("/login", query_string={"once": secret}).status_code == 303
    return client


Start = Callable[..., Any]


@pytest.fixture
def start(client: FlaskClient) -> Start:
    """Sends the form; by default with a small trace in a file."""

    def send(content: bytes | None = None, name: str = "t.swf", **fields: str) -> Any:
        data: dict[str, Any] = {"source": "upload", "policy": "easy", **fields}
        if data["source"] == "upload":
            data["trace"] = (io.BytesIO(workload(60) if content is None else content), name)
        return client.post("/simulations", data=data, content_type="multipart/form-data")

    return send


def ask(client: FlaskClient, path: str) -> Any:
    """The API's answer, which has the shape that it declares."""
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 200
    spec = client.get("/api/v1/openapi.json").get_json()
    declared = re.sub("/[0-9]+$", "/{id}", f"/api/v1{path.partition('?')[0]}")
    content = spec["paths"][declared]["get"]["responses"]["200"]["content"]["application/json"]
    schema = {**content["schema"], "components": spec["components"]}
    jsonschema.validate(answer.get_json(), schema, cls=jsonschema.Draft202012Validator)
    return answer.get_json()


def execute(engine: Engine) -> None:
    run_queued(engine, threading.Event(), time.time)


@pytest.fixture
def alongside(engine: Engine) -> Iterator[threading.Event]:
    """The background's executor in a thread, until the event that stops it is set."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            run_queued(engine, stop, time.time)
            stop.wait(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    yield stop
    stop.set()
    thread.join()


def wait_for(client: FlaskClient, run: int, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Asks plainly: holding each answer against its schema would take the simulation's processor."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        found: dict[str, Any] = client.get(f"/api/v1/simulations/{run}").get_json()
        if wanted(found):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


@pytest.mark.exhaustive
def test_a_run_has_the_figures_that_the_command_prints(
    client: FlaskClient, start: Start, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = start(
        gzip.compress(workload(60)), "t.swf.gz", policy="easy++", predictor="jobsight", load="0.9", ask_again="1"
    )
    assert (answer.status_code, answer.headers["Location"]) == (303, "/simulations/1")
    assert ask(client, "/simulations/1")["state"] == "queued"
    execute(engine)
    found = ask(client, "/simulations/1")
    assert (found["state"], found["progress"], found["error"]) == ("done", 1.0, None)
    file = tmp_path / "t.swf.gz"
    file.write_bytes(gzip.compress(workload(60)))
    arguments = [
        "simulate",
        str(file),
        "--policy",
        "easy++",
        "--predictor",
        "jobsight",
        "--load",
        "0.9",
        "--json",
        "--ask-again",
    ]
    assert main([*arguments, "--jobs-out", str(tmp_path / "jobs.csv")]) == 0
    expected = json.loads(capsys.readouterr().out)
    changing = {"cpu_s", "jobs_per_cpu_s", "by_user"}
    assert {k: v for k, v in found["all_figures"].items() if k not in changing} == {
        k: v for k, v in expected.items() if k not in changing
    }
    assert client.get("/simulations/1/jobs.csv").data == (tmp_path / "jobs.csv").read_bytes()
    page = client.get("/simulations/1").text
    for source in re.findall(r'<img src="(/simulations[^"]+)"', page):
        picture = client.get(source)
        assert picture.mimetype == "image/svg+xml"
        assert "</svg>" in picture.text
        assert "easy++ on 8 processors" in picture.text or "gantt" in source
        assert "default-src 'none'" in picture.headers["Content-Security-Policy"]
    assert page.count('<img src="/simulations') == 4
    assert "jobsight, asked again while jobs wait" in page
    assert (found["ask_again"], found["all_figures"]["ask_again"]) == (True, True)
    assert ask(client, "/simulations")["simulations"][0]["figures"]["jobs"] == 60
    assert '<td class="num" data-bind="figures.jobs" data-format="count">60</td>' in client.get("/simulations").text


@pytest.mark.exhaustive
def test_runs_of_the_same_jobs_are_compared_with_intervals(
    client: FlaskClient, start: Start, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(policy="easy")
    start(policy="fcfs", source="run:1")
    start(policy="fcfs", source="run:1", processors="9")
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(simulations_tables.simulation_traces)) == 1
    execute(engine)
    runs = ask(client, "/simulations/compare?run=1&run=2&run=3")["runs"]
    file = tmp_path / "t.swf"
    file.write_bytes(workload(60))
    assert main(["simulate", str(file), "--policy", "easy", "--against", "fcfs", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["against"]["fcfs"]
    assert runs[0]["differences"] is None
    for name in ("wait_s", "turnaround_s", "bounded_slowdown"):
        assert runs[1]["differences"][name] == expected[f"difference_{name}"]
    assert expected["difference_wait_s"][0] > 0
    assert (runs[2]["same_workload"], runs[2]["differences"]) == (False, None)
    page = client.get("/simulations/compare?run=1&run=2&run=3").text
    assert "its jobs cannot be paired" in page
    assert "run=1&amp;run=2&amp;run=3" in page  # the address of its JSON has all three


@pytest.mark.parametrize(("query", "status"), [("", 400), ("run=1", 400), ("run=1&run=x", 400), ("run=1&run=2", 404)])
def test_what_cannot_be_compared_is_said(client: FlaskClient, query: str, status: int) -> None:
    answer = client.get(f"/api/v1/simulations/compare?{query}")
    assert answer.status_code == status
    assert answer.get_json()["error"]


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        (b"", {}, "t.swf does not begin as the Standard Workload Format does: no lines"),
        (b"a,b\n1,2\n", {}, "2 lines not numbers: left out"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc", {}, "the compressed file is broken"),
        (gzip.compress(bytes(500_000)), {}, "is longer than 400,000 bytes unpacked"),
        (workload(5, ""), {}, "t.swf has no MaxProcs in its header: give the machine&#39;s processors"),
        (None, {"processors": "0"}, "processors &#39;0&#39;: give a whole number from 1"),
        (None, {"processors": "٣"}, "processors"),
        (None, {"load": "nan"}, "load &#39;nan&#39;: give a share"),
        (None, {"load": "-1"}, "load &#39;-1&#39;"),
        (None, {"policy": "best"}, "unknown policy &#39;best&#39;"),
        (None, {"policy": "fcfs", "predictor": "jobsight"}, "fcfs uses requested times and takes no predictor"),
        (None, {"source": "run:7"}, "the trace of run &#39;7&#39; is no longer kept"),
        (None, {"source": "cluster:<b>"}, "cluster &#39;&lt;b&gt;&#39; has no finished job"),
    ],
)
def test_bad_input_is_named_on_the_page(
    client: FlaskClient, start: Start, content: bytes | None, fields: dict[str, str], message: str
) -> None:
    answer = start(content, **fields)
    assert answer.status_code == 400
    assert message in re.findall(r'role="alert">([^<]*)<', answer.text)[0]
    assert ask(client, "/simulations")["simulations"] == []


@pytest.mark.storage
def test_no_file_and_a_file_too_long(client: FlaskClient, start: Start) -> None:
    answer = start(b"", "")
    assert (answer.status_code, "choose a file" in answer.text) == (400, True)
    answer = start(bytes(500_000))
    assert (answer.status_code, "the file is longer than 391 KiB" in answer.text) == (413, True)


def test_another_site_and_a_stranger_start_and_stop_nothing(app: Flask, client: FlaskClient, start: Start) -> None:
    start()
    for path in ("/simulations", "/simulations/1/stop"):
        answer = client.post(path, data={}, headers={"Origin": "https://elsewhere.example"})
        assert answer.status_code == 403
        assert app.test_client().post(path, data={}).status_code == 401
    for path in ("/simulations", "/simulations/1", "/simulations/1/queue.svg", "/simulations/1/jobs.csv"):
        assert app.test_client().get(path).status_code == 303
    assert ask(client, "/simulations/1")["state"] == "queued"


@pytest.mark.storage
def test_what_the_command_refuses_fails_in_its_words(client: FlaskClient, start: Start, engine: Engine) -> None:
    start(swf(1, 0, 10, 8).encode(), "../a <b>$\\frac{$.swf", processors="4")
    execute(engine)
    found = ask(client, "/simulations/1")
    assert found["trace"].endswith("frac{$.swf")
    assert found["state"] == "failed"
    assert "none of its 1 jobs can run" in found["error"]
    assert "/" not in found["error"].split(":")[0]
    page = client.get("/simulations/1").text
    assert "none of its 1 jobs can run" in page
    assert "<b>" not in page
    assert client.get("/simulations/1/queue.svg").status_code == 404


@pytest.mark.exhaustive
def test_a_queued_and_a_running_one_can_be_stopped(
    client: FlaskClient, start: Start, alongside: threading.Event
) -> None:
    start(long_workload(), policy="conservative")
    wait_for(client, 1, lambda run: run["state"] == "running" and run["progress"] > 0)
    start()
    assert ask(client, "/simulations/2")["ahead"] == 1
    assert client.post("/simulations/2/stop").status_code == 303
    assert client.post("/simulations/1/stop").status_code == 303
    start()
    wait_for(client, 3, lambda run: run["state"] == "done")
    for run in (1, 2):
        found = ask(client, f"/simulations/{run}")
        assert (found["state"], found["error"]) == ("stopped", "stopped from the page")
    assert client.post("/simulations/3/stop").status_code == 303
    assert ask(client, "/simulations/3")["state"] == "done"


def test_the_end_of_the_server_stops_a_run(client: FlaskClient, start: Start, alongside: threading.Event) -> None:
    start(long_workload(), policy="conservative")
    wait_for(client, 1, lambda run: run["state"] == "running")
    start()
    alongside.set()
    found = wait_for(client, 1, lambda run: run["state"] != "running")
    assert (found["state"], found["error"]) == ("stopped", "the server was stopped while it ran")
    assert ask(client, "/simulations/2")["state"] == "queued"


@pytest.mark.storage
def test_what_ran_when_the_server_was_killed_is_stopped_at_its_next_start(
    client: FlaskClient, start: Start, engine: Engine
) -> None:
    start()
    start()
    with engine.begin() as connection:
        first = simulations_tables.simulations.c.id == 1
        connection.execute(simulations_tables.simulations.update().where(first).values(state="running", started=1.0))
    stop_interrupted(engine, 5.0)
    found = ask(client, "/simulations/1")
    assert (found["state"], found["ended"]) == ("stopped", 5.0)
    assert ask(client, "/simulations/2")["state"] == "queued"


@pytest.mark.exhaustive
def test_only_so_many_are_kept_and_the_rest_is_counted(client: FlaskClient, start: Start, engine: Engine) -> None:
    for count in (50, 51, 52):
        start(workload(count))
    answer = start(workload(53))
    assert (answer.status_code, "3 simulations are waiting or running" in answer.text) == (400, True)
    execute(engine)
    start(workload(53))
    data = ask(client, "/simulations")
    assert [run["id"] for run in data["simulations"]] == [4, 3, 2]
    assert (data["kept_at_most"], data["deleted"]) == (3, 1)
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(simulations_tables.simulation_traces)) == 3
        assert set(connection.scalars(select(simulations_tables.simulation_files.c.run_id))) == {2, 3}
        assert read_event_counts(connection)["simulations_deleted", "more than are kept"] == 1
    assert client.get("/simulations/1").status_code == 404


@pytest.mark.exhaustive
@pytest.mark.storage
def test_the_jobs_of_the_site_become_a_workload(client: FlaskClient, start: Start, engine: Engine) -> None:
    """Worked out by hand: 1 and 2 ran side by side, so the machine has 6; 3 was submitted first and waited."""
    rows = [
        {"job_id": "1", "submitted": 100.0, "start": 100.0, "end": 200.0, "processors": 4, "user": "<b>"},
        {"job_id": "2", "submitted": 110.5, "start": 120.5, "end": 200.0, "processors": 2, "user": "u"},
        {"job_id": "3", "submitted": 90.0, "start": 200.0, "end": 230.0, "processors": 6, "user": "u"},
        {"job_id": "4", "submitted": 90.0, "start": 200.0, "end": None, "processors": 6, "user": "u"},
        {"job_id": "5", "submitted": None, "start": 300.0, "end": 310.0, "processors": None, "user": "u"},
    ]
    given = {"cluster": "c", "recorded_at": 0.0, "profiled": False, "name": "cfd_1", "queue": "q"}
    given |= {"requested_memory_bytes": 3 * 2**20, "requested_walltime_s": 150.0}
    with engine.begin() as connection:
        for row in rows:
            state = "running" if row["end"] is None else "ended"
            connection.execute(insert(schema.jobs).values(given | row | {"state": state}))
    assert "finished on c" in client.get("/simulations").text
    assert start(source="cluster:c", policy="fcfs").status_code == 303
    with engine.connect() as connection:
        content = connection.scalar(select(simulations_tables.simulation_traces.c.content))
    assert content is not None
    assert gzip.decompress(content).decode().splitlines() == [
        "; UnixStartTime: 90",
        "; MaxProcs: 6",
        "1 0 110 30 6 -1 -1 6 150 512 1 1 -1 1 1 -1 -1 -1",
        "2 10 0 100 4 -1 -1 4 150 768 1 2 -1 1 1 -1 -1 -1",
        "3 20.5 10 79.5 2 -1 -1 2 150 1536 1 1 -1 1 1 -1 -1 -1",
    ]
    execute(engine)
    figures = ask(client, "/simulations/1")["all_figures"]
    # 6 processors: job 1 from 0 to 30, then 2 and 3 side by side.
    assert (figures["processors"], figures["mean_wait_s"]) == (6, pytest.approx((0 + 20 + 9.5) / 3))


@pytest.mark.exhaustive
def test_the_child_ends_with_its_parent(tmp_path: Path) -> None:
    """The background role may be killed: what it started must not simulate on for hours."""
    file = tmp_path / "t.swf"
    file.write_bytes(long_workload())
    with subprocess.Popen(
        worker(file, tmp_path, "conservative"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert 0.0 <= json.loads(child.stdout.readline())["progress"] < 1.0
        child.stdin.close()
        assert child.wait(30) == -15


@pytest.mark.exhaustive
def test_the_child_reports_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "t.swf"
    file.write_bytes(workload(60))
    with subprocess.Popen(worker(file, tmp_path, "easy"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = [json.loads(line) for line in child.stdout]
        assert child.wait(30) == 0
    assert [list(line) for line in lines] == [["progress"]] * (len(lines) - 1) + [["figures"]]
    assert (lines[-1]["figures"]["jobs"], lines[-1]["figures"]["processors"]) == (60, 8)
    assert "by_user" not in lines[-1]["figures"]
    assert (tmp_path / "jobs.csv").exists()
    file.write_bytes(workload(60, ""))
    with subprocess.Popen(worker(file, tmp_path, "easy"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        error = json.loads(child.stdout.read())["error"]
        assert child.wait(30) == 1
    assert error == f"{file} has no MaxProcs in its header: give --processors"


def worker(file: Path, folder: Path, policy: str) -> list[str]:
    parameters = json.dumps({"policy": policy})
    command = [sys.executable, "-m", "jobsight_server.systems.simulations.worker"]
    return [*command, str(2**32), "600", str(file), parameters, str(folder)]


def long_workload() -> bytes:
    """Small to send, long to simulate: under conservative backfilling each early end moves hundreds of reservations."""
    rows = (f"{i} {i // 500 * 3000} 0 {9 + i % 7} {1 + i % 8} -1 -1 -1 900" for i in range(12_000))
    return ("; MaxProcs: 8\n" + "\n".join(rows)).encode()
