"""Optima that are proven are optima, bounds are reached, and a reason is the one that keeps the job waiting."""

from __future__ import annotations

import time
from typing import Any

from jobsight_scheduler.matching import Answer, match, read_problem

Json = dict[str, Any]


def node(name: str, slots: float = 1, used: float = 0, **more: Any) -> Json:
    return {"name": name, "type": "node", "capacities": {"slots": {"total": slots, "used": used}}, **more}


def job(name: str, slots: float = 1, more: Json | None = None, **fields: Any) -> Json:
    need = {"name": "d", "type": "node", "amounts": {"slots": slots}} | (more or {})
    return {"name": name, "dependencies": [need], **fields}


def answer(resources: list[Json], jobs: list[Json], *objectives: Any) -> Answer:
    batch = {"resources": resources, "jobs": jobs, "objectives": list(objectives)}
    return match(read_problem(batch), clock=time.process_time)


def test_jobs_with_different_preferences_are_not_identical() -> None:
    """The short one prefers the slow node, the long one the fast one: both get their best."""
    prefer = {"prefer": "speed * (job.duration_s - 100)"}
    nodes = [node("slow", attributes={"speed": 1}), node("fast", attributes={"speed": 2})]
    found = answer(
        nodes, [job("long", 1, prefer, duration_s=200), job("short", 1, prefer, duration_s=50)], "preferences"
    )
    assert {one.job: one.resources["d"] for one in found.matches} == {"long": ("fast",), "short": ("slow",)}
    assert (found.status, found.objective) == ("optimal", 2.0)


def test_of_several_dependencies_in_trouble_the_hardest_is_named() -> None:
    troubles = {
        "held": {"name": "held", "type": "node", "amounts": {"slots": 3}},
        "policy": {"name": "policy", "type": "shut", "amounts": {"slots": 1}},
        "never-fits": {"name": "never-fits", "type": "node", "amounts": {"slots": 9}},
        "predicate": {"name": "predicate", "type": "node", "where": "slots.total > 90"},
        "type": {"name": "type", "type": "tape"},
    }
    nodes = [node("a", 4, 2), node("b", policies=[{"effect": "deny"}]) | {"type": "shut"}]
    for count in range(1, len(troubles) + 1):
        [why] = answer(nodes, [{"name": "j", "dependencies": list(troubles.values())[:count]}], "throughput").unmatched
        assert why.tier == list(troubles)[count - 1]
        assert why.reason.startswith(f"{why.tier}: ")


def test_what_a_denied_node_is_too_small_for_never_fits() -> None:
    [why] = answer([node("a", 4, policies=[{"effect": "deny"}])], [job("j", 9)], "throughput").unmatched
    assert (why.tier, "even when idle" in why.reason) == ("never-fits", True)


def test_a_job_that_counts_nothing_is_said_to_add_nothing() -> None:
    [why] = answer([node("a")], [job("j", priority=0)], "priority").unmatched
    assert (why.tier, why.reason) == ("outpriced", "it fits, but matching it would add nothing to the objectives")
