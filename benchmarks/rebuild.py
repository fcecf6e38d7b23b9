"""A recorded workload in a database: retrained from its profiles, and a server that answers from the stored model.

    python benchmarks/rebuild.py [TRACE.swf.gz] [--metric memory] [--rows N] [--postgresql URL] [--json]

The trace (LANL-CM5 by default, from JOBSIGHT_TRACES) is written into the real tables as finished, profiled runs; then

- `jobsight rebuild`: CPU seconds and wall time of learning all of it, pending forecasts and all, and how long others
  had to wait for the transaction that writes the result;
- restart: wall time from starting `jobsight serve` on that database until a question about a job is answered right;
- questions: of users alone (stored) and with all that is known of the job (computed), in process and through HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, event, func, insert, select

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.backtest_jobs import jobs_of_trace
from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.auth import create_token
from jobsight_server.forecasts import AnswerReader, ForecastConfig, ForecastRequest, rebuild
from jobsight_server.forecasts.request import job_question
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.migrate import upgrade

ROOT = Path(__file__).resolve().parents[1]
TRACE = "LANL-CM5-1994-4.1-cln.swf.gz"
CLUSTER = "trace"


def fill(engine: Engine, jobs: Jobs) -> None:
    """Runs that have ended, with their profile, at the positions and with the forecasts that time gave them."""
    order = np.argsort(jobs.ended, kind="stable")
    ends = jobs.ended[order]
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = np.arange(1, len(order) + 1)
    forecast_seq = np.minimum(np.searchsorted(ends, jobs.submitted, "right"), positions - 1)
    runs, found = [], []
    for i, question in enumerate(jobs.questions):
        memory, processors = question.requested_memory_bytes, question.processors
        start = float(jobs.ended[i] - jobs.seconds[i])
        runs.append(
            {"id": i + 1, "cluster": CLUSTER, "job_id": f"{i + 1}.trace", "user": name(question.user, "user")}
            | {"name": name(question.application, "app"), "queue": name(question.queue, "queue")}
            | {"processors": processors, "requested_walltime_s": question.requested_time_s, "state": "ended"}
            | {"requested_memory_bytes": None if memory is None else int(memory * (processors or 1))}
            | {"start": start, "end": float(jobs.ended[i]), "submitted": float(jobs.submitted[i])}
            | {"forecast_seq": int(forecast_seq[i]), "recorded_at": float(jobs.ended[i]), "profiled": True}
        )
        value = {"run_id": i + 1, "metric": jobs.metric, "learn_seq": int(positions[i]), "value": float(jobs.values[i])}
        found.append({**value, "source": "accounting", "attribution": "cgroup"})
    with engine.begin() as connection:
        for begin in range(0, len(runs), 10_000):
            connection.execute(insert(schema.jobs), runs[begin : begin + 10_000])
            connection.execute(insert(schema.profiles), found[begin : begin + 10_000])


def name(number: str | None, kind: str) -> str | None:
    """Traces number what they hide; a name that is, or ends in, a number would be taken for one of many runs."""
    return f"{kind}-{'unknown' if number is None else number}-" if number is not None or kind == "user" else None


def learn(engine: Engine) -> dict[str, Any]:
    """`rebuild`, with the time for which its writing transaction was open."""
    open_since: list[float] = []
    held: list[float] = []
    event.listen(engine, "begin", lambda connection: open_since.append(time.perf_counter()))
    event.listen(engine, "commit", lambda connection: held.append(time.perf_counter() - open_since[-1]))
    wall, cpu = time.perf_counter(), time.process_time()
    series = rebuild(engine)
    return {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "writers_waited_s": max(held),
        "series": series,
    }


def questions_of(engine: Engine, metric: str, count: int) -> list[ForecastRequest]:
    """As many jobs of the database, with all that was known of them."""
    columns = ("cluster", "user", "name", "queue", "processors", "requested_memory_bytes", "requested_walltime_s")
    with engine.connect() as connection:
        rows = connection.execute(select(*(schema.jobs.c[column] for column in columns))).all()
    return [
        ForecastRequest(cluster, job_question(*known), metric)
        for cluster, *known in random.Random(1).sample(rows, count)
    ]


def in_process(engine: Engine, questions: list[ForecastRequest]) -> dict[str, float]:
    """CPU microseconds per question, one after the other, on one connection."""
    found = {}
    reader = AnswerReader(engine, ForecastConfig())
    alone = [request._replace(question=Question(user=request.user)) for request in questions]
    with engine.connect() as connection:
        for kind, asked in (("stored", alone), ("computed", questions)):
            begin = time.process_time()
            for request in asked:
                reader.texts(connection, [request])
            found[f"{kind}_us"] = (time.process_time() - begin) / len(asked) * 1e6
    return found


def restart(engine: Engine, url: str, token: str, questions: list[ForecastRequest]) -> dict[str, float]:
    """Seconds from the start of the server to a right answer; then questions a second through HTTP, one by one."""
    from query import cpu_seconds, free_port

    with engine.connect() as connection:
        expected = AnswerReader(engine, ForecastConfig()).answers(connection, questions)
    port, ingest_port = free_port(), free_port()
    command = [sys.executable, "-m", "jobsight_server.cli", "serve", "--database", url]
    command += ["--listen", f"127.0.0.1:{port}", "--ingest-listen", f"127.0.0.1:{ingest_port}"]
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while time.perf_counter() < begin + 60:
                try:
                    right = ask(port, token, questions[0]) == expected[0]
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.01)
                    continue
                assert right, "the first answer is not the one that was stored"
                break
            first = time.perf_counter() - begin
            begin, spent = time.perf_counter(), cpu_seconds(server.pid)
            for question, answer in zip(questions, expected, strict=True):
                assert ask(port, token, question) == answer
            rate = len(questions) / (time.perf_counter() - begin)
            spent = cpu_seconds(server.pid) - spent
        finally:
            server.terminate()
            server.wait(40)
    return {"first_right_answer_s": first, "computed_per_s_one_by_one": rate} | {
        "server_cpu_us_per_question": spent / len(questions) * 1e6
    }


def ask(port: int, token: str, request: ForecastRequest) -> Any:
    """The answer through HTTP."""
    known = request.question
    parameters = {"cluster": request.cluster, "user": known.user, "metric": request.metric}
    parameters |= {"application": known.application, "queue": known.queue, "processors": known.processors}
    if known.requested_memory_bytes is not None:  # of the whole job
        parameters["memory_bytes"] = known.requested_memory_bytes * (known.processors or 1)
    parameters["walltime_s"] = known.requested_time_s
    query = urllib.parse.urlencode({key: value for key, value in parameters.items() if value is not None})
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/predictions?{query}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)["predictions"][0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    traces = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces"))
    parser.add_argument("trace", nargs="?", type=Path, default=traces / TRACE)
    parser.add_argument("--metric", default="memory", choices=("memory", "cpu", "runtime"))
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database there instead of an SQLite file")
    parser.add_argument("--json", action="store_true", help="as JSON only")
    args = parser.parse_args()
    if not args.trace.exists():
        print(f"no trace {args.trace} (set JOBSIGHT_TRACES): nothing is measured", file=sys.stderr)
        return 0
    jobs = jobs_of_trace(read_swf(args.trace), args.metric, args.trace.name)
    with tempfile.TemporaryDirectory() as folder:
        url = args.postgresql or f"sqlite:///{folder}/jobsight.db"
        engine = open_engine(url)
        upgrade(engine)
        with engine.begin() as connection:
            _, token = create_token(connection, "scheduler", "benchmark", time.time())
        fill(engine, jobs)
        found: dict[str, Any] = {"trace": args.trace.name, "metric": args.metric, "jobs": len(jobs.questions)}
        found["rebuild"] = learn(engine)
        with engine.connect() as connection:
            count, size = connection.execute(
                select(func.count(), func.sum(func.length(schema.model_state.c.state)))
            ).one()
        found["parts"], found["parts_megabytes"] = count, float(size) / 1e6
        asked = questions_of(engine, args.metric, args.questions)
        found["questions"] = in_process(engine, asked)
        found["restart"] = restart(engine, url, token, asked[:500])
        engine.dispose()
    found["load_average"] = os.getloadavg()[0]
    if not args.json:
        for key, value in found.items():
            for inner, figure in value.items() if isinstance(value, dict) else [("", value)]:
                print(f"{key} {inner}".ljust(40), f"{figure:,.3f}" if isinstance(figure, float) else figure)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
