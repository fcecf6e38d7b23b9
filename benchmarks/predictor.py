"""Forecasters side by side with River, statsforecast, pandas and statsmodels, and the whole answer to one question.

    python benchmarks/predictor.py [--jobs 122055] [--users 200] [--rounds 3] [--no-trace] [--json]

- Forecasters: every job's value is forecast from those before it, per user in order of completion, then learned.
  `one by one` asks and teaches job by job, as a server does; `replayed` takes a whole history at once. CPU seconds of
  the process, the best of some rounds in which all take turns, so that a busy moment hits none of them alone. Where a
  peer's forecasts are defined as ours are, they are compared, and a difference ends the benchmark.
- Profile: learning a workload job by job as a backtest does (submissions, ends), what `Profile.answer` takes for
  one question, and saving and restoring everything as JSON; CPU time too.

The workload is synthetic and seeded; with LANL-CM5 among the traces in JOBSIGHT_TRACES, all is done with its memory
values too. Peers that are not installed are left out: `pip install --group bench` brings them.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.evaluation.jobs import Jobs, grouped, known_when_asked
from jobsight_predictor.evaluation.replay import replay_jobsight
from jobsight_predictor.forecasters import FIVE, FORECASTERS
from jobsight_predictor.profile import Profile
from jobsight_predictor.question import Question
from jobsight_predictor.series import Series
from jobsight_scheduler.workload.backtest_jobs import jobs_of_trace
from jobsight_scheduler.workload.swf import read_swf

Floats = NDArray[np.float64]
Replay = Callable[[], list[Floats]]
Contender = tuple[str, str, str, Replay]
"""Forecaster, form, who, run."""

TRACE = "LANL-CM5-1994-4.1-cln.swf.gz"
ALPHA, WINDOW = 0.5, 5
HOLT = {"smoothing_level": ALPHA * (2 - ALPHA), "smoothing_trend": ALPHA / (2 - ALPHA)}  # Brown's, in Holt's terms


def synthetic(n: int, users: int) -> Jobs:
    """Users of uneven size with a few applications each; levels that drift and shift, noise, spikes, bursts."""
    rng = np.random.default_rng(1)
    shares = 1.0 / np.arange(1, users + 1) ** 0.9
    sizes = np.maximum(1, np.floor(shares / shares.sum() * n).astype(int))
    sizes[0] += n - sizes.sum()
    span = 2 * 365 * 86400.0
    questions: list[Question] = []
    submitted, runtimes, values = np.empty(n), np.empty(n), np.empty(n)
    first = 0
    for user, size in enumerate(sizes.tolist()):
        applications = int(rng.integers(1, 6))
        levels = rng.lognormal(17, 1.2, applications)
        noises = rng.choice([0.0, 0.02, 0.1, 0.5], applications)
        # Jobs come in bursts of one application; a burst starts anywhere in the span.
        bursts = np.cumsum(rng.random(size) < 0.1)
        application = rng.integers(0, applications, size + 1)[bursts]
        when = np.sort(rng.uniform(0, span, size + 1))[bursts] + np.arange(size) * 30.0
        level = levels[application] * np.exp(np.cumsum(rng.normal(0, 0.002, size)))
        value = level * rng.lognormal(0, 1, size) ** noises[application]
        value[rng.random(size) < 0.01] *= 20.0
        part = slice(first, first + size)
        submitted[part], values[part] = when, np.round(value)
        runtimes[part] = rng.lognormal(6, 1.5, size)
        processors = 2 ** rng.integers(0, 3, applications) * 32
        questions += [
            Question(f"u{user}", f"a{a}", f"q{a % 3}", int(processors[a]), 32e6, float(3600 * (1 + a)))
            for a in application.tolist()
        ]
        first += size
    order = np.argsort(submitted, kind="stable")
    return Jobs(
        name="synthetic",
        metric="memory",
        questions=[questions[i] for i in order.tolist()],
        submitted=submitted[order],
        ended=(submitted + runtimes)[order],
        values=values[order],
        seconds=runtimes[order],
        requested=np.full(n, 32e6),
    )


def series_of(jobs: Jobs) -> list[Floats]:
    """The values of each user in order of completion."""
    users = grouped([question.user for question in jobs.questions])
    return [jobs.values[user][known_when_asked(jobs.submitted[user], jobs.ended[user])[0]] for user in users]


def one_by_one(series: list[Floats], make: Callable[[], tuple[Callable[[], Any], Callable[[float], Any]]]) -> Replay:
    """Ask, then teach, value by value; `make` gives the `forecast` and the `learn` of a new user."""
    lists = [values.tolist() for values in series]

    def run() -> list[list[Any]]:
        said = []
        for values in lists:
            forecast, learn = make()
            answers = []
            for value in values:
                answers.append(forecast())
                learn(value)
            said.append(answers)
        return said

    return run  # type: ignore[return-value]


def jobsight(series: list[Floats]) -> Iterator[Contender]:
    for name in FIVE:

        def make(name: str = name) -> tuple[Callable[[], Any], Callable[[float], Any]]:
            forecaster = FORECASTERS[name]()
            return forecaster.forecast, forecaster.learn

        def replay(name: str = name) -> list[Floats]:
            forecaster = FORECASTERS[name]()
            return [forecaster.replay(values) for values in series]

        yield name, "one by one", "Jobsight", one_by_one(series, make)
        yield name, "replayed", "Jobsight", replay


def river(series: list[Floats]) -> Iterator[Contender]:
    """Its statistics, asked before each value; Holt's method with Brown's parameters, started from two values."""
    from river import stats, time_series, utils

    def statistic(new: Callable[[], Any]) -> Callable[[], tuple[Callable[[], Any], Callable[[float], Any]]]:
        def make() -> tuple[Callable[[], Any], Callable[[float], Any]]:
            kept = new()
            return kept.get, kept.update

        return make

    def holt() -> tuple[Callable[[], Any], Callable[[float], Any]]:
        model = time_series.HoltWinters(alpha=HOLT["smoothing_level"], beta=HOLT["smoothing_trend"])

        def forecast() -> float | None:
            return model.forecast(1)[0] if len(model.level) else None

        return forecast, model.learn_one

    yield "history", "one by one", "River", one_by_one(series, statistic(stats.Mean))
    rolling = one_by_one(series, statistic(lambda: utils.Rolling(stats.Mean, window_size=WINDOW)))
    yield "sliding-window", "one by one", "River", rolling
    yield "locality", "one by one", "River", one_by_one(series, statistic(lambda: stats.Shift(0)))
    yield "exponential", "one by one", "River", one_by_one(series, holt)


def statsforecast(series: list[Floats]) -> Iterator[Contender]:
    """Models of a whole history, fitted again for each job: they cannot learn a single value.

    Exponential is single smoothing: its Holt searches for parameters, milliseconds for each forecast.
    """
    from statsforecast import models

    def step_by_step(model: Any) -> Replay:
        def run() -> list[Floats]:
            return [
                np.array([np.nan, *(model.forecast(values[:k], 1)["mean"][0] for k in range(1, len(values)))])
                for values in series
            ]

        return run

    def fitted(model: Any) -> Replay:
        return lambda: [model.forecast(values, 1, fitted=True)["fitted"] for values in series]

    smoothing = models.SimpleExponentialSmoothing(ALPHA)
    yield "history", "one by one", "statsforecast", step_by_step(models.HistoricAverage())
    yield "sliding-window", "one by one", "statsforecast", step_by_step(models.WindowAverage(WINDOW))
    yield "locality", "one by one", "statsforecast", step_by_step(models.Naive())
    yield "exponential", "one by one", "statsforecast", step_by_step(smoothing)
    yield "locality", "replayed", "statsforecast", fitted(models.Naive())
    yield "exponential", "replayed", "statsforecast", fitted(smoothing)


def pandas(series: list[Floats]) -> Iterator[Contender]:
    """One expression a user; the exponential forecast clipped as ours is."""
    import pandas as pd

    columns = [pd.Series(values) for values in series]

    def expression(of: Callable[[Any], Any]) -> Replay:
        return lambda: [of(column).shift().to_numpy() for column in columns]

    def brown(column: Any) -> Any:
        single = column.ewm(alpha=ALPHA, adjust=False).mean()
        ahead = single - single.ewm(alpha=ALPHA, adjust=False).mean()
        return (single + ahead / (1 - ALPHA)).clip(column.cummin(), column.cummax())

    yield "history", "replayed", "pandas", expression(lambda column: column.expanding().mean())
    rolling = expression(lambda column: column.rolling(WINDOW, min_periods=1).mean())
    yield "sliding-window", "replayed", "pandas", rolling
    yield "locality", "replayed", "pandas", expression(lambda column: column)
    yield "exponential", "replayed", "pandas", expression(brown)


def statsmodels(series: list[Floats]) -> Iterator[Contender]:
    """Holt's method with Brown's parameters and start; not clipped."""
    from statsmodels.tsa.holtwinters import Holt

    def run() -> list[Floats]:
        found = []
        for values in series:
            forecasts = np.full(len(values), np.nan)
            if len(values) > 2:
                start = {"initial_level": values[0], "initial_trend": 0.0}
                model = Holt(values[1:], initialization_method="known", **start)
                forecasts[1:] = model.fit(**HOLT, optimized=False).fittedvalues
            found.append(forecasts)
        return found

    yield "exponential", "replayed", "statsmodels", run


PEERS = {"river": river, "statsforecast": statsforecast, "pandas": pandas, "statsmodels": statsmodels}
OTHERWISE_DEFINED = {("exponential", "River"), ("exponential", "statsforecast"), ("exponential", "statsmodels")}
"""Forecasts that are not ours by definition: another start, single smoothing, not clipped."""


def compare(found: list[Floats], ours: list[Floats], what: str) -> None:
    """SystemExit where forecasts differ; where either has none, as before the window is full, nothing is compared."""
    theirs, expected = np.concatenate([np.array(f[1:], dtype=float) for f in found]), np.concatenate(ours)
    both = ~np.isnan(theirs)
    if not np.allclose(theirs[both], expected[both], rtol=1e-6, atol=1e-3):
        raise SystemExit(f"{what} forecasts otherwise than Jobsight does: the comparison is not like for like")


def race(series: list[Floats], rounds: int) -> list[dict[str, Any]]:
    """Least CPU seconds of each contender over rounds in which all take turns."""
    contenders = list(jobsight(series))
    for name, peer in PEERS.items():
        if importlib.util.find_spec(name):
            contenders += peer(series)
    ours = {name: [FORECASTERS[name]().replay(values)[1:] for values in series] for name in FIVE}
    seconds = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for i, (name, form, who, run) in enumerate(contenders):
            gc.collect()
            began = time.process_time()
            found = run()
            seconds[i] = min(seconds[i], time.process_time() - began)
            if (name, who) not in OTHERWISE_DEFINED:
                compare(found, ours[name], f"{who}, {name}, {form},")
    n = sum(map(len, series))
    return [
        {"forecaster": name, "form": form, "who": who, "cpu_s": spent, "per_s": n / spent}
        for (name, form, who, _), spent in zip(contenders, seconds, strict=True)
    ]


def keep_series(series: list[Floats]) -> float:
    """CPU seconds in which the five learn everything, each scored on every value: what a server keeps of users."""
    began = time.process_time()
    for values in series:
        kept = Series()
        for value in values.tolist():
            kept.learn(value)
    return time.process_time() - began


def whole_answers(jobs: Jobs, asked: int = 10_000) -> dict[str, float]:
    """What a profile takes to learn the workload, to answer a question, to be saved and restored."""
    began = time.process_time()
    profile = replay_jobsight(jobs, "completion").profile
    learned = time.process_time()
    text = json.dumps(profile.state())
    saved = time.process_time()
    restored = Profile.from_state("", json.loads(text))
    back = time.process_time()
    rng = random.Random(1)
    took = []
    for question in rng.choices(jobs.questions, k=asked):
        start = time.thread_time_ns()  # CPU: on a machine that is shared, a question may be kept waiting for others
        profile.answer(question)
        took.append(time.thread_time_ns() - start)
    for question in rng.choices(jobs.questions, k=200):
        if restored.answer(question) != profile.answer(question):
            raise SystemExit(f"a restored profile answers otherwise than the one that was saved, to {question}")
    took.sort()
    return {
        "learn_s": learned - began,
        "save_s": saved - learned,
        "restore_s": back - saved,
        "state_bytes": len(text),
        "answer_p50_us": took[asked // 2] / 1e3,
        "answer_p99_us": took[asked * 99 // 100] / 1e3,
    }


def measure(jobs: Jobs, rounds: int) -> dict[str, Any]:
    series = series_of(jobs)
    return {
        "workload": jobs.name,
        "jobs": len(jobs),
        "users": len(series),
        "forecasters": race(series, rounds),
        "series_s": min(keep_series(series) for _ in range(rounds)),
        "profile": whole_answers(jobs),
    }


def show(found: dict[str, Any]) -> None:
    print(
        f"\n{found['workload']}: {found['jobs']:,} jobs of {found['users']} users; million job-forecasts a CPU second"
    )
    rows = {(row["form"], row["forecaster"], row["who"]): row["cpu_s"] for row in found["forecasters"]}
    names = list(dict.fromkeys(row["who"] for row in found["forecasters"]))
    print(f"{'':<28}" + "".join(f"{name:>22}" for name in names))
    for form in ("one by one", "replayed"):
        for forecaster in FIVE:
            ours = rows[form, forecaster, "Jobsight"]
            cells = [cell(found["jobs"], rows.get((form, forecaster, name)), ours) for name in names]
            print(f"{form + ', ' + forecaster:<28}" + "".join(f"{text:>22}" for text in cells))
        total = sum(rows[form, forecaster, "Jobsight"] for forecaster in FIVE)
        print(f"{form + ', all five':<28}{cell(len(FIVE) * found['jobs'], total, total):>22}")
    print(f"the five, scored, as a server keeps them: learned in {found['series_s']:.2f} CPU s")
    took = found["profile"]
    print(
        f"profile: learned in {took['learn_s']:.1f} CPU s, one answer p50 {took['answer_p50_us']:.1f} CPU us, "
        f"p99 {took['answer_p99_us']:.1f} us; state of {took['state_bytes'] / 1e6:.1f} MB saved in "
        f"{took['save_s']:.2f} CPU s, restored in {took['restore_s']:.2f}"
    )


def cell(n: int, spent: float | None, ours: float) -> str:
    """Rate, and how many times our CPU time it took."""
    if spent is None:
        return "-"
    return f"{n / spent / 1e6:.3f}" + ("" if spent == ours else f" ({spent / ours:.1f}x)")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=122_055)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-trace", action="store_true", help="the synthetic workload only")
    parser.add_argument("--json", action="store_true", help="as JSON only")
    args = parser.parse_args()
    workloads = [synthetic(args.jobs, args.users)]
    traces = Path(os.environ.get("JOBSIGHT_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
    if not args.no_trace and (traces / TRACE).exists():
        workloads.append(jobs_of_trace(read_swf(traces / TRACE), "memory", "LANL-CM5, memory"))
    results = [measure(jobs, args.rounds) for jobs in workloads]
    if not args.json:
        for found in results:
            show(found)
        if missing := [name for name in PEERS if not importlib.util.find_spec(name)]:
            print(f"not installed, left out: {', '.join(missing)}; `pip install --group bench` brings them")
    print(json.dumps({"cpus": os.cpu_count(), "load_average": os.getloadavg(), "results": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
