"""What a predictor may know about the jobs of a trace when they are submitted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.question import Question

from .swf import Trace


def questions_of(trace: Trace, rows: NDArray[np.intp]) -> list[Question]:
    """A question for each of ``rows``; fields missing in the trace are None. Memory is per processor."""
    processors = np.where(trace["requested_processors"] > 0.0, trace["requested_processors"], trace["processors"])
    columns = [
        _names(trace["user"][rows]),
        _names(trace["application"][rows]),
        _names(trace["queue"][rows]),
        [int(count) if count > 0.0 else None for count in processors[rows].tolist()],
        _known(asked_si(trace["requested_memory_kb"][rows], 1024.0)),
        _known(asked_si(trace["requested_s"][rows], 1.0)),
        _names(trace["group"][rows]),
    ]
    return [Question(*row) for row in zip(*columns, strict=True)]


def asked_si(requests: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Requests in SI units, NaN if there was none or it is invalid."""
    there = (requests > 0.0) & (requests <= LARGEST / unit)
    return np.where(there, requests, np.nan) * unit


def _known(numbers: NDArray[np.float64]) -> list[float | None]:
    return [None if value != value else value for value in numbers.tolist()]


def _names(numbers: NDArray[np.float64]) -> list[str | None]:
    # Every digit: users numbered beyond a million must not be merged.
    return [f"{number:.17g}" if number >= 0.0 else None for number in numbers.tolist()]
