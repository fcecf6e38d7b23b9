"""Matching against enumeration, on small random batches as sites have them: measured amounts, bytes, denied jobs.

python benchmarks/matching_fuzz.py [--batches 5000] [--seed 0] [--deadline 2]

Nothing here shares code with the matcher: predicates are Python's, amounts are fractions, and every set of matches is
looked at. Counted are answers that do not fit, optima and bounds that are wrong, and exceptions; then the peak of the
memory of the process.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from jobsight_scheduler.matching import Answer, match, read_problem

Json = dict[str, Any]
Placement = tuple[tuple[int, ...], ...]

MATCHINGS_AT_MOST = 20_000
AMOUNTS = ("whole", "decimal", "measured", "bytes", "exact sums")
PREFERENCES = ("speed", "lowest price", "speed * (job.priority - 2)", "job.duration_s - 100 * speed * job.priority")
WHERE = ("", "", "speed >= 3", "speed >= job.priority", "place in ['x', 'y']", "not place == 'x' or price < 4")
HOPELESS = ({"where": "speed > 100"}, {"type": "tape"}, {"count": 9}, {"amounts": {"a": 1e18}})
OBJECTIVES: tuple[list[Any], ...] = (
    ["throughput"],
    ["priority"],
    ["preferences"],
    ["best-to-priority"],
    ["utilisation"],
    ["throughput", "preferences"],
    ["throughput", "fewest"],
    ["priority", "balance"],
    [{"name": "emptied", "sense": "min", "S": "price - 5"}],
    [{"name": "cheap", "sense": "min", "X": "price * job.duration_s - 300"}],
    ["throughput", {"name": "even", "sense": "min", "F": "2", "X": "price"}],
    [{"name": "spread", "S": "price - 2", "Z": "job.priority - 2"}],
)

LEAST = ("fewest", "balance", "balance (squares)", "emptied", "cheap", "even")


def batch_of(seed: int) -> Json:
    """A batch without structure of ours."""
    rng = random.Random(seed)
    style = AMOUNTS[seed % len(AMOUNTS)]

    def amount(low: float, high: float) -> float:
        match style:
            case "whole":
                return rng.randint(int(low), int(high))
            case "decimal":
                return round(rng.uniform(low, high), rng.choice((1, 2, 3)))
            case "bytes":
                return rng.randint(int(low * 2**30), int(high * 2**37))
        return rng.uniform(low, high) * rng.choice((1.0, 1.0, 1e-3))

    types = {f"t{index}": "ab"[: rng.randint(1, 2)] for index in range(rng.randint(1, 2))}
    resources = []
    for index in range(rng.randint(2, 4)):
        of_type = rng.choice(list(types))
        resources.append(
            {
                "name": f"r{index}",
                "type": of_type,
                "attributes": {"speed": rng.randint(1, 5), "price": rng.randint(1, 6), "place": rng.choice("xyz")},
                "capacities": {kind: {"total": amount(6, 14)} for kind in types[of_type]},
                "cost": rng.choice((1, 2)),
            }
        )
        for capacity in resources[-1]["capacities"].values():
            if rng.random() < 0.3:
                capacity["used"] = min(amount(0, 4), capacity["total"])
        if rng.random() < 0.4:
            rule = {"classes": [rng.choice(("batch", "idle"))], "effect": rng.choice(("deny", "deny", "prefer"))}
            resources[-1]["policies"] = [rule | ({"preference": 0.5} if rule["effect"] == "prefer" else {})]
    jobs: list[Json] = []
    for index in range(rng.randint(3, 6)):
        if jobs and rng.random() < 0.3:  # like another one, but for what a predicate or a preference may read
            jobs.append(rng.choice(jobs) | {"name": f"j{index}", "duration_s": rng.choice((60, 600))})
            continue
        dependencies = []
        for number in range(rng.choice((1, 1, 2))):
            of_type = rng.choice(list(types))
            dependencies.append(
                {
                    "name": f"d{number}",
                    "type": of_type,
                    "where": rng.choice(WHERE),
                    "amounts": {kind: amount(1, 9) for kind in types[of_type] if rng.random() < 0.9},
                    "count": rng.choice((1, 1, 1, 2)),
                }
                | ({"prefer": rng.choice(PREFERENCES)} if rng.random() < 0.7 else {})
            )
        if rng.random() < 0.1:
            dependencies[-1] |= rng.choice(HOPELESS)
        jobs.append(
            {
                "name": f"j{index}",
                "class": rng.choice(("batch", "idle", "")),
                "priority": rng.choice((0, 1, 2, 3)),
                "duration_s": rng.choice((60, 600)),
                "dependencies": dependencies,
            }
        )
    if style == "exact sums":  # what some jobs need is all that there is, to the last bit
        for entry in resources:
            for kind, capacity in entry["capacities"].items():
                needs = [d["amounts"][kind] for j in jobs for d in j["dependencies"] if kind in d["amounts"]]
                if needs and rng.random() < 0.7:
                    capacity["total"] = sum(rng.sample(needs, rng.randint(1, min(3, len(needs)))))
                    capacity.pop("used", None)
    return {"resources": resources, "jobs": jobs, "objectives": rng.choice(OBJECTIVES)}


def value_of(text: str, entry: Json, job: Json) -> Any:
    """Python's own value of a predicate or an expression."""
    fields = {f"job_{name}": value for name, value in job.items()} | entry["attributes"]
    return eval(text.replace("job.", "job_"), {"__builtins__": {}}, fields)


