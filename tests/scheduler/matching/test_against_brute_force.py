"""Optima against enumeration, on batches so small that every set of matches can be looked at."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins
from scipy.optimize import linprog
from tests.make import not_none
from tests.scheduler.matching.conftest import check, every_matching, random_batch

from jobsight_scheduler.matching import match, read_problem
from jobsight_scheduler.matching.eligibility import Eligibility, job_classes
from jobsight_scheduler.matching.program import relaxed_by_type

Batch = dict[str, Any]
Matching = dict[int, tuple[tuple[int, ...], ...]]


def throughput(batch: Batch, found: Matching) -> float:
    return float(len(found))


def priority(batch: Batch, found: Matching) -> float:
    return float(sum(batch["jobs"][job]["priority"] for job in found))


def utilisation(batch: Batch, found: Matching) -> float:
    return sum(
        amount / batch["resources"][index]["capacities"][kind]["total"]
        for job, placement in found.items()
        for dependency, chosen in zip(batch["jobs"][job]["dependencies"], placement, strict=True)
        for index in chosen
        for kind, amount in dependency["amounts"].items()
        if kind in batch["resources"][index]["capacities"] and batch["resources"][index]["capacities"][kind]["total"]
    )


def speed(batch: Batch, found: Matching) -> float:
    chosen = [index for placement in found.values() for chosen in placement for index in chosen]
    return float(sum(batch["resources"][index]["attributes"]["speed"] for index in chosen))


OWN = {"name": "speed", "sense": "min", "X": "speed"}

VALUES: dict[str, tuple[Callable[[Batch, Matching], float], int]] = {
    "throughput": (throughput, 1),
    "priority": (priority, 1),
    "utilisation": (utilisation, 1),
    "speed": (speed, -1),
}


def best(batch: Batch, objectives: list[str]) -> list[float]:
    """The optimum of each objective, those before it kept."""
    found = list(every_matching(batch))
    optima = []
    for name in objectives:
        value, sign = VALUES[name]
        values = [sign * value(batch, one) for one in found]
        most = max(values)
        found = [one for one, of in zip(found, values, strict=True) if of >= most - 1e-9]
        optima.append(sign * most)
    return optima


def answered(batch: Batch) -> dict[str, Any]:
    answer: dict[str, Any] = to_builtins(match(read_problem(batch), clock=time.process_time, deadline_s=3.0))
    return answer


@pytest.mark.parametrize("objective", ["throughput", "priority", "utilisation"])
@pytest.mark.parametrize("seed", range(10))
def test_one_objective(seed: int, objective: str) -> None:
    batch = random_batch(seed, is_fractional=seed % 2 == 1) | {"objectives": [objective]}
    answer = answered(batch)
    check(batch, answer)
    assert answer["objective"] == pytest.approx(best(batch, [objective])[0], abs=1e-6)
    assert answer["status"] == ("within 1e-6" if objective == "utilisation" else "optimal")
    assert answer["bound"] == pytest.approx(answer["objective"], abs=1e-6)


@pytest.mark.parametrize("second", ["priority", "utilisation", "speed"])
@pytest.mark.parametrize("seed", range(8))
def test_one_objective_after_another(seed: int, second: str) -> None:
    batch = random_batch(100 + seed, is_fractional=seed % 2 == 1)
    batch["objectives"] = ["throughput", OWN if second == "speed" else second]
    answer = answered(batch)
    check(batch, answer)
    names = ["throughput", second]
    assert [one["name"] for one in answer["objectives"]] == names
    found = [one["value"] for one in answer["objectives"]]
    assert found == pytest.approx(best(batch, names), abs=1e-5)
    assert answer["status"] in (("optimal", "within 1e-6") if second == "utilisation" else ("optimal",))


@pytest.mark.parametrize("seed", range(8))
def test_the_relaxation_by_type_is_scipys_and_bounds_every_matching(seed: int) -> None:
    """Where all jobs count as possible: a row for each kind of each type, of all that is free there."""
    batch = random_batch(300 + seed, load=1.5) | {"objectives": ["priority"]}
    eligibility = Eligibility(read_problem(batch))
    worth = np.array([float(job["priority"]) for job in batch["jobs"]])
    classes = job_classes(eligibility.problem)
    found = not_none(relaxed_by_type(eligibility, classes, worth, time.process_time, time.process_time() + 10.0))
    rows: dict[str, list[float]] = {}
    for index, job in enumerate(batch["jobs"]):
        for dependency in job["dependencies"]:
            for kind, amount in dependency["amounts"].items():
                row = rows.setdefault(kind, [0.0] * len(worth))
                row[index] += amount * dependency.get("count", 1)
    capacities = [resource["capacities"] for resource in batch["resources"]]
    free = [sum(of[kind]["total"] - of[kind].get("used", 0) for of in capacities if kind in of) for kind in rows]
    linear = linprog(-worth, np.array(list(rows.values())), free, bounds=(0.0, 1.0))
    assert found[0] == pytest.approx(-linear.fun)
    assert found[0] >= best(batch, ["priority"])[0] - 1e-9


def tiny(seed: int) -> Batch:
    """Up to three nodes and six jobs, with priorities from 1e-6 to 1e12 and capacities up to 1e15."""
    rng = random.Random(seed)
    places = rng.choice([1, 2, 3, 6])

    def written() -> float:
        return rng.choice([rng.randint(1, 9) / 10**places, rng.randint(1, 99) / 100, 1.3, 3])

    def capacity() -> float:
        whole = round(written() + written(), 6)
        return rng.choice([whole, whole, whole * (1 + 1e-9), 10.0 ** rng.randint(-3, 15), 1e15])

    def total_and_used() -> dict[str, float]:
        total = capacity()
        return {"total": total, "used": rng.choice([0, 0, 0, round(total / 2, 3), total / 3])}

    def priority() -> float:
        return rng.choice([0.01, 1, 3.5, 123_456.789, 1e9, 10.0 ** rng.uniform(-6, 12), 10.0 ** rng.randint(-6, 12)])

    def amount() -> float:
        return rng.choice([written(), written(), written(), written() / 3, 10.0 ** rng.uniform(-6, 15), 5e14])

    nodes = [
        {
            "name": f"n{at}",
            "type": "node",
            "attributes": {"os": "a" if at else "b"},
            "capacities": {"slots": total_and_used()},
        }
        for at in range(rng.randint(1, 3))
    ]
    jobs = [
        {
            "name": f"j{at}",
            "priority": priority(),
            "dependencies": [
                {
                    "name": "d",
                    "type": "node",
                    "where": rng.choice(["", "os == 'a'"]),
                    "count": rng.choice([1, 1, 1, 2]),
                    "amounts": {"slots": amount()},
                }
            ],
        }
        for at in range(rng.randint(2, 6))
    ]
    return {"resources": nodes, "jobs": jobs, "objectives": ["priority"]}


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 2_000), marks=pytest.mark.exhaustive)])
def test_optimal_is_never_said_of_less_than_the_optimum(seeds: range) -> None:
    proven = 0
    for seed in seeds:
        batch = tiny(seed)
        answer = answered(batch)
        check(batch, answer)
        optimum = best(batch, ["priority"])[0]
        assert answer["bound"] >= optimum * (1.0 - 1e-9)
        if answer["status"] == "optimal":
            proven += 1
            assert answer["objective"] >= optimum * (1.0 - 1e-15)
        elif answer["status"] == "within 1e-6":
            assert answer["objective"] >= optimum * (1.0 - 2e-6)
    assert proven > len(seeds) // 10


@pytest.mark.parametrize(("objective", "share"), [("priority", 0.98), ("best-to-priority", 0.9)])
def test_a_crowded_batch_is_packed_nearly_to_its_bound(objective: str, share: float) -> None:
    """Nodes of different proportions, and jobs that ask for four times what there is."""
    rng = random.Random(5)
    nodes = [
        {
            "name": f"n{at}",
            "type": "node",
            "attributes": {"speed": at},
            "capacities": {"slots": rng.choice([32, 64]), "gib": rng.choice([64, 256])},
        }
        for at in range(6)
    ]
    jobs = [
        {
            "name": f"j{at}",
            "priority": rng.randint(1, 9),
            "dependencies": [
                {
                    "name": "d",
                    "type": "node",
                    "amounts": {"slots": rng.randint(1, 8), "gib": rng.randint(1, 32)},
                    "prefer": "speed",
                }
            ],
        }
        for at in range(250)
    ]
    problem = read_problem({"resources": nodes, "jobs": jobs, "objectives": [objective]})
    answers = [match(problem, clock=time.process_time, rungs=rungs) for rungs in ((), ("relaxation", "search"))]
    assert answers[0].objective <= answers[1].objective
    assert answers[1].objective >= share * not_none(answers[1].bound)


@pytest.mark.parametrize("rungs", [(), ("relaxation",), ("relaxation", "search")])
@pytest.mark.parametrize("seed", range(8))
def test_lower_rungs_are_feasible_and_their_bounds_hold(seed: int, rungs: tuple[str, ...]) -> None:
    batch = random_batch(200 + seed, is_fractional=seed % 2 == 1) | {"objectives": ["priority"]}
    answer = to_builtins(match(read_problem(batch), clock=time.process_time, deadline_s=0.1, rungs=rungs))
    check(batch, answer)
    optimum = best(batch, ["priority"])[0]
    assert answer["objective"] <= optimum + 1e-9 <= answer["bound"] + 1e-6


@pytest.mark.parametrize("objective", ["throughput", "preferences"])
def test_what_exceeds_a_capacity_by_a_hundred_millionth_is_not_matched_and_the_optimum_is_proven(
    objective: str,
) -> None:
    """A solver's own tolerance would let two of the three in."""
    node = {"type": "compute", "attributes": {"speed": 2}, "capacities": {"memory": {"total": 100_000_000}}}
    needs = [{"name": "node", "type": "compute", "amounts": {"memory": 50_000_001}, "prefer": "speed"}]
    batch = {
        "resources": [{"name": "blade-1", **node}, {"name": "blade-2", **node}],
        "jobs": [{"name": f"job-{index}", "dependencies": needs} for index in range(4)],
        "objectives": [objective],
    }
    answer = answered(batch)
    assert len(answer["matches"]) == 2
    assert (answer["status"], answer["objective"]) == ("optimal", 2.0)


