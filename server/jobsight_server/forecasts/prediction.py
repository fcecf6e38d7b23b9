"""A prediction for schedulers, pages and commands."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.profile.bound import Basis
from jobsight_predictor.profile.group import CANDIDATES
from jobsight_server.record import Metric, Record, Share

_EACH_OF_FIVE = {"propertyNames": {"enum": [*FIVE]}, "required": [*FIVE]}

Forecaster = Annotated[str, Meta(extra_json_schema={"enum": [*CANDIDATES]})]


class NextBest(Record):
    """The next best forecast that differs by more than 1 %."""

    value: float
    forecaster: Forecaster
    level: str


class MeanError(Record):
    """Mean relative error, each capped at 1, over the user's jobs: of the answers, and of the best single candidate."""

    jobs: int
    answered: Share
    best: Share
    best_candidate: str


class Prediction(Record):
    """What a user's next job will need in one metric, how certain that is, and its basis (docs/http-api.md)."""

    cluster: str | None
    user: str
    metric: Metric
    per: Literal["processor", "job"]
    unit: str
    value: float | None
    forecaster: Forecaster | None
    level: str | None
    n: int
    probability: Share | None
    bound: float | None
    bound_basis: Basis | None
    exceed_probability: Share | None
    coverage: Share
    observed_coverage: Share | None
    observed_cost_coverage: Share | None
    runner_up: NextBest | None
    last_values: list[float]
    reason: str | None
    mean_error: MeanError | None
    user_jobs: int
    forecasts: Annotated[dict[str, float | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    accuracy: Annotated[dict[str, Share | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    pqm: Share | None
    recent_pqm: Share | None
    updated: float | None


class Predictions(Record):
    """In the order of the questions; a question without a metric gets one for each."""

    predictions: list[Prediction]


read_prediction = msgspec.json.Decoder(Prediction).decode
