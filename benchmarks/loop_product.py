"""Jobsight in a closed loop: a database in a new directory that reads Slurm's log, and answers at submission."""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Self

from sqlalchemy import Connection, event

from jobsight_server.accounting.clock_offset import ClockOffset
from jobsight_server.accounting.formats import reader_of
from jobsight_server.accounting.load import LoadReport, parse_chunk, store_chunk
from jobsight_server.accounting.store import lock_cluster
from jobsight_server.advice.recommendation import JobRequest
from jobsight_server.advice.submitted import advise
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.forecasts.request import job_question
from jobsight_server.ground.amounts import MIB
from jobsight_server.ground.facts import facts_in, facts_of
from jobsight_server.ground.job_names import readable_name
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade

GIB = 2.0**30
CLUSTER = "loop"
BEGIN_S = 1_790_000_000
"""Time 0 of a loop, in UTC epoch seconds."""
STARTS_AFTER_S = 5.0
"""From submission to start."""
COLUMNS = (
    *("JobIDRaw", "JobID", "JobName", "User", "Group", "Account", "Partition", "State", "Submit", "Eligible", "Start"),
    *("End", "ElapsedRaw", "TimelimitRaw", "AllocTRES", "ReqTRES", "ReqMem", "ReqCPUS", "NodeList", "ExitCode"),
    *("DerivedExitCode", "TotalCPU", "AdminComment", "Comment", "NTasks", "MaxRSS", "TRESUsageInTot"),
)


