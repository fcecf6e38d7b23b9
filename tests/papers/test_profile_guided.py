"""The profile-guided experiment's arithmetic, against figures worked out by hand and by pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jobsight_papers.profile_guided.campaign import TESTED, CampaignJobs, campaign_account, sensitivity
from jobsight_papers.profile_guided.users import PUBLISHED_PARAMETERS, forecast_series, user_account
from jobsight_predictor.evaluation.replay import UNCLIPPED
from jobsight_predictor.series import DEFAULT_PARAMETERS

Y = np.array([200.0, 200.0] + [800.0] * 12)


def test_the_exponential_forecast_of_y_overshoots_three_jobs_unclipped_and_none_clipped() -> None:
    found = forecast_series(Y, DEFAULT_PARAMETERS)
    # The vector of the definitions: 200, 200, 800, 950, 950, 912.5, 875, 846.875.
    expected = [200, 200, 800, 950, 950, 912.5, 875, 846.875]
    assert found.forecasts[UNCLIPPED][1:9] == pytest.approx(expected)
    assert max(found.forecasts["exponential"][1:]) == 800.0
    account = user_account(Y, DEFAULT_PARAMETERS)
    assert account["overshoots"] == 3  # 950, 950, 912.5; 875 is within 10 %
    assert account["pqm"] == pytest.approx(2 / 14)


def test_a_user_s_account_is_over_the_last_ten_jobs() -> None:
    values = np.random.default_rng(1).lognormal(4.0, 0.3, 30)
    account = user_account(values, PUBLISHED_PARAMETERS)
    series = pd.Series(values)
    said = {
        "sliding-window": series.rolling(6, min_periods=1).mean().shift(),
        "history": series.expanding().mean().shift(),
        "locality": series.shift(),
    }
    for name, forecasts in said.items():
        accuracy = (1 - (forecasts - series).abs() / series).clip(lower=0)[-10:].mean()
        assert account["forecasters"][name]["accuracy"] == pytest.approx(accuracy)
    assert account["forecasters"]["sliding-window"]["next"] == pytest.approx(values[-6:].mean())
    assert user_account(values[:1], PUBLISHED_PARAMETERS)["forecasters"]["locality"]["accuracy"] is None
    with pytest.raises(ValueError, match="no values"):
        forecast_series(values[:0], PUBLISHED_PARAMETERS)


def campaign() -> CampaignJobs:
    """Two users: one alike, one that alternates between 1 and 3; 60 jobs in turn."""
    values = [100.0 if i % 2 == 0 else (1.0 if i % 4 == 1 else 3.0) for i in range(60)]
    return CampaignJobs(tuple("alike" if i % 2 == 0 else "other" for i in range(60)), np.array(values))


def test_the_campaign_tests_the_last_jobs_of_all_users_on_their_own_histories() -> None:
    found = campaign_account(campaign(), DEFAULT_PARAMETERS)
    assert (found["tested"], found["users"], found["users_above"]) == (TESTED, 2, 1)
    assert (found["without_forecast"], found["tested_above"]) == (0, 25)
    last = found["forecasters"]["locality"]
    assert last["accuracy_above"] == 1.0
    # A 3 forecast as 1 is a third right, a 1 forecast as 3 not at all; the tested 25 have 12 or 13 of each.
    is_three = [i % 4 == 3 for i in range(10, 60) if i % 2]
    assert last["accuracy"] == pytest.approx((1.0 + sum(is_three) / 3 / 25) / 2)
    # Frozen after ten jobs, of which the other user's last was a 1: right for each 1, a third right for each 3.
    assert last["accuracy_frozen"] == pytest.approx((25 + (25 - sum(is_three)) + sum(is_three) / 3) / 50)


def test_sensitivity_at_the_default_is_the_campaign_s_accuracy() -> None:
    found, account = sensitivity(campaign()), campaign_account(campaign(), DEFAULT_PARAMETERS)
    assert found["window"][4] == pytest.approx(account["forecasters"]["sliding-window"]["accuracy"])
    assert found["window"][0] == pytest.approx(account["forecasters"]["locality"]["accuracy"])
