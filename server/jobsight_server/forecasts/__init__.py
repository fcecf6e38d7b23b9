"""Forecasts for every user: learning and answering."""

from __future__ import annotations

from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.reader import AnswerReader
from jobsight_server.forecasts.request import ForecastConfig, ForecastRequest, forecast_config
from jobsight_server.forecasts.rounds import rebuild, rebuild_if_outdated, report

__all__ = [
    "AnswerReader",
    "ForecastConfig",
    "ForecastRequest",
    "Prediction",
    "forecast_config",
    "rebuild",
    "rebuild_if_outdated",
    "report",
]
