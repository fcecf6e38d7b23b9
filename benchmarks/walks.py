"""The modules that a question, a learned job, the users' API, a matched batch and an accepted offer enter, in order.

    python benchmarks/walks.py [--functions]

Counted are modules of Jobsight of which a function runs, imports aside, on a small site in SQLite.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy import Engine

from jobsight_server.accounting.read_logs import import_files
from jobsight_server.auth.tokens import create_token
from jobsight_server.profiler.run import profile_finished
from jobsight_server.serve.app import create_app
from jobsight_server.settings import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.systems.migrate import upgrade

RECORD = (
    "{at};E;{number}.server;user={user} group=physics jobname={name} queue=batch ctime={begin} qtime={begin} "
    "etime={begin} start={begin} exec_host=n1/0+n1/1 Resource_List.mem=8gb Resource_List.nodect=1 "
    "Resource_List.nodes=1:ppn=2 Resource_List.walltime=02:00:00 session=1 end={end} Exit_status=0 "
    "resources_used.cput=00:30:00 resources_used.mem=900000kb resources_used.vmem=1000000kb "
    "resources_used.walltime=00:20:00\n"
)
QUESTION: dict[str, Any] = {
    "cluster": "alpha", "user": "ann", "application": "mesh", "queue": "batch", "processors": 2,
    "memory_bytes": str(8 * 2**30), "walltime_s": "7200", "group": "physics",
}  # fmt: skip
SERVER: dict[str, Any] = {"type": "compute", "attributes": {}, "capacities": {"slots": {"total": 8}}, "static": True}
BATCH: dict[str, Any] = {
    "jobs": [
        {"name": name, "dependencies": [{"name": "node", "type": "compute", "amounts": {"slots": slots}}]}
        for name, slots in (("a", 2), ("b", 4))
    ]
}
Walk = list[tuple[str, str]]


def walk(action: Callable[[], object]) -> Walk:
    """The functions entered by ``action``, as (module, function), each once."""
    entered: dict[tuple[str, str], None] = {}

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("jobsight_") and frame.f_code.co_name != "<module>":
            entered.setdefault((name, frame.f_code.co_qualname))

    sys.setprofile(enter)
    try:
        action()
    finally:
        sys.setprofile(None)
    return list(entered)


def walks(directory: Path) -> dict[str, Walk]:
    """All walks, by what is done."""
    url = f"sqlite:///{directory / 'jobsight.db'}"
    engine = open_engine(url)
    upgrade(engine)
    log, now = directory / "20261101", time.time()
    _add(engine, log, now, range(1, 60))
    settings = Settings(database=url, sections={"offers": {"nodes": ["alpha=8"]}})
    client = create_app(settings, open_engine(url, "read"), engine).test_client()
    with engine.begin() as connection:
        token = create_token(connection, "admin", "walks", now)[1]
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    for name in ("n1", "n2"):
        _done(client.put(f"/api/v1/resources/{name}", json=SERVER))
    place = {"cluster": "alpha", "user": "ann", "nodes": 2, "walltime_s": "02:00:00", "deadline": now + 1e5}
    actions: dict[str, Callable[[], object]] = {
        "a full question": lambda: _done(client.get("/api/v1/predictions", query_string=QUESTION)),
        "advice": lambda: _advise(client),
        "the users' API": lambda: _done(client.get("/api/v1/users")),
        "a user": lambda: _done(client.get("/api/v1/user?name=ann&cluster=alpha")),
        "a matched batch": lambda: _done(client.post("/api/v1/matches", json=BATCH)),
        "an accepted offer": lambda: _done(client.post("/api/v1/offers", json=place)),
    }
    found = {}
    for name, action in actions.items():
        action()  # the first time fills caches
        found[name] = walk(action)
    import_files(engine, [_written(log, now, range(60, 61))], "alpha", time.time)
    found["a learned job"] = walk(lambda: profile_finished(engine, 0.0, lambda: now + 1e6))
    engine.dispose()
    return found


def _written(log: Path, now: float, numbers: range) -> Path:
    with log.open("a") as stream:
        for number in numbers:
            begin = int(now) - 200_000 + number * 1800
            at = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(begin + 1200))
            user, name = ("ann", "bob", "cyd")[number % 3], ("mesh", "solve")[number % 2]
            stream.write(RECORD.format(at=at, number=number, user=user, name=name, begin=begin, end=begin + 1200))
    return log


def _add(engine: Engine, log: Path, now: float, numbers: range) -> None:
    import_files(engine, [_written(log, now, numbers)], "alpha", time.time)
    profile_finished(engine, 0.0, lambda: now + 1e6)


def _advise(client: FlaskClient) -> None:
    slurm = {"num_tasks": 2, "mem": "8G", "time_limit": 120}
    job = {"cluster": "alpha", "user": "ann", "application": "mesh", "queue": "batch", "slurm": slurm}
    _done(client.post("/api/v1/advice", json=job))


def _done(answer: Any) -> None:
    if answer.status_code >= 300:
        raise SystemExit(f"{answer.request.path}: {answer.status_code} {answer.text}")


def main() -> None:
    """Prints each walk."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--functions", action="store_true", help="name functions, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for name, entered in walks(Path(directory)).items():
            modules = dict.fromkeys(module for module, _ in entered)
            print(f"{name}: {len(modules)} modules")
            for module in modules:
                functions = ", ".join(function for of, function in entered if of == module)
                print(f"    {module}" + (f": {functions}" if args.functions else ""))


if __name__ == "__main__":
    main()