def batch_of(jobs: list[dict[str, Any]], objectives: list[Any], **capacities: Any) -> Batch:
    """Jobs with one dependency each, on two machines and a disk."""
    machines = [{"name": name, "type": "compute", "capacities": capacities} for name in ("blade-1", "blade-2")]
    disk = {"name": "disk", "type": "disk", "capacities": {"gb": {"total": 10, "used": 5}}}
    named = [
        {"name": f"job-{index}", "priority": job.pop("priority", 1), "dependencies": [{"name": "on", **job}]}
        for index, job in enumerate(jobs)
    ]
    return {"resources": [*machines, disk], "jobs": named, "objectives": objectives}


@pytest.mark.parametrize("objectives", [["utilisation"], ["throughput", "utilisation"]])
def test_no_job(objectives: list[str]) -> None:
    answer = answered(batch_of([], objectives, slots=4))
    assert (answer["status"], answer["matches"], answer["unmatched"]) == ("optimal", (), ())


def test_nothing_is_asked_of_a_capacity_that_is_not_there() -> None:
    job = {"type": "compute", "amounts": {"slots": 3, "licences": 0}}
    answer = answered(batch_of([job], ["throughput"], slots={"total": 4, "used": 2}))
    assert answer["unmatched"][0]["reason"].endswith("blade-1 has slots 2 of 4 free; blade-2 has slots 2 of 4 free")


