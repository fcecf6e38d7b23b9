"""Sources of bandwidth by the names that commands use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobsight_predictor.forecasters import FIVE, FORECASTERS

from .bandwidth import Bandwidth, PerUser, Predicted, Stated
from .drawn import Drawn

SOURCES = ("user", "predicted", "oracle", *FIVE)


@dataclass(frozen=True, slots=True)
class Error:
    """Numbers are ``bias`` times too large, and scattered: ``noise`` is the standard deviation of their logarithm."""

    bias: float = 1.0
    noise: float = 0.0


TRUE = Error()


def source(name: str, drawn: Drawn, error: Error = TRUE, seed: int = 0, by_mean: bool = False) -> Bandwidth:
    """The source ``name`` for the jobs ``drawn``. ``error`` is in what users state, and in what the oracle says.

    ``by_mean``: predictors learn the mean over a job's life, not its best interval.

    Raises:
        ValueError: no such source, or an error that is none.
    """
    if not (0.0 < error.bias < np.inf and 0.0 <= error.noise < np.inf):
        raise ValueError(f"estimates cannot be {error.bias} times too large with noise {error.noise}")
    if name not in SOURCES:
        raise ValueError(f"nobody called {name!r} tells bandwidth; choose from {', '.join(SOURCES)}")
    told = drawn.work.bandwidth_bps if name == "oracle" else drawn.stated_bps
    rng = np.random.default_rng([seed, 1])
    stated = (told * error.bias * np.exp(error.noise * rng.standard_normal(len(told)))).tolist()
    if name in ("user", "oracle"):
        return Stated(stated)
    if name == "predicted":
        return Predicted(drawn.questions, stated, by_mean)
    return PerUser([question.user for question in drawn.questions], stated, FORECASTERS[name], by_mean)