@dataclass(frozen=True, slots=True)
class Allocated:
    """What a job gets: GiB of memory and seconds, None without a limit."""

    job_id: int
    memory_gib: float | None
    limit_s: float | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended, as Slurm sees it; ``seen_gib``: the memory in its log."""

    job: Any
    given: Allocated
    submitted: float
    start: float
    end: float
    state: str
    exit_code: str
    seen_gib: float


def advised(
    connection: Connection, reader: AnswerReader, job: Any, request: JobRequest
) -> tuple[float | None, float | None]:
    """Return the bytes and seconds that the product would set for a job, None for none."""
    comment = _comment(job)
    name, facts = readable_name(job.name, comment), facts_of(facts_in(comment).text)
    of_job = (request.processors, request.memory_bytes, request.walltime_s)
    question = job_question(job.user, name, job.queue, *of_job, None, job.account, facts)
    advice = advise(connection, reader, CLUSTER, question, request, gpus=job.gpus)
    reserve = {forecast.metric: forecast.reserve for forecast in advice.forecasts}
    return reserve["memory"], reserve["runtime"]


class Product:
    """A site with Jobsight, whose submit hook sets memory and lengthens time limits; ``engine`` is its database."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp()
        self.engine = open_engine(f"sqlite:///{self._folder}/jobsight.db")
        event.listen(self.engine, "connect", _without_flushing)
        upgrade(self.engine)
        self._config = forecast_config(Settings())
        self._reader = AnswerReader(self._config)
        self._read = self.engine.execution_options(reading=True)
        self._jobs = 0
        self._pending: dict[int, tuple[Any, Allocated, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.dispose()
        shutil.rmtree(self._folder)

    def submit(self, job: Any, now: float) -> Allocated:
        """Decide what a job gets, as the submit hook does, and let the queue list it."""
        self._apply(self._started(now), now)
        asked = None if job.asked is None else math.ceil(job.asked * GIB / MIB) * MIB
        request = JobRequest(job.cpus, job.nodes, asked, job.limit)
        with self._read.connect() as connection:
            memory, limit = advised(connection, self._reader, job, request)
        self._jobs += 1
        memory = None if memory is None else math.ceil(memory / MIB) * MIB
        longer = job.limit if limit is None or job.limit is None else max(job.limit, limit)
        given = Allocated(self._jobs, None if memory is None else memory / GIB, longer)
        self._apply([_job_row(job, given, now, State="PENDING", Start="Unknown", End="Unknown")], now)
        self._pending[given.job_id] = job, given, now
        return given

    def _started(self, now: float) -> list[dict[str, object]]:
        """Return the records of jobs that have started since the last look and still run."""
        begun = [id_ for id_, (_, _, submitted) in self._pending.items() if submitted + STARTS_AFTER_S <= now]
        rows = []
        for job, given, submitted in map(self._pending.pop, begun):
            start = _stamp(submitted + STARTS_AFTER_S)
            rows.append(_job_row(job, given, submitted, State="RUNNING", Start=start, End="Unknown"))
        return rows

    def learn(self, ended: list[Ended]) -> None:
        """Read the records of runs that ended at the same time, and learn them."""
        now = ended[0].end
        for run in ended:
            self._pending.pop(run.given.job_id, None)
        self._apply([row for run in ended for row in _ended_rows(run)], now)
        profile_finished(
            self.engine, 0.0, lambda: BEGIN_S + math.ceil(now), LearningOptions(limit=len(ended), config=self._config)
        )

    def _apply(self, rows: list[dict[str, object]], now: float) -> None:
        if not rows:
            return
        lines = ["|".join(COLUMNS), *("|".join(str(row.get(column, "")) for column in COLUMNS) for row in rows)]
        text = "".join(f"{line}\n" for line in lines).encode()
        reader, content, report = reader_of("slurm", text), BytesIO(text), LoadReport()
        content.readline()
        with self.engine.begin() as connection:
            lock_cluster(connection, CLUSTER)
            for chunk in reader.split(content.read):
                parsed = parse_chunk(chunk, 0, reader, ClockOffset())
                store_chunk(connection, CLUSTER, "sacct", parsed, BEGIN_S + now, report)
        assert not report.rejected, report.rejected


def _without_flushing(connection: Any, _record: Any) -> None:
    """Wait for no disk: the database is gone with the loop."""
    connection.execute("PRAGMA synchronous=OFF")


def _stamp(seconds: float) -> int:
    return BEGIN_S + math.floor(seconds)


def _comment(job: Any) -> str:
    """Return the job's comment, with the facts that it lacks."""
    facts = ",".join(f"{name}={value!r}" for name, value in job.facts.items() if f"{name}=" not in job.comment)
    return "; ".join(filter(None, (job.comment, facts and f"jobsight:{facts}")))


def _job_row(job: Any, given: Allocated, submitted: float, **more: object) -> dict[str, object]:
    """Return the row of a job, with the amounts it was given, and the user's in the comment, as the hook records."""
    mib = None if given.memory_gib is None else round(given.memory_gib * 1024)
    own = None if job.asked is None else math.ceil(job.asked * 1024)
    changed = []
    if mib != own:
        changed.append(f"mem_per_node:{'none' if own is None else f'{math.ceil(own / job.nodes)}M'}")
    if given.limit_s != job.limit:
        changed.append(f"time:{'none' if job.limit is None else math.ceil(job.limit / 60)}")
    memory = "" if mib is None else f"mem={mib}M,"
    gpus = f",gres/gpu={job.gpus}" if job.gpus else ""
    resources = f"cpu={job.cpus},{memory}node={job.nodes}{gpus}"
    return {
        "JobIDRaw": given.job_id,
        "JobID": job.array or given.job_id,
        "JobName": job.name,
        "User": job.user,
        "Group": "users",
        "Account": job.account,
        "Partition": job.queue,
        "Submit": _stamp(submitted),
        "Eligible": _stamp(submitted),
        "TimelimitRaw": "" if given.limit_s is None else math.ceil(given.limit_s / 60),
        "ReqTRES": resources,
        "ReqMem": "" if mib is None else f"{mib}M",
        "ReqCPUS": job.cpus,
        "AdminComment": f"jobsight_asked={','.join(changed)}" if changed else "",
        "Comment": _comment(job),
        **more,
    }


def _ended_rows(run: Ended) -> list[dict[str, object]]:
    """Return the rows of the job and of its batch step."""
    elapsed, kib = math.floor(run.end) - math.floor(run.start), max(1, round(run.seen_gib * 2**20))
    nodes = run.job.node if run.job.nodes == 1 else f"{run.job.node}-[1-{run.job.nodes}]"
    common: dict[str, object] = {
        "State": "CANCELLED by 1000" if run.state == "CANCELLED" else run.state,
        "Start": _stamp(run.start),
        "End": _stamp(run.end),
        "ElapsedRaw": elapsed,
        "ExitCode": run.exit_code,
        "DerivedExitCode": "0:0",
        "TotalCPU": f"{elapsed // 60:02}:{elapsed % 60:02}.000",
        "NodeList": nodes,
    }
    job = _job_row(run.job, run.given, run.submitted, **common)
    job["AllocTRES"] = job["ReqTRES"]
    step: dict[str, object] = {"JobIDRaw": f"{run.given.job_id}.batch", "JobID": f"{run.given.job_id}.batch"}
    step |= {"JobName": "batch", "NTasks": 1, "MaxRSS": f"{kib}K", "TRESUsageInTot": f"mem={kib}K", **common}
    step["AllocTRES"] = job["AllocTRES"]
    step["Submit"] = job["Submit"]
    return [job, step]
