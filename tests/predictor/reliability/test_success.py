"""How a machine's job ends become the chance that it does not fail a job."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, norm

from jobsight_predictor.reliability.fading import faded
from jobsight_predictor.reliability.resource_vector import JobEnd
from jobsight_predictor.reliability.success import both, chance_not_to_fail, with_end
from jobsight_predictor.reliability.survival import Chances

DAY = 86_400.0


def after(*ends: tuple[JobEnd, int], quiet_days: float = 0.0) -> tuple[float, float]:
    sound = failed = 0.0
    for end, count in ends:
        for _ in range(count):
            sound, failed = with_end(sound, failed, end, 0.0)
    return sound * faded(quiet_days * DAY), failed * faded(quiet_days * DAY)


def beside_others(own: tuple[float, float], others: tuple[float, float]) -> float:
    """The machine's chance over that of ten others, which are alike."""
    sound, failed = np.array([own, *[others] * 10]).T
    chance = chance_not_to_fail(sound, failed).mean
    return float(chance[0] / chance[1])


@pytest.mark.parametrize("failures", [40, 400, 10_000])
def test_a_black_hole_recovers_within_thirty_quiet_days_whatever_it_took(failures: int) -> None:
    others = after(("success", 40))
    assert beside_others(after(("failed", failures)), others) < 0.3
    quiet = after(("success", 40), quiet_days=30.0)
    assert beside_others(after(("failed", failures), quiet_days=30.0), quiet) > 0.8


@pytest.mark.parametrize("good", [0, 40, 10_000])
def test_a_good_past_hides_no_black_hole(good: int) -> None:
    others = after(("success", 10_000))
    assert beside_others(after(("success", good)), others) > 0.95
    assert beside_others(after(("success", good), ("failed", 40)), others) < 0.5


def test_what_says_nothing_of_the_machine_changes_nothing() -> None:
    for end in ("evicted", "requeued", "user-failed"):
        assert with_end(3.0, 4.0, end, 0.0) == (3.0, 4.0)


def test_jobs_of_long_ago_count_as_if_they_had_been_counted_then() -> None:
    assert with_end(0.0, 0.0, "failed", 7 * DAY) == (0.0, 0.5)


def test_the_interval_is_the_normal_one_of_the_beta_distribution_within_0_and_1() -> None:
    """Of eight in ten jobs' chances, against scipy; both ends are cut where they leave 0 to 1."""
    for black_holes in (0, 20):
        sound = np.array([30.0, 2.0, 0.0, 400.0, *[0.0] * black_holes])
        failed = np.array([10.0, 0.0, 0.0, 0.0, *[300.0] * black_holes])
        # The mean of those with jobs, and of one that never failed.
        prior = (30.0 / 40.0 + 1.0 + 1.0 + 1.0) / (4.0 + black_holes)
        spread = beta(sound + 8.0 * prior, failed + 8.0 * (1.0 - prior))
        chances = chance_not_to_fail(sound, failed)
        assert chances.mean == pytest.approx(spread.mean())
        half = norm.ppf(0.9) * spread.std()
        assert chances.low == pytest.approx(np.maximum(spread.mean() - half, 0.0), abs=1e-3)
        assert chances.high == pytest.approx(np.minimum(spread.mean() + half, 1.0), abs=1e-3)
        assert chances.low[-1] == 0.0 if black_holes else chances.high[1] == 1.0
        assert chances.known.tolist() == [True, True, False, *[True] * (1 + black_holes)]


def test_both_happen_with_the_product_of_their_chances() -> None:
    one, other = (
        Chances(*np.array([[mean], [low], [high]]), np.array([known]))
        for mean, low, high, known in ((0.5, 0.4, 0.6, True), (0.8, 0.5, 0.9, False))
    )
    assert [column.tolist() for column in both(one, other)] == [[0.4], [0.2], [0.54], [True]]
