"""Evidence of users' applications in the stored model: learned as runs end, read for questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jobsight_predictor.profile.groups import StoredPart
from jobsight_predictor.question import Question
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.decision.evidence import ASKED_FOR, CHECK, Evidence, Resource, RunUse, Says, Shape
from jobsight_server.decision.rule import Decision, decide
from jobsight_server.forecasts.events import Observation
from jobsight_server.forecasts.request import ForecastConfig, ForecastJob, shape_of
from jobsight_server.forecasts.stored_model import StateKey, StoredState, stored_states, unpacked
from jobsight_server.ground.amounts import MIB
from jobsight_server.storage.clusters import memory_of_largest_nodes

OF = "runs of "
"""Precedes the metric in the keys of the stored parts."""

_SITE = ""
_NEARLY_ALL = 0.95
"""A run that failed with this share of its memory in use ran out of it: some engines and libraries exit by themselves,
and the log has no other sign."""


def evidence_key(cluster: str, question: Question, resource: Resource) -> StateKey:
    """Return the key of the evidence for a job."""
    return StateKey(cluster, OF + resource, f"{question.user or ''}\0{question.application or ''}")


def site_key(cluster: str, resource: Resource) -> StateKey:
    """Return the key of what is known of a cluster's limits."""
    return StateKey(cluster, OF + resource, _SITE)


def run_of(job: ForecastJob, resource: Resource, observation: Observation | None) -> RunUse:
    """Return what the run says about its need of the resource."""
    per = job.shape.processors if resource == "memory" else 1
    held = (job.given_memory_bytes or 0.0) * per if resource == "memory" else job.given_time_s or 0.0
    used = observation.value * per if observation else 0.0
    says: Says
    if job.failure is not None and FAILED_METRIC[job.failure] == resource:
        says = "ran out"
    elif resource == "runtime" and not job.has_completed:
        says = "nothing"  # it may have failed long before its end
    elif not observation:
        says = "nothing"
    elif not job.has_completed and not job.failure and held and used >= _NEARLY_ALL * held:
        says = "ran out"
    elif job.has_completed and not observation.is_lower_bound:
        says = "exact"
    else:
        says = "at least"
    submitted = (job.start if job.submitted is None else job.submitted) or 0.0
    return RunUse(job.shape, submitted, job.end or 0.0, says, used, held, bool(job.memory_is_virtual))


class _Enforced(NamedTuple):
    """Whether requests on a cluster are enforced: a run ``has_killed`` for one, or hardly any job used more."""

    has_killed: bool = False
    are_limits: bool = True


