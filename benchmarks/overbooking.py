"""Overbooking decisions: CPU time per candidate place with many planned jobs, exact and fast form, and their agreement.

    python benchmarks/overbooking.py [--planned 400] [--nodes 128] [--offers 60] [--pmax .1] [--json]

A plan of overbooked jobs is filled first. Every offer is then decided in both forms on the same plan, each time with
the ends of planned jobs computed again, as if time had passed since the last offer. Times are CPU time.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from jobsight_predictor.runtime.accuracy import accuracy_of_ratios
from jobsight_predictor.runtime.success import MachineFailure
from jobsight_scheduler.overbooking.accept import AcceptanceRule, OfferDecision, RiskForm, decide
from jobsight_scheduler.overbooking.plan import Booking, BookingPlan, JobOffer
from jobsight_scheduler.overbooking.risk import ExactRisk, FastRisk


def offers(rng: np.random.Generator, count: int, nodes: int, first: int, span_h: float) -> list[JobOffer]:
    """Jobs of a power of two of nodes, up to a quarter of them, that use a beta-distributed part of their time."""
    accuracies = [accuracy_of_ratios(rng.beta(a, b, 500)) for a, b in ((0.3, 1.2), (0.5, 0.8), (0.9, 0.4))]
    found = []
    for job in range(first, first + count):
        hours, release = float(rng.choice([0.5, 1.0, 4.0, 12.0, 18.0])), float(rng.uniform(0.0, span_h))
        width = int(2 ** rng.integers(0, int(np.log2(nodes / 4)) + 1))
        accuracy = accuracies[int(rng.integers(0, 3))]
        found.append(JobOffer(job, width, hours, release, release + 5.0 * hours, accuracy, hours, hours))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planned", type=int, default=400)
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--offers", type=int, default=60)
    parser.add_argument("--pmax", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    machine, plan = MachineFailure(), BookingPlan(args.nodes)
    fill = AcceptanceRule(pmax=0.3, form="fast")
    job = 0
    while len(plan.bookings) < args.planned:
        for offer in offers(rng, 50, args.nodes, job, args.planned / 4.0):
            decision = decide(plan, offer, 0.0, fill, machine)
            if decision.place is not None and len(plan.bookings) < args.planned:
                plan.add(Booking(offer, decision.place, decision.raw_pof))
        job += 50
    asked = offers(rng, args.offers, args.nodes, 10_000_000, args.planned / 4.0)
    forms: tuple[RiskForm, ...] = ("exact", "fast")
    found: dict[str, list[OfferDecision]] = {}
    per_candidate: dict[str, float] = {}
    for form in forms:
        decide(plan, asked[0], 0.0, AcceptanceRule(pmax=args.pmax, form=form), machine)  # caches are warm
        spent, looked_at = 0.0, 0
        found[form] = []
        for offer in asked:
            begin = time.process_time()
            decision = decide(plan, offer, 0.0, AcceptanceRule(pmax=args.pmax, form=form), machine)
            spent += time.process_time() - begin
            looked_at += decision.candidates
            found[form].append(decision)
        per_candidate[form] = 1e6 * spent / max(looked_at, 1)

    # The risk of one place after another, without the search for places and without bounds that save work.
    places = [(offer, place) for offer in asked for place in _places(plan, offer)]
    values: dict[str, list[float]] = {}
    per_place: dict[str, float] = {}
    median: dict[str, float] = {}
    for name, of in (("exact", ExactRisk), ("fast", FastRisk)):
        values[name], times, last = [], [], None
        for offer, place in places:
            if offer is not last:
                risk, last = of(plan, 0.0), offer
            begin = time.process_time()
            values[name].append(risk.executable(offer, place))
            times.append(1e6 * (time.process_time() - begin))
        per_place[name], median[name] = float(np.mean(times)), float(np.median(times))
    difference = np.abs(np.array(values["exact"]) - np.array(values["fast"]))
    fine = [
        ExactRisk(plan, 0.0, 0.01).executable(offer, place) for offer, place in places[:: max(len(places) // 40, 1)]
    ]
    coarse = np.array(values["exact"])[:: max(len(places) // 40, 1)]
    below = [np.array(values[name]) > 1.0 - args.pmax for name in ("exact", "fast")]
    account = {
        "planned": len(plan.bookings),
        "candidates": sum(decision.candidates for decision in found["exact"]),
        "us_per_candidate": per_candidate,
        "us_per_place_mean": per_place,
        "us_per_place_median": median,
        "fast_is_faster_by": per_place["exact"] / per_place["fast"],
        "decisions_agree": float(
            np.mean(
                [(a.place is None) == (b.place is None) for a, b in zip(found["exact"], found["fast"], strict=True)]
            )
        ),
        "places_agree": float(np.mean(below[0] == below[1])),
        "fast_error": {"mean": float(difference.mean()), "largest": float(difference.max())},
        "grid_error_against_0.01_h": {
            "mean": float(np.abs(coarse - fine).mean()),
            "largest": float(np.abs(coarse - fine).max()),
        },
    }
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        for name, value in account.items():
            print(f"{name}: {value}")


def _places(plan: BookingPlan, offer: JobOffer):  # type: ignore[no-untyped-def]
    starts = plan.starts(offer.release_h, offer.deadline_h)
    for place in plan.places(starts, offer.nodes, offer.requested_h, offer.deadline_h):
        if place.end_h < place.start_h + offer.requested_h:
            yield place


if __name__ == "__main__":
    main()
