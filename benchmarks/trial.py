"""Coverage of the intervals of `jobsight trial`: how often they hold an effect that was planted.

    python benchmarks/trial.py [--repeats 200]

Users differ in how much they run (a few run most jobs) and in what their jobs need; changed jobs get less memory, wait
less and fail more, each user's by another amount. The interval over users stands beside Welch's, which
takes jobs for independent.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.evaluation.trial import difference

Values = NDArray[np.float64]
MEASURES = ("memory", "waiting", "failures")


def site(rng: np.random.Generator, users: int, effect: float) -> tuple[dict[str, Values], NDArray[np.bool_], list[str]]:
    """The values of each measure, the arms, and the users of all jobs."""
    values: dict[str, list[Values]] = {name: [] for name in MEASURES}
    arms, names = list[NDArray[np.bool_]](), list[str]()
    for user in range(users):
        count = 1 + int(rng.lognormal(2.0, 1.2))
        treated = rng.random(count) < 0.5
        own = rng.uniform(0.5, 1.5) * effect * treated
        values["memory"].append(rng.lognormal(2.0, 1.0) * rng.lognormal(0.0, 0.3, count) - 4.0 * own)
        values["waiting"].append(rng.exponential(3600.0) * rng.uniform(0.5, 1.5, count) + 2000.0 - 600.0 * own)
        values["failures"].append((rng.random(count) < rng.uniform(0.0, 0.08) + 0.05 * own).astype(float))
        arms.append(treated)
        names += [f"u{user}"] * count
    return {name: np.concatenate(found) for name, found in values.items()}, np.concatenate(arms), names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    args = parser.parse_args()
    truth = {"memory": -4.0, "waiting": -600.0, "failures": 0.05}
    print("users effect measure   held of 100   Welch, of 100      mean width   shows an effect, of 100")
    for users in (10, 30, 100):
        for effect in (1.0, 0.0):
            held, naive, shown, widths = ({name: [] for name in MEASURES} for _ in range(4))
            for repeat in range(args.repeats):
                found, arms, names = site(np.random.default_rng([users, int(effect), repeat]), users, effect)
                for name in MEASURES:
                    one = difference(list(found[name]), list(arms), names)
                    if one is None or one.low is None or one.high is None:
                        continue
                    planted = truth[name] * effect
                    held[name].append(one.low <= planted <= one.high)
                    shown[name].append(not one.low <= 0.0 <= one.high)
                    widths[name].append(one.high - one.low)
                    both = [found[name][arms], found[name][~arms]]
                    error = np.sqrt(sum(part.var(ddof=1) / len(part) for part in both if len(part) > 1))
                    naive[name].append(abs(one.treated - one.control - planted) <= 1.96 * error)
            for name in MEASURES:
                print(
                    f"{users:5} {effect:6.0f} {name:9} {100 * np.mean(held[name]):11.1f} "
                    f"{100 * np.mean(naive[name]):19.1f} "
                    f"{np.mean(widths[name]):12.4g} {100 * np.mean(shown[name]):15.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
