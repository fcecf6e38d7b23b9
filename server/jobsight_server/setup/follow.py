"""Follows one test job from its submission to what ``jobsight seff`` says about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, Row, select

from jobsight_server.errors import UserError
from jobsight_server.setup.finding import Finding
from jobsight_server.setup.places import Places
from jobsight_server.setup.reporting import reading_engine, reporting_nodes
from jobsight_server.setup.run import run
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup
from jobsight_server.storage.schema import jobs, marks, nodes

SCRIPT = "sleep 5"
_PAUSE_S = 0.5
_TODO = "see `journalctl -t jobsight-hook` on its node, and check that the scheduler runs prolog and epilog"


def follow(scheduler: SchedulerSetup, places: Places, user: str, limit_s: float) -> Iterator[Finding]:
    """Yields each step as it is done, and stops at the first that fails.

    Raises:
        UserError: the job could not be submitted.
    """
    begin = time.monotonic()
    job = scheduler.submit(user, SCRIPT)
    yield Finding(f"job {job} is submitted as {user}", True)
    if scheduler.comment is not None:
        said = scheduler.comment(job)
        todo = f"nothing from Jobsight ({said[:80] or 'empty'}): look for 'jobsight:' in the scheduler's log"
        yield Finding(f"its comment: {said[:160]}" if "jobsight" in said else "its comment", "jobsight" in said, todo)
    engine = reading_engine(places)
    if engine is None:
        yield Finding("the server's database", False, f"start `jobsight serve --config {places.settings}`")
        return
    try:
        while (row := _run(engine, scheduler.cluster, job)) is None or row.end is None:
            if time.monotonic() - begin > limit_s:
                known = "the job is known, but has not ended" if row is not None else "the job is unknown"
                todo = f"{known} after {limit_s:.0f} s: see the scheduler's queue, and the page *Rejected data*"
                yield Finding(f"job {job} in the accounting log", False, todo)
                return
            time.sleep(_PAUSE_S)
        took = time.monotonic() - begin
        ran = f"{row.state} after {row.end - row.start:.0f} s"
        yield Finding(f"the accounting log has it: {ran}; known {took:.0f} s after its submission", True)
        agents = reporting_nodes(places, scheduler.cluster)
        if agents:
            yield _marked(engine, scheduler.cluster, job, begin + limit_s)
        while agents and not row.profiled and time.monotonic() - begin < limit_s:
            time.sleep(_PAUSE_S)
            row = _run(engine, scheduler.cluster, job) or row
    finally:
        engine.dispose()
    seff = places.jobsight("seff", job, "--cluster", scheduler.cluster)
    try:
        printed = run(seff, places.owner).strip()
    except UserError as error:
        yield Finding(f"jobsight seff {job}", False, str(error))
        return
    yield Finding(f"jobsight seff {job}:\n{printed}", True)
    if not row.profiled:
        todo = (
            "its values are final `profile_grace_s` after its end, or when its nodes' agents have sent their readings"
        )
        yield Finding(f"job {job} is not profiled yet", False if agents else None, todo)


def _run(engine: Engine, cluster: str, job: str) -> Row[Any] | None:
    """The run of a job; PBS adds its server's name to the id, which the log may have in another form."""
    ids = (job, job.partition(".")[0])
    wanted = select(jobs).where(jobs.c.cluster == cluster, jobs.c.job_id.in_(ids))
    with engine.connect() as connection:
        found: Row[Any] | None = connection.execute(wanted).first()
    return found


def _marked(engine: Engine, cluster: str, job: str, until: float) -> Finding:
    """Whether the hooks marked its start and end."""
    of_job = select(marks.c.event).join(nodes, nodes.c.id == marks.c.node_id)
    of_job = of_job.where(nodes.c.cluster == cluster, marks.c.job_id.in_((job, job.partition(".")[0])))
    events: set[str] = set()
    while events != {"start", "end"} and time.monotonic() < until:
        time.sleep(_PAUSE_S)
        with engine.connect() as connection:
            events = {event for (event,) in connection.execute(of_job)}
    missing = " and ".join(sorted({"start", "end"} - events))
    return Finding("the hooks marked its start and end", not missing, f"no mark of its {missing}: {_TODO}")
