"""Whatever the jobs, nodes, groups, estimator and policy: every job finishes, and is never again given what failed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import not_none

from jobsight_papers.overprovisioning.cluster.cases import VARIANTS, Estimated, memory_figures
from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs
from jobsight_papers.overprovisioning.cluster.nodes import NodeClass, Nodes
from jobsight_papers.overprovisioning.cluster.policies import MEMORY_POLICIES
from jobsight_papers.overprovisioning.cluster.simulation import MemorySimulation, Retry
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import Workload

CLASSES = st.dictionaries(st.sampled_from([1.0, 4.0, 16.0, 24.0, 32.0]), st.integers(1, 4), min_size=1, max_size=3)
JOB = st.tuples(
    st.floats(0.0, 20.0),  # since the submission before
    st.floats(0.1, 30.0),  # run time
    st.sampled_from([1.0, 1.5, 10.0]),  # estimate, of the run time
    st.floats(0.0, 1.0),  # nodes, of those that have what it requests
    st.floats(0.01, 1.0),  # request, of the largest
    st.one_of(st.none(), st.floats(0.01, 1.0)),  # use, of the request
    st.integers(0, 3),  # group
)


class Watched(MemorySimulation):
    """Keeps what each attempt was given."""

    def _begin(self, job: int) -> float:
        taken = self._placement.where[job]
        self.__dict__.setdefault("given", {}).setdefault(job, []).append(min(taken)[0])
        assert sum(count for _, count in taken) == self.jobs.work.processors[job]
        assert self._placement.class_of[job] <= min(min(taken)[0], self._class_of_request[job])
        return super()._begin(job)


@pytest.mark.parametrize("policy", MEMORY_POLICIES)
@pytest.mark.parametrize("name", ["none", "successive-approximation", "jobsight"])
@given(
    classes=CLASSES,
    rows=st.lists(JOB, min_size=1, max_size=30),
    retry=st.sampled_from(["request", "estimate"]),
    explicit=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_every_job_finishes(
    name: str, policy: str, classes: dict[float, int], rows: list[tuple], retry: Retry, explicit: bool
) -> None:
    kinds = [NodeClass(count, memory) for memory, count in sorted(classes.items())]
    gaps, run, factor, _, _, _, groups = (np.array(column) for column in zip(*rows, strict=True))
    requested = np.array([row[4] * kinds[-1].memory_bytes for row in rows])
    able = [sum(entry.count for entry in kinds if entry.memory_bytes >= asked) for asked in requested]
    used = np.array([np.nan if row[5] is None else row[5] * asked for row, asked in zip(rows, requested, strict=True)])
    nodes = np.array([max(1, round(row[3] * count)) for row, count in zip(rows, able, strict=True)])
    questions = [
        Question(str(group), None, None, int(count), float(asked), 60.0)
        for group, count, asked in zip(groups, nodes, requested, strict=True)
    ]
    submit = np.cumsum(gaps)
    work = Workload(submit - submit[0], run, run * factor, nodes, np.arange(len(rows)), Counter())
    jobs = MemoryJobs(work, requested, used, questions, groups.astype(np.int64), groups > 2)
    machine = Nodes(kinds)
    estimator = not_none(VARIANTS[name].estimator)
    requirements = Estimated(estimator(machine.memory_bytes), jobs, explicit=explicit)
    simulation = Watched(jobs, machine, MEMORY_POLICIES[policy], requirements, np.random.default_rng(1), retry)
    assert simulation.advance(2 * len(rows) * (len(kinds) + 2))
    assert machine.free == machine.nodes
    given_of: dict[int, list[int]] = simulation.__dict__["given"]
    for job, given_classes in given_of.items():
        assert given_classes == sorted(set(given_classes))
        assert not used[job] > kinds[given_classes[-1]].memory_bytes
        assert all(used[job] > kinds[place].memory_bytes for place in given_classes[:-1])
    assert simulation.attempts == len(rows) + simulation.failures
    assert simulation.ended == len(rows)
    figures = memory_figures(simulation)
    assert 0.0 < figures["utilisation"] <= 1.0 + 1e-9
    assert figures["mean_slowdown"] >= 1.0 - 1e-9
    if name == "none":
        assert (figures["failed_share"], figures["lowered_share"], figures["failed_node_hours"]) == (0.0, 0.0, 0.0)
