"""Requests for forecasts: the description of a job, and the site's configuration."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, select

from jobsight_predictor.metrics import METRICS, metrics_of
from jobsight_predictor.profile import Profile
from jobsight_predictor.question import (
    FIELDS,
    Facts,
    Moment,
    Question,
)
from jobsight_server.accounting.runs import Failure
from jobsight_server.decision.evidence import ASKED_FOR, Resource, Shape
from jobsight_server.decision.rule import Limits
from jobsight_server.ground.amounts import MIB
from jobsight_server.ground.errors import UserError
from jobsight_server.ground.facts import facts_of
from jobsight_server.ground.job_names import application
from jobsight_server.profiler.exactness import UseConfig
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.engine import of_runs
from jobsight_server.storage.schema import jobs
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME

LEAST: Mapping[Resource, float] = {"memory": 100.0 * MIB, "runtime": 600.0}

NOT_LEARNED = frozenset({"apportioned", "unknown"})
"""Attributions of values that are shown and not learned (docs/use/definitions.md, Attribution)."""


@dataclass(frozen=True, slots=True)
class ForecastConfig(UseConfig):
    """Configuration of the learned values and of bounds.

    ``coverage`` is the target fraction of jobs within their bounds. ``requests_only``: learn only what
    recommendations need: memory and run time as of submission, without users' series. ``floors``: no request is lowered
    below these; ``keep``: users and applications whose requests are not changed.
    """

    coverage: float = 0.95
    requests_only: bool = False
    floors: Mapping[Resource, float] = field(default_factory=lambda: dict(LEAST))
    keep: frozenset[str] = frozenset()

    @property
    def metrics(self) -> Collection[str]:
        """Return the metrics to learn."""
        return ASKED_FOR if self.requests_only else METRICS

    def profile(self, metric: str) -> Profile:
        """Make an empty profile of ``metric``."""
        return Profile(METRICS[metric].unit, self.coverage, metric=metric)

    def limits(self, resource: Resource, *, enforced: bool, most: float = math.inf) -> Limits:
        """Return the limits of a decision."""
        return Limits(self.floors[resource], most, self.coverage, enforced)

    def keeps(self, question: Question) -> bool:
        """Return whether the site keeps the requests of such jobs."""
        return question.user in self.keep or question.application in self.keep

    def made(self, stored: str) -> bool:
        """Return whether a stored answer is of this release, and agrees with this configuration.

        A changed ``coverage`` applies from the next question on; answers stored before are recomputed.
        """
        return stored.startswith('{"cluster":') and f'"coverage":{self.coverage!r},' in stored


def forecast_config(settings: Settings) -> ForecastConfig:
    """Make the configuration from the settings."""
    return ForecastConfig(
        settings.fabric,
        settings.resident_clusters,
        settings.coverage,
        floors=settings.least,
        keep=frozenset(settings.keep),
    )


PER = ("processor", "job")

WHOLE = frozenset(name for name, metric in METRICS.items() if metric.is_of_job)
"""Metrics that always describe the whole job."""


class UnknownProcessorsError(UserError):
    """Values for the whole job were requested without its number of processors."""


class ForecastRequest(NamedTuple):
    """A question: the need of the job described by ``question`` on ``cluster``.

    ``cluster`` None asks for every cluster that knows the user, ``metric`` None for all metrics. ``per``: values per
    ``processor``, or for the whole ``job``, whose processors must then be known. ``moment``: the job is about to be
    submitted, or waits and may start at any time. ``gpus``: requested GPUs, None if unknown; they decide whether all
    metrics include those of GPUs.
    """

    cluster: str | None
    question: Question
    metric: str | None = None
    per: str = "processor"
    moment: Moment = "submission"
    gpus: int | None = None

    @property
    def user(self) -> str:
        return self.question.user or ""

    @property
    def is_of_user(self) -> bool:
        """Return whether it is about the next job of the user, which may be any."""
        return self.question == Question(user=self.question.user)

    @property
    def metrics(self) -> Sequence[str]:
        """Return the requested metrics.

        Raises:
            UserError: the metric is not forecast.
        """
        if self.metric is None:
            return tuple(METRICS)
        if self.metric not in METRICS:
            raise UserError(f"metric {self.metric!r} is not forecast; choose one of {', '.join(METRICS)}")
        return (self.metric,)

    @property
    def scale(self) -> int | None:
        """Return the number of processors that values are for; None leaves them per processor.

        Raises:
            UnknownProcessorsError: values are for the whole job, and its processors are unknown.
        """
        if self.per != "job":
            return None
        if self.question.processors is None and not WHOLE.issuperset(self.metrics):
            raise UnknownProcessorsError("values per job need the number of processors; give processors, such as 16")
        return self.question.processors or 1


LONGEST_GROUP = 255  # characters


class ForecastJob(NamedTuple):
    """A run as described at submission, with the time of that (UTC; None if unknown).

    ``given_memory_bytes``, per processor, and ``given_time_s`` are the scheduler's reservation, which may differ from
    the request. ``forecast_seq`` is the ``learn_seq`` of the last run learned before its forecast; None without one.
    ``failure`` is the resource that it ran out of, or None.
    """

    run_id: int
    cluster: str
    question: Question
    given_memory_bytes: float | None
    given_time_s: float | None
    state: str
    submitted: float | None
    start: float | None
    end: float | None
    forecast_seq: int | None
    job_id: str
    failure: Failure | None
    gpus: int | None = None
    memory_is_virtual: bool | None = None
    exit_status: int | None = None
    ended_abnormally: bool | None = None

    @property
    def has_completed(self) -> bool:
        """Return whether the log shows no failure, cancellation or kill of the ended run."""
        return self.failure is None and not self.exit_status and not self.ended_abnormally

    @property
    def shape(self) -> Shape:
        """Return what it asks for."""
        return shape_of(self.question, self.gpus or 0)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics in which it is forecast."""
        return metrics_of(gpus=bool(self.gpus))

    def at(self, moment: Moment) -> float | None:
        """Return the time of its submission or start."""
        return self.submitted if moment == "submission" else self.start

    @property
    def has_waited(self) -> bool:
        """Return whether it started after its submission."""
        return self.start is not None and self.submitted is not None and self.start > self.submitted

    @property
    def seconds(self) -> float | None:
        """Return its run time, at least 1 s; None if unknown."""
        return None if self.start is None or self.end is None else max(self.end - self.start, 1.0)

    @property
    def user(self) -> str:
        assert self.question.user is not None
        return self.question.user


