"""An independent referee of answers, and generators of batches that share no code with the matcher."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

Batch = dict[str, Any]


def exact(value: float) -> Fraction:
    """Return the number exactly as written."""
    return Fraction(repr(value))


def satisfies(resource: dict[str, Any], where: str | None) -> bool:
    """Python's own evaluation of a predicate whose fields the resource all has."""
    if not where:
        return True
    fields = {**{kind: cap["total"] - cap.get("used", 0) for kind, cap in resource["capacities"].items()}}
    fields |= resource["attributes"]
    try:
        return bool(eval(where, {"__builtins__": {}, "true": True, "false": False}, fields))
    except NameError:
        return False


def is_eligible(resource: dict[str, Any], dependency: dict[str, Any]) -> bool:
    if resource["type"] != dependency["type"] or not satisfies(resource, dependency.get("where")):
        return False
    return all(
        not amount
        or (
            kind in resource["capacities"]
            and exact(amount)
            <= exact(resource["capacities"][kind]["total"]) - exact(resource["capacities"][kind].get("used", 0))
        )
        for kind, amount in dependency.get("amounts", {}).items()
    )


def placements(batch: Batch, job: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to place a job by itself: positions of resources for each dependency."""
    resources = batch["resources"]
    choices = [
        itertools.combinations(
            [index for index, resource in enumerate(resources) if is_eligible(resource, dependency)],
            dependency.get("count", 1),
        )
        for dependency in job["dependencies"]
    ]
    return itertools.product(*choices)


def every_matching(batch: Batch) -> Iterator[dict[int, tuple[tuple[int, ...], ...]]]:
    """Every feasible set of matches, by enumeration."""
    jobs, resources = batch["jobs"], batch["resources"]
    options = [list(placements(batch, job)) for job in jobs]
    left = [
        {kind: exact(cap["total"]) - exact(cap.get("used", 0)) for kind, cap in resource["capacities"].items()}
        for resource in resources
    ]

    def take(job: dict[str, Any], placement: tuple[tuple[int, ...], ...], sign: int) -> bool:
        fits = True
        for dependency, chosen in zip(job["dependencies"], placement, strict=True):
            for index in chosen:
                for kind, amount in dependency.get("amounts", {}).items():
                    if amount:
                        left[index][kind] -= sign * exact(amount)
                        fits = fits and left[index][kind] >= 0
        return fits

    def descend(index: int, found: dict[int, tuple[tuple[int, ...], ...]]) -> Iterator[dict[int, Any]]:
        if index == len(jobs):
            yield dict(found)
            return
        yield from descend(index + 1, found)
        for placement in options[index]:
            if take(jobs[index], placement, 1):
                found[index] = placement
                yield from descend(index + 1, found)
                del found[index]
            take(jobs[index], placement, -1)

    return descend(0, {})


def check(batch: Batch, answer: dict[str, Any]) -> None:
    """Fails if a gang is not whole, an instance not eligible, or a capacity exceeded: as written in decimals, and as
    binary numbers."""
    resources = {resource["name"]: resource for resource in batch["resources"]}
    jobs = {job["name"]: job for job in batch["jobs"]}
    used: dict[tuple[str, str], list[float]] = {}
    for match in answer["matches"]:
        job = jobs[match["job"]]
        assert set(match["resources"]) == {dependency["name"] for dependency in job["dependencies"]}
        for dependency in job["dependencies"]:
            chosen = match["resources"][dependency["name"]]
            assert len(chosen) == len(set(chosen)) == dependency.get("count", 1)
            for name in chosen:
                assert is_eligible(resources[name], dependency), (match, name)
                for kind, amount in dependency.get("amounts", {}).items():
                    if amount:
                        used.setdefault((name, kind), []).append(amount)
    for (name, kind), amounts in used.items():
        cap = resources[name]["capacities"][kind]
        taken = [*amounts, cap.get("used", 0)]
        assert any(sum(map(read, taken)) <= read(cap["total"]) for read in (exact, Fraction)), (name, kind)
    matched = [match["job"] for match in answer["matches"]]
    unmatched = [entry["job"] for entry in answer["unmatched"]]
    assert sorted(matched + unmatched) == sorted(jobs)


def random_batch(
    seed: int, jobs: int = 4, resources: int = 4, types: int = 2, is_fractional: bool = False, load: float = 0.7
) -> Batch:
    """A batch without structure of ours: any number of types, kinds, predicates and counts."""
    rng = random.Random(seed)
    kinds = {f"t{index}": [f"k{index}{letter}" for letter in "ab"[: rng.randint(1, 2)]] for index in range(types)}

    def amount(low: float, high: float) -> float:
        return (
            round(rng.uniform(low, high), rng.choice((1, 2, 3))) if is_fractional else rng.randint(int(low), int(high))
        )

    made = []
    for index in range(resources):
        of_type = f"t{index % types}"
        made.append(
            {
                "name": f"r{index}",
                "type": of_type,
                "attributes": {"speed": rng.randint(1, 9), "os": rng.choice(["a", "b"]), "place": rng.choice("xyz")},
                "capacities": {
                    kind: {"total": amount(4, 4 + 16 * jobs / resources / load), "used": rng.choice((0, 0, 1))}
                    for kind in kinds[of_type]
                },
                "cost": rng.choice((1, 2)),
            }
        )
    wanted = []
    for index in range(jobs):
        dependencies = []
        for number in range(rng.randint(1, min(3, types + 1))):
            of_type = f"t{rng.randrange(types)}"
            where = rng.choice(
                ["", f"speed >= {rng.randint(1, 5)}", "os == 'a'", "not os == 'b' or speed > 3", "place in ['x', 'y']"]
            )
            dependencies.append(
                {
                    "name": f"d{number}",
                    "type": of_type,
                    "where": where,
                    "amounts": {kind: amount(0, 9) for kind in kinds[of_type] if rng.random() < 0.9},
                    "count": rng.choice((1, 1, 1, 2)),
                    "prefer": rng.choice(("speed", "-speed")),
                }
            )
        job: dict[str, Any] = {
            "name": f"j{index}",
            "class": "c",
            "priority": rng.randint(1, 5),
            "dependencies": dependencies,
        }
        wanted.append(job)
        if rng.random() < 0.2 and index + 1 < jobs:
            wanted.append({**job, "name": f"j{index}-again"})
    return {"resources": made, "jobs": wanted[:jobs], "objectives": ["throughput"]}
