"""Settings that may differ by metric: ``5 memory=8`` is 8 for memory and 5 for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import BINS_AT_MOST, WINDOW_AT_MOST

if TYPE_CHECKING:
    from jobsight_predictor.forecasters.parameters import FiveParameters


def parse_counts(texts: Sequence[str], most: int) -> dict[str | None, int]:
    """Whole numbers from 1 to ``most`` by metric; None is for the metrics without one of their own.

    >>> parse_counts(["5", "memory=8"], 100)
    {None: 5, 'memory': 8}

    Raises:
        ValueError: a text is not a number or METRIC=NUMBER, or there are two for one metric.
    """
    found = {}
    for metric, text in _split(texts):
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
            raise ValueError(f"{text[:60]!r} is not a whole number from 1 to {most}")
        found[metric] = int(text)
    return found


def parse_alphas(texts: Sequence[str]) -> dict[str | None, float]:
    """Numbers above 0 and below 1 by metric, as ``parse_counts``.

    Raises:
        ValueError: a text is not a number or METRIC=NUMBER, or there are two for one metric.
    """
    found = {}
    for metric, text in _split(texts):
        try:
            alpha = float(text)
        except ValueError:
            alpha = 0.0
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"{text[:60]!r} is not a number above 0 and below 1")
        found[metric] = alpha
    return found


def five_parameters(window: Sequence[str], bins: Sequence[str], alpha: Sequence[str]) -> dict[str, FiveParameters]:
    """The parameters of the published five for each metric; what no text gives is the default.

    Raises:
        ValueError: one of the texts is invalid.
    """
    # Imported where it is needed: a command that only reads settings does without numpy.
    from jobsight_predictor.forecasters.parameters import FiveParameters

    windows, all_bins, alphas = (
        parse_counts(window, WINDOW_AT_MOST),
        parse_counts(bins, BINS_AT_MOST),
        parse_alphas(alpha),
    )
    found = {}
    for metric in METRICS:
        given: dict[str, Any] = {
            name: values.get(metric, values.get(None))
            for name, values in (("window", windows), ("bins", all_bins), ("alpha", alphas))
        }
        found[metric] = FiveParameters(**{name: value for name, value in given.items() if value is not None})
    return found


def _split(texts: Sequence[str]) -> list[tuple[str | None, str]]:
    found: list[tuple[str | None, str]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        metric = name.strip() if equals else None
        if metric is not None and metric not in METRICS:
            raise ValueError(f"{text[:60]!r}: no metric {metric[:60]!r}; choose from {', '.join(METRICS)}")
        if metric in {known for known, _ in found}:
            raise ValueError(f"{text[:60]!r}: there are two numbers for {metric or 'the same metrics'}")
        found.append((metric, (value if equals else name).strip()))
    return found
