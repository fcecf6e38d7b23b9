"""``profile-guided --tune`` on workloads whose best parameters are known."""

from __future__ import annotations

import numpy as np

from jobsight_papers.profile_guided.tune import confirmed
from jobsight_papers.profile_guided.tuning import GRID, tune_parameter
from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.question import Question


def jobs_of(values: np.ndarray, users: list[str]) -> Jobs:
    n = len(values)
    times = np.arange(n, dtype=np.float64)
    questions = [Question(user=user) for user in users]
    return Jobs("t", "memory", questions, times, times, values, np.ones(n), np.full(n, np.nan))


def noisy(n: int, users: int) -> Jobs:
    """Every job the same but for noise: the longer the memory, the better."""
    rng = np.random.default_rng(7)
    return jobs_of(100.0 + 20.0 * rng.standard_normal(n), [f"u{i % users}" for i in range(n)])


def wandering(n: int, users: int) -> Jobs:
    """Random walks: the last value is the best forecast."""
    rng = np.random.default_rng(7)
    logs = np.cumsum(0.3 * rng.standard_normal((n // users, users)), axis=0)
    return jobs_of(np.exp(logs).ravel(), [f"u{i % users}" for i in range(n)])


def test_noise_wants_a_long_memory_and_walks_a_short_one() -> None:
    window, alpha = (tune_parameter(noisy(3000, 6), "completion", name) for name in ("window", "alpha"))
    assert window.chosen >= 30
    assert alpha.chosen <= 0.1
    assert window.helps
    assert alpha.helps
    window, alpha = (tune_parameter(wandering(3000, 6), "completion", name) for name in ("window", "alpha"))
    assert window.chosen == 1
    assert window.helps
    assert alpha.chosen >= 0.5
    assert [value for value, _ in window.tried] == list(GRID["window"])


def test_what_the_later_jobs_do_not_confirm_is_not_recommended() -> None:
    # The earlier jobs are noise, the later ones walks: a long window is chosen, and is worse.
    calm, walks = noisy(2100, 6), wandering(900, 6)
    both = jobs_of(
        np.concatenate([calm.values, walks.values]), [str(q.user) for q in (*calm.questions, *walks.questions)]
    )
    window = tune_parameter(both, "completion", "window")
    assert window.chosen > 5
    assert window.gain < 0.0
    assert not window.helps
    line = {"helps": window.helps, "chosen": window.chosen, "default": 5.0}
    same = {"helps": False, "chosen": 10.0, "default": 10.0}
    assert confirmed({"memory": {"parameters": {"window": line, "bins": same, "alpha": same}}}) == {}