def test_one_more_is_better_beside_a_million() -> None:
    free = {"a": 6, "b": 3, "c": 4, "d": 6, "e": 2}
    resources = [
        {"name": name, "type": "t", "attributes": {"is_old": name in "de"}, "capacities": {"slots": slots}}
        for name, slots in free.items()
    ]
    four = [{"name": "on", "type": "t", "amounts": {"slots": 4}}]
    large = [{"name": "on", "type": "t", "amounts": {"slots": 3}}, {**four[0], "name": "old", "where": "is_old"}]
    jobs = [{"name": "first", "dependencies": four}, {"name": "second", "dependencies": four}]
    jobs.append({"name": "large", "dependencies": large, "priority": 1_000_000})
    answer = answered({"resources": resources, "jobs": jobs, "objectives": ["priority", "utilisation"]})
    assert (answer["status"], answer["objective"]) == ("within 1e-6", 1_000_002.0)


def test_large_whole_amounts_fit_exactly() -> None:
    jobs = [{"type": "compute", "amounts": {"bytes": 2 * 10**15}} for _ in range(3)]
    answer = answered(batch_of(jobs, ["throughput"], bytes={"total": 12 * 10**15, "used": 10 * 10**15}))
    assert (answer["status"], answer["objective"]) == ("optimal", 2.0)


def test_more_in_use_than_there_is() -> None:
    job = {"type": "compute", "amounts": {"slots": 0.5}}
    answer = answered(batch_of([job], ["throughput"], slots={"total": 2, "used": 1e308}))
    assert answer["unmatched"][0]["tier"] == "held"
