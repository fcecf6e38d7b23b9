"""The parameters of the published five: window, bins and alpha."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Forecaster
from .exponential import Exponential
from .history import History
from .locality import Locality
from .sliding_window import SlidingWindow
from .weighted import CELLS_PER_BIN, Weighted

WINDOW_AT_MOST = 1000  # values
BINS_AT_MOST = 200
_POINTS = 500  # values; kept by the weighted mean of the usual bins


@dataclass(frozen=True, slots=True)
class FiveParameters:
    """``window`` of the sliding window, ``bins`` of the weighted mean, ``alpha`` of the exponential smoothing.

    Raises:
        ValueError: one of them is out of bounds; the message names it.
    """

    window: int = 5
    bins: int = 10
    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.window <= WINDOW_AT_MOST:
            raise ValueError(f"window is {self.window}: give 1 to {WINDOW_AT_MOST} values")
        if not 1 <= self.bins <= BINS_AT_MOST:
            raise ValueError(f"bins is {self.bins}: give 1 to {BINS_AT_MOST}")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError(f"alpha is {self.alpha}: give a number above 0 and below 1")


DEFAULT_PARAMETERS = FiveParameters()


def make_five(parameters: FiveParameters = DEFAULT_PARAMETERS) -> dict[str, Forecaster]:
    """Make the published five with these parameters, by name in their published order."""
    memory = max(_POINTS, CELLS_PER_BIN * parameters.bins)
    return {
        "history": History(),
        "sliding-window": SlidingWindow(parameters.window),
        "weighted": Weighted(parameters.bins, memory),
        "locality": Locality(),
        "exponential": Exponential(parameters.alpha),
    }
