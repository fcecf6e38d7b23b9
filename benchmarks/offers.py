"""Offers: CPU time of the acceptance test, the plan page and a cold start, with many planned jobs.

python benchmarks/offers.py [--jobs 400 1000 3000] [--nodes 128] [--strategy jobsight]
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

import numpy as np

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import accuracy_of_ratios
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.migrate import upgrade
from jobsight_server.systems.offers.config import PlanConfig
from jobsight_server.systems.offers.offer import PlaceAnswer, PlaceRequest, answer_request
from jobsight_server.systems.offers.queries import plan_of
from jobsight_server.systems.offers.standing_plan import PlaceSeller, StandingPlans

NOW = 1.7e9
SAMPLE = 60


class Site:
    """A plan of its own in a new database."""

    def __init__(self, folder: Path, nodes: int, strategy: str) -> None:
        self.engine = open_engine(f"sqlite:///{folder / 'offers.db'}")
        upgrade(self.engine)
        self.nodes, self.now, self.asked = nodes, NOW, 0
        self.config = PlanConfig(strategy=strategy, max_failure=0.2, hold_s=1e7, nodes={"alpha": nodes})  # type: ignore[arg-type]
        self.plans = StandingPlans()
        self._rng = random.Random(1)
        self._accuracies = [accuracy_of_ratios(np.random.default_rng(i).beta(0.6, 1.6, 400)) for i in range(20)]

    def ask(self) -> tuple[float, PlaceAnswer]:
        """CPU seconds of one request, without the commit, and its answer."""
        rng = self._rng
        self.now += 1
        self.asked += 1
        release = self.now + rng.expovariate(1 / 43_200)
        requested_s = rng.choice([1800, 3600, 7200, 14_400, 28_800])
        request = PlaceRequest(
            "alpha",
            self.nodes,
            Question(user=f"u{self.asked % 50}"),
            rng.choice([1, 1, 2, 4, 8, 16]),
            requested_s,
            release,
            release + requested_s * 2 + 20 * 86_400,
        )
        with self.engine.begin() as connection:
            begun = time.process_time()
            accuracy = self._accuracies[self.asked % 20]
            answer = answer_request(connection, self.plans, self.config, request, accuracy, self.now)
            return time.process_time() - begun, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[400, 1000, 3000])
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--strategy", default="jobsight")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.0f}; {args.nodes} nodes, {args.strategy}; milliseconds of CPU")
    print("| planned jobs | request, median | request, p95 | candidates, mean | plan | cold start |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        site, accepted = Site(Path(folder), args.nodes, args.strategy), 0
        for wanted in args.jobs:
            times: list[float] = []
            candidates: list[int] = []
            while accepted < wanted:
                seconds, answer = site.ask()
                times.append(seconds)
                candidates.append(answer.candidates)
                accepted += answer.number is not None
            last = 1e3 * np.array(times[-SAMPLE:])
            with site.engine.connect() as connection:
                begun = time.process_time()
                plan_of(connection, PlaceSeller(site.config, site.plans), "alpha", site.now)
                page = time.process_time() - begun
                begun = time.process_time()
                StandingPlans().of(connection, "alpha", args.nodes, site.now)
                cold = time.process_time() - begun
            figures = (np.median(last), np.percentile(last, 95), np.mean(candidates[-SAMPLE:]), 1e3 * page, 1e3 * cold)
            print(f"| {wanted:,} | " + " | ".join(f"{figure:.0f}" for figure in figures) + " |", flush=True)
        site.engine.dispose()


if __name__ == "__main__":
    main()