def verdict(entry: Json, job: Json) -> float:
    """How much the policy of a resource prefers the job; below 0 if it denies it."""
    for rule in entry.get("policies", ()):
        if job["class"] in rule["classes"]:
            return rule["preference"] if rule["effect"] == "prefer" else -1.0
    return 1.0


def fits(capacity: Json, amounts: list[float], is_lenient: bool) -> bool:
    """Whether amounts fit exactly: as binary numbers and as they are written; one of them is enough if lenient."""
    ways = (Fraction, lambda value: Fraction(repr(value)))
    found = [
        sum(map(exact, amounts)) <= max(exact(capacity["total"]) - exact(capacity.get("used", 0)), 0) for exact in ways
    ]
    return any(found) if is_lenient else all(found)


def eligible(batch: Json, job: Json, need: Json) -> list[int]:
    """E(j, d)."""
    return [
        index
        for index, entry in enumerate(batch["resources"])
        if entry["type"] == need["type"]
        and verdict(entry, job) >= 0.0
        and (not need.get("where") or value_of(need["where"], entry, job))
        and all(
            kind in entry["capacities"] and fits(entry["capacities"][kind], [amount], True)
            for kind, amount in need["amounts"].items()
            if amount
        )
    ]


class Reference:
    """All sets of matches of a batch, and what each is worth."""

    def __init__(self, batch: Json) -> None:
        self.batch = batch
        self.options: list[list[Placement]] = []
        self._preferred: list[list[dict[int, float]]] = []
        for job in batch["jobs"]:
            found = [eligible(batch, job, need) for need in job["dependencies"]]
            ways = (
                itertools.combinations(choices, need.get("count", 1))
                for choices, need in zip(found, job["dependencies"], strict=True)
            )
            self.options.append(list(itertools.product(*ways)))
            self._preferred.append(
                [self._scaled(job, need, choices) for need, choices in zip(job["dependencies"], found, strict=True)]
            )

    @property
    def size(self) -> int:
        size = 1
        for options in self.options:
            size *= len(options) + 1
        return size

    def _scaled(self, job: Json, need: Json, choices: list[int]) -> dict[int, float]:
        text = need.get("prefer", "1")
        sign = -1 if text.startswith("lowest ") else 1
        values = {at: sign * value_of(text.removeprefix("lowest "), self.batch["resources"][at], job) for at in choices}
        low, high = min(values.values(), default=0), max(values.values(), default=0)
        return {
            at: ((value - low) / (high - low) if high > low else 1.0) * verdict(self.batch["resources"][at], job)
            for at, value in values.items()
        }

    def held(self, found: dict[int, Placement]) -> dict[tuple[int, str], list[float]]:
        taken: dict[tuple[int, str], list[float]] = {}
        for job, placement in found.items():
            for need, chosen in zip(self.batch["jobs"][job]["dependencies"], placement, strict=True):
                for at, (kind, amount) in itertools.product(chosen, need["amounts"].items()):
                    if amount:
                        taken.setdefault((at, kind), []).append(amount)
        return taken

    def fit(self, found: dict[int, Placement], is_lenient: bool) -> bool:
        return all(
            fits(self.batch["resources"][at]["capacities"][kind], amounts, is_lenient)
            for (at, kind), amounts in self.held(found).items()
        )

    def every(self) -> Iterator[dict[int, Placement]]:
        def descend(index: int, found: dict[int, Placement]) -> Iterator[dict[int, Placement]]:
            if index == len(self.options):
                yield dict(found)
                return
            yield from descend(index + 1, found)
            for placement in self.options[index]:
                found[index] = placement
                if self.fit(found, is_lenient=False):
                    yield from descend(index + 1, found)
                del found[index]

        return descend(0, {})

    def values(self, found: dict[int, Placement], objective: Any) -> list[float]:
        """What ``found`` is worth, larger values being better; after ``balance`` the squares as well."""
        jobs, resources = self.batch["jobs"], self.batch["resources"]
        name = objective if isinstance(objective, str) else "own"
        if name == "throughput":
            return [float(len(found))]
        if name == "priority":
            return [float(sum(jobs[job]["priority"] for job in found))]
        if name in ("preferences", "best-to-priority"):
            return [
                sum(
                    (jobs[job]["priority"] if name == "best-to-priority" else 1.0)
                    * sum(by[at] for at in chosen)
                    / (len(chosen) * len(placement))
                    for job, placement in found.items()
                    for by, chosen in zip(self._preferred[job], placement, strict=True)
                )
            ]
        held = self.held(found)
        if name == "utilisation":
            return [
                sum(sum(amounts) / resources[at]["capacities"][kind]["total"] for (at, kind), amounts in held.items())
            ]
        shares = [
            (capacity.get("used", 0) + sum(held.get((at, kind), ()))) / capacity["total"]
            for at, entry in enumerate(resources)
            for kind, capacity in entry["capacities"].items()
        ]
        if name == "balance":
            return [-max(shares), -sum(map(squared, shares))]
        used = {at for placement in found.values() for chosen in placement for at in chosen}
        used |= {at for at, r in enumerate(resources) if any(c.get("used", 0) for c in r["capacities"].values())}
        if name == "fewest":
            return [-float(sum(resources[at]["cost"] for at in used))]
        sign = 1.0 if objective.get("sense", "max") == "max" else -1.0
        worth = float(objective.get("F", 0)) * max(shares)
        worth += sum(value_of(objective.get("S", "0"), resources[at], {}) for at in used)
        worth += sum(value_of(objective.get("Z", "0"), {"attributes": {}}, jobs[job]) for job in found)
        worth += sum(
            value_of(objective.get("X", "0"), resources[at], jobs[job])
            for job, placement in found.items()
            for chosen in placement
            for at in chosen
        )
        return [sign * worth]

    def best(self) -> list[float]:
        """The optimum of each objective, those before it kept."""
        worth = [[v for o in self.batch["objectives"] for v in self.values(one, o)] for one in self.every()]
        optima: list[float] = []
        for position in range(len(worth[0])):
            optima.append(max(one[position] for one in worth))
            worth = [one for one in worth if one[position] >= optima[-1] - 1e-7 * max(1.0, abs(optima[-1]))]
        return optima


