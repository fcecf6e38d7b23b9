"""The last value again (docs/use/definitions.md, Locality)."""

from __future__ import annotations

from jobsight_predictor.forecasters.base import LARGEST, Forecaster, refusal


class Locality(Forecaster):
    """The value of the job that ended last."""

    __slots__ = ("_last",)
    kept = ("last",)

    def __init__(self) -> None:
        self._last: float | None = None

    def learn(self, value: float) -> None:
        if not 0.0 <= value <= LARGEST:
            raise refusal(value)
        self._last = value

    def forecast(self) -> float | None:
        return self._last
