"""The price of a failure, which balances the waste of reservations against their failures."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Any, Self

from jobsight_predictor.forecasters import LARGEST

FIRST_PRICE = 1.5  # log price; where the price starts for USUAL failures
STEEPNESS = 2.0  # log price; how much higher it starts for each e-th of these failures
LOWEST = -4.0  # log price; lower limit: below it, the price has no effect and takes long to recover
HIGHEST = 8.0  # log price; upper limit
PACE = 0.008  # log price a failure; how fast the price follows failures: slowly, since they come in bursts
HASTE = 5.7  # factor; the first jobs move the price up to 1 + HASTE times faster
SETTLED = 200.0  # jobs; after this many, half of the haste is gone
SURPLUS = 5.0  # jobs; the price falls faster while more failures than this are missing
FALL = 5.0  # factor; how much faster
USUAL = 0.05  # share; of jobs that fail, to which FIRST_PRICE applies
MEAN_OF = 5000  # jobs; memory of the site's mean job and mean requested time


class FailurePrice:
    """A price per failed job in units of the site's mean job, in value x seconds.

    It rises a little with every failure and falls with every success, so that in the long run failures are the chosen
    share, spent where waiting for certainty would waste the most.
    """

    def __init__(self, coverage: float) -> None:
        self._coverage = coverage
        self._log_price = _first_price(coverage)
        self.mean_job = 0.0  # value x seconds
        self._n = 0
        self._mean_seconds = 1.0  # until the first job
        self._timed = 0

    def value_seconds(self) -> float:
        """The price, in value x seconds."""
        return exp(self._log_price) * self.mean_job

    def seconds(self, seconds: float | None) -> float:
        """How long a job may hold its reservation: the time it requests, or that of the mean job."""
        return seconds or self._mean_seconds

    def learn(self, value: float, seconds: float | None) -> None:
        """Learn what a job used."""
        self._n += 1
        if seconds:
            self._timed += 1
            self._mean_seconds += (seconds - self._mean_seconds) / min(self._timed, MEAN_OF)
        job = min(value * self.seconds(seconds), LARGEST)
        self.mean_job += (job - self.mean_job) / min(self._n, MEAN_OF)

    def adapt(self, failed: bool, reserved: int, excess: float) -> None:
        """Learn whether a reservation failed, the last of ``reserved``, with ``excess`` failures too many."""
        pace = PACE * (1.0 + HASTE / (1.0 + reserved / SETTLED))
        if excess < -SURPLUS:
            pace *= FALL
        self._log_price += pace * (failed - (1.0 - self._coverage))
        self._log_price = min(HIGHEST, max(LOWEST, self._log_price))

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        return {
            "coverage": self._coverage,
            "log_price": self._log_price,
            "mean_job": self.mean_job,
            "n": self._n,
            "mean_seconds": self._mean_seconds,
            "timed": self._timed,
        }

    @classmethod
    def from_state(cls, coverage: float, state: Mapping[str, Any]) -> Self:
        """The price whose ``state()`` this was, exactly; if the coverage has been changed since, a price for the new
        one."""
        restored = cls(coverage)
        restored._log_price = float(state["log_price"])
        if state["coverage"] != coverage:
            restored._log_price += _first_price(coverage) - _first_price(state["coverage"])
        restored.mean_job = float(state["mean_job"])
        restored._n = int(state["n"])
        restored._mean_seconds = float(state["mean_seconds"])
        restored._timed = int(state["timed"])
        return restored


def _first_price(coverage: float) -> float:
    return FIRST_PRICE + STEEPNESS * log(USUAL / (1.0 - coverage))
