"""Forecasts for every user: learning, answering, history."""

from __future__ import annotations

from jobsight_server.forecasts.history import history
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.reader import AnswerReader
from jobsight_server.forecasts.rebuild import rebuild, rebuild_if_outdated
from jobsight_server.forecasts.report import report
from jobsight_server.forecasts.request import ForecastConfig, ForecastRequest, forecast_config

__all__ = [
    "AnswerReader",
    "ForecastConfig",
    "ForecastRequest",
    "Prediction",
    "forecast_config",
    "history",
    "rebuild",
    "rebuild_if_outdated",
    "report",
]
