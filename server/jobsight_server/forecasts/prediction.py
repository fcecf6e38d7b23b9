"""A prediction as it is stored, and as schedulers, pages and commands read it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.profile.answer import MeanError, RunnerUp
from jobsight_predictor.profile.group import CANDIDATES
from jobsight_predictor.profile.reserve import Basis
from jobsight_server.record import Metric, Record, Share

_EACH_OF_FIVE = {"propertyNames": {"enum": [*FIVE]}, "required": [*FIVE]}


class StoredPrediction(Record):
    """What a job will need in one metric; what it is about is the key under which it is stored."""

    unit: str
    value: float | None
    forecaster: Annotated[str, Meta(extra_json_schema={"enum": [*CANDIDATES]})] | None
    level: str | None
    n: int
    probability: Share | None
    bound: float | None
    bound_basis: Basis | None
    attempts: tuple[float, ...]
    exceed_probability: Share | None
    coverage: Share
    observed_coverage: Share | None
    observed_cost_coverage: Share | None
    runner_up: RunnerUp | None
    last_values: tuple[float, ...]
    reason: str | None
    mean_error: MeanError | None
    user_jobs: int
    forecasts: Annotated[dict[str, float | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    accuracy: Annotated[dict[str, Share | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    pqm: Share | None
    recent_pqm: Share | None
    updated: float | None


class Prediction(StoredPrediction):
    """What a user's next job will need in one metric, how certain that is, and its basis (docs/http-api.md)."""

    cluster: str | None
    user: str
    metric: Metric
    per: Literal["processor", "job"]


class Predictions(Record):
    """In the order of the questions; a question without a metric gets one for each."""

    predictions: list[Prediction]


read_stored = msgspec.json.Decoder(StoredPrediction).decode
read_prediction = msgspec.json.Decoder(Prediction).decode
