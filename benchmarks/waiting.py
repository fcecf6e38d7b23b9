"""Waiting jobs asked about at once: CPU seconds of ``POST /api/v1/forecasts`` for one, 1,000 different and 10,000.

    python benchmarks/waiting.py [TRACE ...] [--learned 30000] [--waiting 10000]

Each trace of `JOBSIGHT_TRACES` is imported as an accounting log; the jobs after the learned ones wait, as they were
submitted. They are asked about in one request, as of now, and looked at for changes as the server does each minute.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from pathlib import Path

from sqlalchemy import insert
from trace_log import write_trace_log

from jobsight_scheduler.workload.swf import read_swf
from jobsight_server.advice.changes import ChangeWatch
from jobsight_server.auth.tokens import create_token
from jobsight_server.cli import main as jobsight
from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.learning.finished import profile_finished
from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.schema import jobs
from jobsight_server.web.open_jobs import JOBS_AT_MOST

TRACES = Path(os.environ.get("JOBSIGHT_TRACES", "traces"))


def measure(path: Path, learned: int, waiting: int) -> None:
    """Print a line for one trace."""
    with tempfile.TemporaryDirectory() as directory:
        url, log = f"sqlite:///{directory}/jobsight.db", Path(directory) / "log"
        now = float(write_trace_log(log, path, learned))
        if jobsight(["import", "torque", str(log), "--cluster", "alpha", "--database", url]):
            raise SystemExit(f"{path}: not imported")
        engine = open_engine(url)
        with engine.begin() as connection:
            waiting_rows = rows(path, learned, waiting, now)
            connection.execute(insert(jobs), waiting_rows)
            # What ends while they wait has their forecasts at submission made and kept.
            one = {**waiting_rows[0], "job_id": "ended", "start": now + 100.0, "end": now + 500.0, "state": "ended"}
            connection.execute(insert(jobs).values(one))
            token = create_token(connection, "scheduler", "benchmark", now)[1]
        profile_finished(engine, 0.0, lambda: now + 1000.0)
        reading = open_engine(url, "read")
        app = create_app(load_settings(flags={"database": url}), reading, engine, lambda: now + 1000.0)
        client, ids = app.test_client(), [f"w{number}" for number in range(min(waiting, JOBS_AT_MOST))]
        gc.collect()
        gc.freeze()  # as a query worker does
        asked = ("user", "name", "queue", "processors", "requested_memory_bytes", "requested_walltime_s")
        first = {tuple(row[name] for name in asked): str(row["job_id"]) for row in reversed(waiting_rows)}
        different = [*first.values()][-1000:]
        took: dict[str, list[float]] = {"one": [], "different": [], "all": []}
        for name, some in [("one", ids[:1]), ("different", different), ("all", ids)] * 3:
            begin = time.process_time()
            answer = client.post("/api/v1/forecasts", json={"ids": some}, headers={"Authorization": f"Bearer {token}"})
            took[name].append(time.process_time() - begin)
            assert answer.status_code == 200, answer.text
        found = answer.get_json()["runs"]
        known = sum(any(one["forecast"] is not None for one in run["forecasts"]) for run in found)
        watch = ChangeWatch(engine, AnswerReader(ForecastConfig()))
        begin = time.process_time()
        changes = watch.look(now + 1000.0)
        look_s = time.process_time() - begin
        print(
            f"{path.name}: {len(found)} jobs, {known} with a forecast: {min(took['all']):.2f} s of CPU "
            f"({max(took['all']):.2f} at most), {len(different)} different ones {min(took['different']):.2f} s, "
            f"one {1e3 * min(took['one']):.1f} ms; "
            f"looking for changes {look_s:.2f} s, {changes} found",
            flush=True,
        )


def rows(path: Path, learned: int, waiting: int, now: float) -> list[dict[str, object]]:
    """The jobs of the trace after the learned ones, from its beginning again where it ends."""
    trace = read_swf(path)
    found = []
    for number in range(waiting):
        row = (learned + number) % len(trace)
        known = {name: int(trace[name][row]) for name in ("user", "application", "queue", "requested_s")}
        processors = max(int(trace["requested_processors"][row]), int(trace["processors"][row]), 1)
        memory = int(trace["requested_memory_kb"][row]) * 1024 * processors
        app = "".join(chr(97 + int(digit)) for digit in str(max(known["application"], 0)))
        found.append(
            {"cluster": "alpha", "job_id": f"w{number}", "start": float("inf"), "state": "queued"}
            | {"user": f"u{known['user']}-0", "name": f"app{app}xa", "queue": f"q{known['queue']}"}
            | {"processors": processors, "requested_memory_bytes": memory if memory > 0 else None}
            | {"requested_walltime_s": float(known["requested_s"]) if known["requested_s"] > 0 else None}
            | {"queued": now, "submitted": now, "recorded_at": now, "profiled": False}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, default=sorted(TRACES.glob("*.swf.gz")))
    parser.add_argument("--learned", type=int, default=30_000)
    parser.add_argument("--waiting", type=int, default=10_000)
    args = parser.parse_args()
    for path in args.traces:
        measure(path, args.learned, args.waiting)


if __name__ == "__main__":
    main()
