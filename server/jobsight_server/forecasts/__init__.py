"""Forecasts for every user. Learning them, ``rounds``, is loaded where it is used."""

from __future__ import annotations

from jobsight_server.forecasts.prediction import AnswerReader, Prediction
from jobsight_server.forecasts.request import ForecastConfig, ForecastRequest, forecast_config

__all__ = ["AnswerReader", "ForecastConfig", "ForecastRequest", "Prediction", "forecast_config"]
