"""A run's use of its request, and what to request next time; all values are of the whole job."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import Connection, Row

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import ENDED
from jobsight_server.advice.recommendation import JobRequest, Recommendation, recommend
from jobsight_server.advice.words import AskLine, Scheduler, lines_to_ask, sentence
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import asked_for, question_of
from jobsight_server.ground.answers import Record

RESOURCES = {
    "processors": "cpu",
    "memory": "memory",
    "runtime": "runtime",
    "bandwidth": "bandwidth",
    "gpus": "gpu_utilisation",
    "gpu_memory": "gpu_memory",
}
"""A resource that jobs request, and the metric that measures its use."""
RESOURCE_OF = {metric: resource for resource, metric in RESOURCES.items()}

_UNITS = {"processors": "processors"} | {
    resource: METRICS[metric].job_unit for resource, metric in RESOURCES.items() if resource != "processors"
}

_NOT_REQUESTED = {"bandwidth": "jobs request no bandwidth", "gpu_memory": "jobs request GPUs, not their memory"}

Resource = Annotated[str, Meta(extra_json_schema={"enum": [*RESOURCES]})]
Unit = Annotated[str, Meta(extra_json_schema={"enum": [*dict.fromkeys(_UNITS.values())]})]


class Efficiency(Record):
    """A run's request and use of one resource, until now while it runs, and the recommended request for similar jobs.

    ``requested``: of processors those held. ``used``: for processors and GPUs the mean number busy (of GPUs the
    largest, where only that is known), for bandwidth the mean; ``efficiency`` is its share of ``requested`` and may be
    above 1. ``at_least``: the use is a lower bound. ``apportioned``: the use is its share of its nodes' use, by
    processors held. ``reason``: why there is no use or no efficiency, why the use is a lower bound, or what it lacks.
    """

    resource: Resource
    unit: Unit
    requested: float | None
    used: float | None
    efficiency: float | None
    at_least: bool
    apportioned: bool
    reason: str | None
    ask_next: float | None


@dataclass(slots=True)
class NextRequests:
    """Recommends requests for jobs like finished runs; the tasks of an array get one answer."""

    connection: Connection
    reader: AnswerReader
    _found: dict[Hashable, Recommendation] = field(default_factory=dict)

    def of(self, run: Row[Any], nodes: int) -> Recommendation:
        """Return the recommendation for a job like this run, on so many nodes."""
        asked, memory, walltime = asked_for(run)
        request = JobRequest(asked or 1, nodes or None, memory, walltime, run.gpus or 0)
        question = question_of(run)._replace(processors=request.processors)
        key = (run.cluster, question, request)
        if key not in self._found:
            self._found[key] = recommend(self.connection, self.reader, run.cluster, question, request, None)
        return self._found[key]

    def efficiencies(
        self, run: Row[Any], profile: Sequence[Any], nodes: int, scheduler: Scheduler | None
    ) -> tuple[str | None, list[AskLine], list[Efficiency]]:
        """Return the advice for a similar job, as users read it at submission and as lines of a script, and an
        efficiency for each resource; no advice before the run has ended.

        ``run`` is a row of ``jobs``, ``profile`` has its metrics; ``scheduler`` is None if unknown.
        """
        asked, memory, walltime = asked_for(run)
        found, used_s = None if run.end is None else self.of(run, nodes), _run_time(run)
        # The whole allocation was unavailable to others, whatever the request: a whole node, for example.
        requested = {"processors": run.processors or asked, "memory": memory, "runtime": walltime, "gpus": run.gpus}
        held = {"processors": run.processors, "memory": asked or 1}
        by_metric = {entry.metric: entry for entry in profile}
        return (
            None if found is None else sentence(found),
            [] if found is None else lines_to_ask(found, scheduler, run),
            [
                _efficiency(
                    resource,
                    requested.get(resource),
                    by_metric[metric],
                    held.get(resource, asked),  # each one's share is measured
                    None if found is None else _ask_next(resource, found),
                    used_s if metric == "runtime" else None,
                )
                for resource, metric in RESOURCES.items()
                if metric in by_metric
            ],
        )


def _run_time(run: Row[Any]) -> float | None:
    """Return the run time from the log where there is no profile, as of requeued and deleted runs."""
    if run.end is None or (run.state == ENDED and run.profiled):
        return None
    elapsed: float = run.end - run.start - (run.suspended_s or 0.0)
    return elapsed if run.used_walltime_s is None else run.used_walltime_s


def _efficiency(
    resource: str,
    requested: float | None,
    entry: Any,
    processors: int | None,
    ask_next: float | None,
    logged: float | None,
) -> Efficiency:
    count = 1 if METRICS[RESOURCES[resource]].is_of_job else processors
    value = next((each for each in (entry.value, entry.so_far, logged) if each is not None), None)
    if resource == "gpus" and entry.mean is not None:
        value = entry.mean
    used = None if value is None or count is None else value * count
    reason = entry.reason if entry.lower_bound else None
    if value is None:
        reason = entry.reason or "not measured"
    elif used is None:
        reason = "the log does not say how many processors it had"
    elif requested is None and reason is None:
        reason = _NOT_REQUESTED.get(resource, "no request")
    elif resource == "gpus" and entry.mean is None:
        reason = "the largest number busy at one time; the average is not known"
    return Efficiency(
        resource=resource,
        unit=_UNITS[resource],
        requested=None if requested is None else float(requested),
        used=used,
        efficiency=used / requested if used is not None and requested is not None else None,
        at_least=entry.lower_bound,
        apportioned=entry.value is not None and entry.attribution == "apportioned",
        reason=reason,
        ask_next=ask_next,
    )


def _ask_next(resource: str, found: Recommendation) -> float | None:
    """Return the recommendation; None if it is based on other users' jobs, as it then says nothing about the user's own
    use.

    Never for the number of processors or GPUs: waiting ranks still need their processors, and a job may need idle GPUs
    for their memory.
    """
    if resource in ASKED_FOR:
        return found.best(resource)
    answer = found.answers.get(RESOURCES[resource])
    if answer is None or not answer.user_jobs or resource in ("processors", "gpus"):
        return None
    return answer.bound
