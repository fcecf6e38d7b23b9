"""How large the model of a site with many users becomes: synthetic jobs, one metric, learned as a server does.

    python benchmarks/model_size.py [--jobs N] [--users N] [--years Y] [--odd SHARE] [--json]

Each user has a few applications, of uneven popularity, and each application a few habitual requests (processors, memory
and time); a share of jobs (`--odd`) requests a time like no other. Prints the parts of the model, their size as stored
(keys and MessagePack) and the CPU a job, at eight times on the way.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator

import msgspec

from jobsight_predictor.profile import Profile
from jobsight_predictor.question import Question

START = 1_700_000_000.0
YEAR_S = 365.25 * 86400.0
GB = 1e9


def jobs(count: int, users: int, years: float, odd: float) -> Iterator[tuple[float, Question, float]]:
    """Time of the end, question and memory of each job."""
    rng = random.Random(1)
    for number in range(count):
        user = min(int(rng.paretovariate(0.7)), users) if rng.random() < 0.5 else rng.randrange(users)
        application = min(int(rng.paretovariate(1.0)), 12)
        habit = random.Random(user * 1000 + application * 10 + min(int(rng.paretovariate(1.5)), 4))
        processors, memory = 2 ** habit.randrange(7), habit.choice([1, 2, 4, 8]) * GB
        time_s = float(rng.randrange(600, 86_400)) if rng.random() < odd else habit.choice([1, 4, 12, 24]) * 3600.0
        queue = habit.choice(["batch", "long", "short"])
        question = Question(f"user{user}", f"app{application}", queue, processors, memory, time_s)
        used = memory * habit.uniform(0.1, 0.9) * rng.lognormvariate(0.0, 0.2)
        yield START + number / count * years * YEAR_S, question, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300_000, help="default %(default)s")
    parser.add_argument("--users", type=int, default=5000, help="default %(default)s")
    parser.add_argument("--years", type=float, default=3.0, help="in which they end (default %(default)s)")
    parser.add_argument("--odd", type=float, default=0.05, help="share with a time of their own (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    profile, found = Profile("bytes per processor", metric="memory"), []
    began = time.process_time()
    for number, (at, question, used) in enumerate(jobs(args.jobs, args.users, args.years, args.odd), 1):
        profile.learn(question, used, profile.forecast_job(question), 3600.0, at=at)
        if number % (args.jobs // 8) == 0:
            spent = time.process_time() - began
            state = profile.state()
            size = sum(len(key) + len(msgspec.msgpack.encode(part.state)) for key, part in state.items())
            found.append(
                {"jobs": number, "parts": len(state), "megabytes": size / 1e6, "us": spent / (args.jobs // 8) * 1e6}
            )
            if not args.json:
                last = found[-1]
                print(f"{number:,} jobs: {len(state):,} parts, {last['megabytes']:.1f} MB, {last['us']:.0f} µs each")
            began = time.process_time()
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