class Evidences:
    """The evidence of applications, whether clusters' limits are enforced, and what is decided by both.

    ``largest``: memory of the largest node of each cluster, where known.
    """

    def __init__(self, config: ForecastConfig, largest: Mapping[str, int] | None = None) -> None:
        self.largest = largest or {}
        self._config = config
        self._of: defaultdict[StateKey, Evidence] = defaultdict(Evidence)
        self._enforced: dict[StateKey, _Enforced] = {}
        self._changed: set[StateKey] = set()

    def load(self, key: StateKey, state: Any) -> None:
        """Take in a stored part."""
        if key.key == _SITE:
            self._enforced[key] = _Enforced(*state)
        else:
            self._of[key] = Evidence(state)

    def take(self, key: StateKey, stored: StoredState, kept: KeptEvidence) -> None:
        """Take in a part as ``load`` does, or what was read of the same before."""
        before, evidence = kept.pop(key, (None, None))
        if before == stored and evidence is not None:
            self._of[key] = evidence
        else:
            self.load(key, unpacked(stored[0]))
        if key in self._of:
            kept[key] = stored, self._of[key]

    def decide(
        self,
        resource: Resource,
        cluster: str,
        question: Question,
        job: Shape,
        forecast: float | None,
        *,
        nodes: int | None = None,
        is_unproven: bool = False,
    ) -> Decision:
        """Decide the request of the ``job`` of this question, on so many ``nodes``; else as ``decide`` of the rule."""
        return decide(
            resource,
            self._of[evidence_key(cluster, question, resource)],
            job,
            forecast,
            self._config.limits(
                resource,
                enforced=any(self._enforced.get(site_key(cluster, resource), _Enforced())),
                most=self.most(resource, cluster, nodes or job.processors),
            ),
            is_named=question.application is not None,
            is_kept=self._config.keeps(question),
            is_unproven=is_unproven,
        )

    def most(self, resource: Resource, cluster: str, nodes: int) -> float:
        """Return the most that a job on so many nodes can request; without their number each processor may be on a
        separate one."""
        largest = self.largest.get(cluster) if resource == "memory" else None
        return inf if largest is None else float(largest // MIB * MIB) * nodes

    def note_limits(self, cluster: str, resource: Resource, are_limits: bool) -> None:
        """Learn whether hardly any job used more than it requested."""
        self._note(site_key(cluster, resource), are_limits=are_limits)

    def _note(self, site: StateKey, **known: bool) -> None:
        before = self._enforced.get(site, _Enforced())
        if (now := before._replace(**known)) != before:
            self._enforced[site] = now
            self._changed.add(site)

    def learn(self, job: ForecastJob, resource: Resource, observation: Observation | None, *, is_late: bool) -> None:
        """Learn a finished run; ``is_late``: it was learned without this observation."""
        if job.question.application == CHECK:
            return
        run, evidence = run_of(job, resource, observation), self._of[evidence_key(job.cluster, job.question, resource)]
        if not is_late:
            evidence.add(run)
        elif run.says != "ran out" or job.failure is None:
            evidence.fill_in(run)
        if job.failure is not None and FAILED_METRIC[job.failure] == resource:
            self._note(site_key(job.cluster, resource), has_killed=True)

    def learn_apart(self, job: ForecastJob, resource: Resource) -> None:
        """Learn a run whose use is not known yet, in a copy: others share the evidence."""
        key = evidence_key(job.cluster, job.question, resource)
        self._of[key] = Evidence(self._of[key].state())
        self.learn(job, resource, None, is_late=False)

    def learn_report(
        self, cluster: str, question: Question, resource: Resource, observation: Observation, at: float
    ) -> None:
        """Learn the need of a job that is not in the log, reported ``at``, or the limit that it ran out of.

        It was submitted its time limit before, at least: reports within that are of one burst.
        """
        amount = observation.value * ((question.processors or 1) if resource == "memory" else 1)
        run = RunUse(shape_of(question, 0), at - (question.requested_time_s or 0.0), at, "exact", amount)
        if observation.is_lower_bound:
            run = run._replace(says="ran out", held=amount)
        self._of[evidence_key(cluster, question, resource)].add(run)

    def changed_state(self) -> Iterator[tuple[StateKey, StoredPart]]:
        """Return the parts changed since the last call."""
        for key, evidence in self._of.items():
            if evidence.is_changed:
                evidence.is_changed = False
                yield key, StoredPart(evidence.state(), None)
        for site in self._changed:
            yield site, StoredPart([*self._enforced[site]], None)
        self._changed = set()


KeptEvidence = dict[StateKey, tuple[StoredState, Evidence]]
"""Evidence as stored and as read, the last used last."""


def read_evidence(
    connection: Connection, config: ForecastConfig, jobs: Iterable[tuple[str, Question]], kept: KeptEvidence
) -> Evidences:
    """Read the stored evidence for these jobs, by cluster and question; what is in ``kept``, which is added to, only if
    it has changed."""
    found = Evidences(config, memory_of_largest_nodes(connection))
    of_jobs = [(evidence_key(*job, resource), site_key(job[0], resource)) for job in jobs for resource in ASKED_FOR]
    for (cluster, metric), stored in stored_states(connection, chain.from_iterable(of_jobs)).items():
        for name, state in stored.items():
            key = StateKey(cluster, metric, name)
            found.take(key, state, kept)
    return found
