"""Requirements and their outcomes through HTTP: how long a submit filter waits, beside a history of many jobs.

    python benchmarks/requirements.py [--groups 20000] [--questions 1000] [--estimator jobsight] [--database URL]

Every group has five reported jobs. The server is the real `jobsight serve`; one client on one connection asks for a
job of a random group and then reports it, each answer durable before it comes. CPU time is given as well: unlike the
waits it does not depend on what else the machine does. A database that is named must be empty.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from query import cpu_seconds, free_port, wait_until_ready
from sqlalchemy import Connection, insert

from jobsight_predictor.question import Question
from jobsight_server.auth import create_token
from jobsight_server.forecasts.request import question_text
from jobsight_server.requirements import RequirementConfig
from jobsight_server.requirements.config import JOBSIGHT
from jobsight_server.requirements.groups import count_asked, learn, learned_keys
from jobsight_server.requirements.stored import Parts, write_parts
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.migrate import upgrade
from jobsight_server.storage.schema import requirement_groups, requirements

REQUESTED = 32 * 2**30
JOBS_EACH = 5


def job_of(group: int) -> Question:
    return Question(f"user{group % 1000:03}", f"{group // 1000}-cfd", None, 4, None, 3600.0)


def fill(connection: Connection, config: RequirementConfig, groups: int) -> None:
    """Groups with their jobs and what is learned from these, as reports would leave them."""
    rng, parts, rows = random.Random(1), Parts(), []
    for group in range(groups):
        job = job_of(group)
        row = count_asked(connection, config, "alpha", job, REQUESTED, 0.0)
        for _ in range(JOBS_EACH):
            used = int(REQUESTED * rng.uniform(0.05, 0.3))
            if config.name != JOBSIGHT:  # whose answers need no state of requirements
                known = {key: parts[key] for key in learned_keys(config, job, REQUESTED) if key in parts}
                parts |= learn(config, known, job, REQUESTED, REQUESTED, failed=False, used_bytes=used)
            reported = {"outcome": "finished", "used_bytes": used, "ended_at": 0.0, "asked_at": 0.0}
            place = {"group_id": row.id, "cluster": "alpha", "question": question_text(job)}
            rows.append({**place, "requested_bytes": REQUESTED, "memory_bytes": REQUESTED, **reported})
    connection.execute(insert(requirements), rows)
    connection.execute(requirement_groups.update().values(finished=JOBS_EACH, enough_bytes=REQUESTED // 4))
    if parts:
        write_parts(connection, "alpha", config.method, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--estimator", default="jobsight")
    parser.add_argument("--database")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = args.database or f"sqlite:///{Path(folder) / 'jobsight.db'}"
        engine = open_engine(database)
        upgrade(engine)
        with engine.begin() as connection:
            fill(connection, RequirementConfig(args.estimator), args.groups)
            _, token = create_token(connection, "scheduler", "benchmark", time.time())
        engine.dispose()
        port = free_port()
        command = [sys.executable, "-m", "jobsight_server.cli", "serve", "--database", database, "--clusters", "alpha"]
        command += ["--listen", f"127.0.0.1:{port}", "--ingest-listen", f"127.0.0.1:{free_port()}"]
        server = subprocess.Popen([*command, "--requirements-estimator", args.estimator], stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(port, server)
            before = cpu_seconds(server.pid)
            measure(port, token, args.groups, args.questions)
            cpu_ms = (cpu_seconds(server.pid) - before) * 1000 / args.questions
            print(f"CPU time of the server: {cpu_ms:.2f} ms for a question and its outcome")
        finally:
            server.terminate()
            server.wait(30)


def measure(port: int, token: str, groups: int, questions: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(path: str, body: dict[str, Any]) -> tuple[Any, float]:
        begin = time.perf_counter()
        connection.request("POST", f"/api/v1/{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(f"{path} was answered {answer.status}: {found}")
        return found, (time.perf_counter() - begin) * 1000

    rng = random.Random(2)
    waits: dict[str, list[float]] = {"requirements": [], "outcomes": []}
    for _ in range(questions):
        job = job_of(rng.randrange(groups))
        body = {"cluster": "alpha", "user": job.user, "application": job.application, "memory_bytes": REQUESTED}
        found, wait = post("requirements", {**body, "processors": 4, "walltime_s": 3600})
        waits["requirements"].append(wait)
        report = {"cluster": "alpha", "user": job.user, "requirement": found["id"], "value": int(REQUESTED * 0.1)}
        waits["outcomes"].append(post("outcomes", report)[1])
    for name, found in waits.items():
        found.sort()
        at = {share: found[int(share * (len(found) - 1))] for share in (0.0, 0.5, 0.95)}
        print(f"{name}: least {at[0.0]:.2f} ms, median {at[0.5]:.2f}, 95 % within {at[0.95]:.2f}")


if __name__ == "__main__":
    main()
