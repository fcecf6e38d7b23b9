"""The predictor that a simulation asks is the one that the server asks: the same question has the same answer.

A small workload is simulated with EASY++ and the predictor ``jobsight``, which is asked at each submission and taught
at each end. The schedule that comes out is written as a TORQUE accounting log, and the server takes the log in up to
an instant, profiles, learns, and is asked over HTTP.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine

from jobsight_predictor.question import Question
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.prediction import Jobsight
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.workload.canonical import Workload, canonical, questions_of
from jobsight_scheduler.workload.swf import Trace, parse_swf
from jobsight_server.accounting.read_logs import import_files
from jobsight_server.auth.tokens import create_token
from jobsight_server.profiler.run import profile_finished
from jobsight_server.serve.app import create_app
from jobsight_server.settings import load_settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.systems.migrate import upgrade

EPOCH = 1_700_000_000
CAPACITY = 16
# Numbers of the trace as the site's log writes them; the server leaves out a number at the end of a job's name.
APPLICATIONS = {-1: None, 1: "cfd.sh", 2: "md-large", 3: "x/qcd"}
MEGABYTE = 2**20


class Noted(Jobsight):
    """Notes what was forecast for each job when it was submitted."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(questions)
        self.said: dict[int, float | None] = {}

    def forecast(self, job: int) -> float | None:
        self.said[job] = super().forecast(job)
        return self.said[job]


class Simulated(NamedTuple):
    trace: Trace
    workload: Workload
    start_s: list[float]
    said: dict[int, float | None]


def swf(count: int, seed: int) -> str:
    rng = random.Random(seed)
    rows, submit = [], 0
    for job in range(1, count + 1):
        submit += rng.randrange(1, 400)
        user, application = rng.randrange(4), rng.choice([-1, 1, 2, 3])
        usual = 60 * (user + 1) * (application + 2)
        run_s = rng.choice([usual, usual + rng.randrange(30), rng.randrange(5, 3000)])
        asked = rng.choice([600, 3600, 7200])
        memory_kb = rng.choice([-1, 1024, 524288])
        queue = rng.choice([-1, 0, 1])
        row = (job, submit, -1, run_s, rng.choice([1, 2, 4, 7, 8]), -1, -1, -1, asked, memory_kb, 1, user, -1)
        rows.append(" ".join(map(str, (*row, application, queue, -1, -1, -1))))
    return "\n".join(rows)


def simulated(seed: int) -> Simulated:
    """The first workload from ``seed`` on in which no job ends in the very second of a submission.

    There the simulation and the server differ by rule (docs/use/simulation.md).
    """
    for attempt in range(seed, seed + 100):
        found = simulated_as_drawn(attempt)
        ends = {start + length for start, length in zip(found.start_s, found.workload.run_s.tolist(), strict=True)}
        if ends.isdisjoint(found.workload.submit_s.tolist()):
            return found
    raise AssertionError("jobs end with submissions in each of a hundred workloads")


def simulated_as_drawn(seed: int) -> Simulated:
    trace = parse_swf(swf(220, seed).splitlines())
    workload = canonical(trace, CAPACITY)
    questions = questions_of(trace, workload.row)
    noted = Noted(questions)
    simulation = Simulation(workload, CAPACITY, lambda requests: EasyPlus(requests, noted), questions)
    assert simulation.advance(1_000_000)
    return Simulated(trace, workload, simulation.start_s.tolist(), noted.said)


def log_until(found: Simulated, instant: float) -> list[str]:
    """The accounting log of the simulated schedule, of all that happened before ``instant``."""
    lines: list[tuple[float, int, str]] = []
    for job, start in enumerate(found.start_s):
        end = start + found.workload.run_s[job]
        message = common(found, job, start)
        if start < instant:
            lines.append((start, 1, record("S", job, start, message)))
        if end < instant:
            ended = (
                f"{message} session=1 end={EPOCH + end:.0f} Exit_status=0 resources_used.walltime={hms(end - start)}"
            )
            lines.append((end, 0, record("E", job, end, ended)))
    return [line for *_, line in sorted(lines, key=lambda entry: entry[:2])]


def record(kind: str, job: int, at: float, message: str) -> str:
    return f"{datetime.fromtimestamp(EPOCH + at, UTC):%m/%d/%Y %H:%M:%S};{kind};{job}.server;{message}\n"


def common(found: Simulated, job: int, start: float) -> str:
    asked = given(found, job)
    submit = EPOCH + found.workload.submit_s[job]
    hosts = "+".join(f"n1/{i}" for i in range(asked["processors"]))
    words = [f"user={asked['user']}", "group=g"]
    words += [f"jobname={asked['application']}"] if "application" in asked else []
    words += [f"queue={asked['queue']}"] if "queue" in asked else []
    words += [f"{name}={submit:.0f}" for name in ("ctime", "qtime", "etime")] + [f"start={EPOCH + start:.0f}"]
    words += [f"exec_host={hosts}", f"Resource_List.walltime={hms(asked['walltime_s'])}"]
    words += [f"Resource_List.mem={asked['memory_bytes']}b"] if "memory_bytes" in asked else []
    return " ".join(words)


def given(found: Simulated, job: int) -> dict[str, object]:
    """The job as a scheduler of the site would tell it: names, and memory of the whole job."""
    row = int(found.workload.row[job])
    trace = found.trace
    processors = int(found.workload.processors[job])
    application = APPLICATIONS[int(trace["application"][row])]
    memory_kb, queue = trace["requested_memory_kb"][row], trace["queue"][row]
    return {
        "user": f"user{trace['user'][row]:.0f}",
        "processors": processors,
        "walltime_s": float(found.workload.estimate_s[job]),
        **({} if application is None else {"application": application}),
        **({} if queue < 0 else {"queue": f"q{queue:.0f}"}),
        **({} if memory_kb < 0 else {"memory_bytes": int(memory_kb * 1024 * processors)}),
    }


def hms(seconds: float) -> str:
    return f"{int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def client_of(engine: Engine, url: str) -> FlaskClient:
    with engine.begin() as connection:
        token = create_token(connection, "scheduler", "t", 0.0)[1]
    client = create_app(load_settings(flags={"database": url}), engine, engine, time.time).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return client


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 1000, 2000])
def test_the_server_answers_what_the_simulation_was_told(tmp_path: Path, seed: int) -> None:
    found = simulated(seed)
    assert (np.array(found.start_s) > found.workload.submit_s).mean() > 0.3  # there were queues
    values = 0
    for job in (3, 40, 90, 140, 219):
        url = f"sqlite:///{tmp_path / f'{job}.db'}"
        engine = open_engine(url)
        upgrade(engine)
        log = tmp_path / "20231114"
        log.write_text("".join(log_until(found, float(found.workload.submit_s[job]))))
        import_files(engine, [log], "c", lambda: 0.0)
        profile_finished(engine, 0.0, lambda: 1e12)
        client = client_of(engine, url)
        question = {"cluster": "c", "metric": "runtime", **given(found, job)}
        answer = client.get("/api/v1/predictions", query_string=question)
        assert answer.status_code == 200, answer.text
        assert answer.get_json()["predictions"][0]["value"] == found.said[job]
        values += found.said[job] is not None
        engine.dispose()
    assert values >= 4