def shape_of(question: Question, gpus: int | None) -> Shape:
    """Return what the job of ``question`` asks for; None GPUs are unknown."""
    processors = question.processors or 1
    memory = (question.requested_memory_bytes or 0.0) * processors
    return Shape(processors, gpus, memory, question.requested_time_s or 0.0, question.facts)


COLUMNS = (
    jobs.c.id,
    jobs.c.cluster,
    jobs.c.user,
    jobs.c.name,
    jobs.c.queue,
    ASKED_PROCESSORS,
    ASKED_MEMORY,
    ASKED_WALLTIME,
    jobs.c.group,
    jobs.c.account,
    jobs.c.facts,
    jobs.c.requested_memory_bytes,
    jobs.c.requested_walltime_s,
    *(jobs.c[name] for name in ForecastJob._fields[ForecastJob._fields.index("state") :]),
)
"""Columns that ``job_of`` reads, in its order."""


def job_of(row: Sequence[Any]) -> ForecastJob:
    """Make the job from a row of ``COLUMNS``."""
    run_id, cluster, user, name, queue, processors, asked_memory, asked_time, group, account, facts, *rest = row
    given_memory, given_time, *known = rest
    subject = (user, name, queue, processors, asked_memory, asked_time, group, account)
    question = job_question(*subject, facts_of(facts))
    memory = given_memory / (question.processors or 1) if given_memory else None
    return ForecastJob(run_id, cluster, question, memory, given_time or None, *known)


class AskedFor(NamedTuple):
    """A user's request: processors, memory of the whole job, run time; None if none or unknown."""

    processors: int | None
    memory_bytes: float | None
    walltime_s: float | None


def asked_for(run: Any) -> AskedFor:
    """Return the request in a row of ``jobs``, by ``ASKED_PROCESSORS`` and the others."""
    memory = run.requested_memory_bytes if run.asked_memory_bytes is None else run.asked_memory_bytes
    walltime = run.requested_walltime_s if run.asked_walltime_s is None else run.asked_walltime_s
    return AskedFor(run.asked_processors or run.processors, memory or None, walltime or None)


def question_of(run: Any) -> Question:
    """Return the question that describes the job of a row of ``jobs`` at submission."""
    subject = (run.user, run.name, run.queue, *asked_for(run), run.group, run.account)
    return job_question(*subject, facts=facts_of(run.facts))


def read_jobs(connection: Connection, runs: Sequence[int]) -> dict[int, ForecastJob]:
    """Read these runs, by id."""
    query = select(*COLUMNS).where(jobs.c.id.in_(bindparam("runs", expanding=True)))
    return {row.id: job_of(row) for row in of_runs(connection, query, runs)}


def job_question(
    user: str,
    name: str | None = None,
    queue: str | None = None,
    processors: int | None = None,
    memory_bytes: float | None = None,
    walltime_s: float | None = None,
    group: str | None = None,
    account: str | None = None,
    facts: Facts = (),
) -> Question:
    """Make a question; empty texts, and numbers not above 0, count as unknown.

    ``memory_bytes`` is the request of the whole job, as in accounting logs; in the question it is per processor, like
    learned values. Unknown processors count as one.
    A group or account longer than 255 characters, which no index takes, counts as unknown.
    """
    known = processors if processors and processors > 0 else None
    return Question(
        user=user,
        application=None if name is None else application(name),
        queue=queue or None,
        processors=None if known is None else int(known),
        requested_memory_bytes=memory_bytes / (known or 1) if memory_bytes and memory_bytes > 0 else None,
        requested_time_s=float(walltime_s) if walltime_s and walltime_s > 0 else None,
        group=group if group and len(group) <= LONGEST_GROUP else None,
        account=account if account and len(account) <= LONGEST_GROUP else None,
        facts=facts,
    )


def question_text(question: Question) -> str:
    """Write a question for storing."""
    facts = [question.facts] if question.facts else []
    return msgspec.json.encode([*(getattr(question, field) for field in FIELDS), *facts]).decode()


def question_of_text(text: str) -> Question:
    """Read a question stored as ``text``."""
    fields = msgspec.json.decode(text)
    facts = tuple((name, value) for entries in fields[len(FIELDS) :] for name, value in entries)
    return Question(*fields[: len(FIELDS)])._replace(facts=facts)