def squared(share: float) -> float:
    """Straight lines between the squares of 0, 1/4, 1/2, 3/4 and 1, the last of them extended."""
    piece = min(3, int(share * 4))
    low, high = piece / 4, (piece + 1) / 4
    return low**2 + (share - low) * (high**2 - low**2) / (high - low)


def faults_of(batch: Json, answer: Answer) -> list[str]:
    """What is wrong with an answer."""
    reference = Reference(batch)
    names = {entry["name"]: at for at, entry in enumerate(batch["resources"])}
    numbers = {job["name"]: at for at, job in enumerate(batch["jobs"])}
    found = {
        numbers[one.job]: tuple(
            tuple(sorted(names[name] for name in one.resources[need["name"]]))
            for need in batch["jobs"][numbers[one.job]]["dependencies"]
        )
        for one in answer.matches
    }
    if any(placement not in reference.options[job] for job, placement in found.items()):
        return ["infeasible: not eligible"]
    if not reference.fit(found, is_lenient=True):
        return ["infeasible: a capacity is exceeded"]
    if sorted([one.job for one in (*answer.matches, *answer.unmatched)]) != sorted(numbers):
        return ["a job is missing or there twice"]
    optima, wrong = reference.best(), []
    mine = [value for objective in batch["objectives"] for value in reference.values(found, objective)]
    is_first = True
    for given, value, optimum in zip(answer.objectives, mine, optima, strict=True):
        near = 1e-5 * max(1.0, abs(optimum))
        sign = -1.0 if given.name in LEAST else 1.0
        if abs(sign * given.value - value) > near:
            wrong.append(f"{given.name}: said to be {given.value}, is {value}")
        if is_first and given.bound is not None and sign * given.bound < optimum - near:
            wrong.append(f"wrong bound: {given.name} {given.bound}, where {optimum} is the optimum")
        if is_first and value < optimum - near:
            kind = "wrong proof" if answer.status == "optimal" else "not reached"
            wrong.append(f"{kind}: {given.name} {value}, where {optimum} is the optimum")
            is_first = False  # what follows is of another problem
        is_first = is_first and abs(value - optimum) <= near
    if not wrong and answer.status != "optimal":
        wrong.append("not proven")
    return wrong


def main() -> int:
    """Prints each fault with its seed, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=2.0, metavar="S")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    seed = args.seed
    while counts["batches"] < args.batches:
        batch = batch_of(seed)
        seed += 1
        if Reference(batch).size > MATCHINGS_AT_MOST:
            continue
        counts["batches"] += 1
        try:
            answer = match(read_problem(batch), clock=time.process_time, deadline_s=args.deadline)
            found = faults_of(batch, answer)
        except Exception as error:  # noqa: BLE001  # counted
            found = [f"exception: {type(error).__name__}: {error}"]
        counts.update(fault.split(":")[0] for fault in found)
        for fault in found:
            print(f"seed {seed - 1}, {AMOUNTS[(seed - 1) % len(AMOUNTS)]}: {fault[:300]}", flush=True)
    print(dict(counts), f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    return int(any(counts[kind] for kind in counts if kind not in ("batches", "not proven", "not reached")))


if __name__ == "__main__":
    sys.exit(main())
