"""A linear regression of the next value on the last few, fitted by statsmodels."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .base import LARGEST, Forecaster, refusal


class Autoregressive(Forecaster):
    """``y_t = c + sum_k phi_k y_(t-k)`` over ``lags`` lags, by least squares over the last ``memory`` values.

    Fitted again after each quarter of the memory: between fits a forecast is a sum of ``lags`` products. Clipped to
    the range of the values remembered; the last value until there are ``4 lags`` of them.
    """

    __slots__ = ("_coefficients", "_lags", "_since_fit", "_values")

    def __init__(self, lags: int = 3, memory: int = 200) -> None:
        if lags < 1 or memory < 8 * lags:
            raise ValueError(f"lags is {lags}, memory {memory}: at least 1 lag and 8 values for each are needed")
        self._lags = lags
        self._values: deque[float] = deque(maxlen=memory)
        self._coefficients: list[float] = []  # constant first; empty until the first fit
        self._since_fit = 0

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._values.append(value)
        self._since_fit += 1
        enough = 4 * self._lags if not self._coefficients else (self._values.maxlen or 0) // 4
        if self._since_fit >= enough:
            self._fit()

    def forecast(self) -> float | None:
        values = self._values
        if not values:
            return None
        if not self._coefficients:
            return values[-1]
        line = self._coefficients[0]
        for lag in range(1, self._lags + 1):
            line += self._coefficients[lag] * values[-lag]
        if not math.isfinite(line):  # products of values near the largest double
            return values[-1]
        return min(max(line, min(values)), max(values))

    def state(self) -> dict[str, Any]:
        return {
            "lags": self._lags,
            "memory": self._values.maxlen,
            "values": list(self._values),
            "coefficients": list(self._coefficients),
            "since_fit": self._since_fit,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        restored = cls(int(state["lags"]), int(state["memory"]))
        restored._values.extend(state["values"])
        restored._coefficients = list(state["coefficients"])
        restored._since_fit = int(state["since_fit"])
        return restored

    def fresh(self) -> Self:
        return type(self)(self._lags, self._values.maxlen or 0)

    def _fit(self) -> None:
        # Importing statsmodels takes a second: only fitting pays for it.
        from statsmodels.tools.sm_exceptions import SingularMatrixWarning
        from statsmodels.tsa.ar_model import AutoReg

        series = np.array(self._values)
        top = float(series.max())
        self._since_fit = 0
        if float(series.min()) == top:
            self._coefficients = [top] + [0.0] * self._lags
            return
        # Scaled to 1, so that squares of huge or tiny values stay normal numbers.
        with warnings.catch_warnings():
            # A series that was constant for a while has many equally good fits: any of them will do.
            warnings.simplefilter("ignore", SingularMatrixWarning)
            fit = AutoReg(series / top, lags=self._lags, trend="c").fit()
        constant, *slopes = (float(parameter) for parameter in fit.params)
        self._coefficients = [constant * top, *slopes]
