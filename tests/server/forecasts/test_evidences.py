"""What is learned as evidence for decisions, beside the model: limits, reports and the largest node."""

from __future__ import annotations

from typing import Any

import pytest

from jobsight_predictor.question import Question
from jobsight_server.accounting.runs import Failure
from jobsight_server.decision.evidence import ASKED_FOR, Resource
from jobsight_server.forecasts.events import Observation
from jobsight_server.forecasts.evidence import Evidences
from jobsight_server.forecasts.request import ForecastConfig, ForecastJob, shape_of

GIB, HOUR = 2.0**30, 3600.0
QUESTION = Question("ann", "cfd", None, 2, 32 * GIB, 10 * HOUR)
SHAPE = shape_of(QUESTION, 0)


def ended(number: int, failure: Failure | None = None) -> ForecastJob:
    at = 1e6 + 20 * HOUR * number
    given = QUESTION.requested_memory_bytes, QUESTION.requested_time_s
    return ForecastJob(number, "alpha", QUESTION, *given, "ended", at, at, at + HOUR, None, f"{number}", failure)


def decided(evidence: Evidences, resource: Resource = "memory", **more: Any) -> Any:
    return evidence.decide(resource, "alpha", QUESTION, SHAPE, None, **more)


@pytest.mark.parametrize("killed", ASKED_FOR)
def test_each_resource_has_limits_of_its_own(killed: Resource) -> None:
    """A kill for one shows that its limits are enforced, though jobs used more, and says nothing of the other."""
    evidence = Evidences(ForecastConfig())
    failure: Failure = "memory" if killed == "memory" else "time"
    for resource in ASKED_FOR:
        assert decided(evidence, resource).similar.enforced
        evidence.note_limits("alpha", resource, False)
        assert not decided(evidence, resource).similar.enforced
        evidence.learn(ended(1, failure), resource, Observation(GIB), is_late=False)
    stored = dict(evidence.changed_state())
    restored = Evidences(ForecastConfig())
    for key, part in stored.items():
        restored.load(key, part.state)
    for known in (evidence, restored):
        assert {resource: decided(known, resource).similar.enforced for resource in ASKED_FOR} == {
            resource: resource == killed for resource in ASKED_FOR
        }
    assert list(evidence.changed_state()) == []


@pytest.mark.parametrize(("apart_h", "bursts"), [(1, 1), (11, 3)])
def test_reports_within_a_time_limit_are_one_burst(apart_h: float, bursts: int) -> None:
    """The tasks of an array are reported one after the other: three of them lower nothing."""
    evidence = Evidences(ForecastConfig())
    for number in range(3):
        evidence.learn_report("alpha", QUESTION, "memory", Observation(GIB), 1e6 + apart_h * HOUR * number)
    found = decided(evidence)
    assert (found.similar.exact, found.similar.bursts) == (3, bursts)
    assert (found.amount is not None) == (bursts > 1)


def test_nothing_is_above_the_largest_node() -> None:
    evidence = Evidences(ForecastConfig(), {"alpha": int(40 * GIB) + 5})
    evidence.learn(ended(1, "memory"), "memory", None, is_late=False)
    assert decided(evidence, nodes=2).amount == 80 * GIB
    assert decided(evidence, nodes=1).amount == 40 * GIB
    evidence.largest = {}
    assert decided(evidence).amount == 1.5 * 64 * GIB
