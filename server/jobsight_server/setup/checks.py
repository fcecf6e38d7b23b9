"""Checks that need no job: files, service, token, answers, nodes."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Engine, Row, select

from jobsight_server.ground.errors import UserError
from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import EDITED, SAME, Item, Placed, PlannedToken, state
from jobsight_server.setup.reporting import reading_engine, reporting_nodes
from jobsight_server.setup.run import run, succeeds
from jobsight_server.setup.schedulers.scheduler import CheckResult, SchedulerSetup
from jobsight_server.storage.schema import jobs, marks, nodes

LIMIT_S = 0.1


def checks(plan: Sequence[Item], scheduler: SchedulerSetup, places: Places) -> Iterator[CheckResult]:
    """Yield each finding as soon as it is made."""
    manifest = Manifest.load(places.manifest(scheduler.kind))
    for item in plan:
        if isinstance(item, Placed) and item.path != places.archive:
            found = state(item, manifest)
            todo = f"{found}: run `jobsight setup {scheduler.kind}`"
            yield CheckResult(f"{item.path}", found in (SAME, EDITED), todo)
    if places.has_services:
        active = succeeds(("systemctl", "is-active", "--quiet", "jobsight-server"))
        yield CheckResult(
            "jobsight-server runs", active, "systemctl start jobsight-server; journalctl -u jobsight-server"
        )
    if scheduler.submitter is not None:
        yield _answer(scheduler.submitter, scheduler, places)
    yield from scheduler.checks()
    silent = sorted(set(scheduler.nodes) - reporting_nodes(places, scheduler.cluster))
    shown = f"{', '.join(silent[:10])}{' ...' if len(silent) > 10 else ''}"
    yield CheckResult("agents of all nodes report", not silent or None, f"silent: {shown}; sh {places.archive} there")


def _answer(token: PlannedToken, scheduler: SchedulerSetup, places: Places) -> CheckResult:
    """Check that the server accepts the token and answers before plugins stop waiting; the best of three counts."""
    address = f"http://{places.address}:{places.port}/api/v1/advice"
    what = f"the server answers within {LIMIT_S * 1000:.0f} ms"
    try:
        headers = {"Authorization": f"Bearer {token.path.read_text().strip()}", "Content-Type": "application/json"}
        body = json.dumps({"cluster": scheduler.cluster, "user": "root", "processors": 1}).encode()
        times = []
        for _ in range(3):
            begin = time.monotonic()
            with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=5) as answer:
                answer.read()
            times.append(time.monotonic() - begin)
    except urllib.error.HTTPError as error:
        answer = error.read(200).decode(errors="replace").strip()
        return CheckResult(
            what, False, f"{error.code}: {answer}; delete {token.path} and run `jobsight setup {scheduler.kind}`"
        )
    except OSError as error:
        return CheckResult(what, False, f"{address}: {error}; start `jobsight serve --config {places.settings}`")
    best = min(times)
    return CheckResult(f"{what} ({best * 1000:.0f})", best < LIMIT_S, f"it took {best:.2f} s, longer than plugins wait")


SCRIPT = "sleep 5"
_MARKS = "the hooks marked its start and end"
_PAUSE_S = 0.5
_TODO = "see `journalctl -t jobsight-hook` on its node, and check that the scheduler runs prolog and epilog"


def follow(scheduler: SchedulerSetup, places: Places, user: str, limit_s: float) -> Iterator[CheckResult]:
    """Yield each step as it is done, and stop at the first that fails.

    Raises:
        UserError: the job could not be submitted.
    """
    begin = time.monotonic()
    job = scheduler.submit(user, SCRIPT)
    yield CheckResult(f"job {job} is submitted as {user}", True)
    if scheduler.comment is not None:
        comment = scheduler.comment(job)
        todo = f"nothing from Jobsight ({comment[:80] or 'empty'}): look for 'jobsight:' in the scheduler's log"
        is_ours = "jobsight" in comment
        yield CheckResult(f"its comment: {comment[:160]}" if is_ours else "its comment", is_ours, todo)
    engine = reading_engine(places)
    if engine is None:
        yield CheckResult("the server's database", False, f"start `jobsight serve --config {places.settings}`")
        return
    try:
        while (row := _run(engine, scheduler.cluster, job)) is None or row.end is None:
            if time.monotonic() - begin > limit_s:
                known = "the job is known, but has not ended" if row is not None else "the job is unknown"
                todo = f"{known} after {limit_s:.0f} s: see the scheduler's queue, and *Rejected data* on *Nodes*"
                yield CheckResult(f"job {job} in the accounting log", False, todo)
                return
            time.sleep(_PAUSE_S)
        took = time.monotonic() - begin
        ran = f"{row.state} after {row.end - row.start:.0f} s"
        yield CheckResult(f"the accounting log has it: {ran}; known {took:.0f} s after its submission", True)
        agents, todo = reporting_nodes(places, scheduler.cluster), scheduler.unmarked()
        if agents and todo:
            yield CheckResult(_MARKS, False, todo)
        elif agents:
            yield _marked(engine, scheduler.cluster, job, begin + limit_s)
        while agents and not todo and not row.profiled and time.monotonic() - begin < limit_s:
            time.sleep(_PAUSE_S)
            row = _run(engine, scheduler.cluster, job) or row
    finally:
        engine.dispose()
    seff = places.jobsight("seff", job, "--cluster", scheduler.cluster)
    try:
        printed = run(seff, places.owner).strip()
    except UserError as error:
        yield CheckResult(f"jobsight seff {job}", False, str(error))
        return
    yield CheckResult(f"jobsight seff {job}:\n{printed}", True)
    if not row.profiled:
        later = (
            "its values are final `profile_grace_s` after its end, or when its nodes' agents have sent their readings"
        )
        yield CheckResult(f"job {job} is not profiled yet", False if agents else None, later)


def _run(engine: Engine, cluster: str, job: str) -> Row[Any] | None:
    """Return the run of a job; PBS adds its server's name to the id, which the log may have in another form."""
    ids = (job, job.partition(".")[0])
    wanted = select(jobs).where(jobs.c.cluster == cluster, jobs.c.job_id.in_(ids))
    with engine.connect() as connection:
        found: Row[Any] | None = connection.execute(wanted).first()
    return found


def _marked(engine: Engine, cluster: str, job: str, until: float) -> CheckResult:
    """Check that the hooks marked the job's start and end."""
    of_job = select(marks.c.event).join(nodes, nodes.c.id == marks.c.node_id)
    of_job = of_job.where(nodes.c.cluster == cluster, marks.c.job_id.in_((job, job.partition(".")[0])))
    events: set[str] = set()
    while events != {"start", "end"} and time.monotonic() < until:
        time.sleep(_PAUSE_S)
        with engine.connect() as connection:
            events = {event for (event,) in connection.execute(of_job)}
    missing = " and ".join(sorted({"start", "end"} - events))
    return CheckResult(_MARKS, not missing, f"no mark of its {missing}: {_TODO}")
