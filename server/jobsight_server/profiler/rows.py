"""Entries of profiles as they are counted, learned and stored."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec

from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.events import Observation, Observations
from jobsight_server.forecasts.learn import learnable
from jobsight_server.profiler.measurement import Measurement, Measurements, missing_labels
from jobsight_server.profiler.profile import ABOVE
from jobsight_server.profiler.usage import Missing

EventCounts = Counter[tuple[str, str]]


def accepted(entries: Measurements, counts: EventCounts) -> dict[str, Measurement]:
    """The entries without invalid values; missing and rejected values are counted by reason."""
    found = {metric: _refused_if_wrong(entry, counts) for metric, entry in entries.items()}
    counts["cpu_above_1.05", ""] += sum(entry.reason == ABOVE for entry in found.values())
    for metric, label in missing_labels(found).items():
        counts["profiles_missing", f"{metric}: {label}"] += 1
    return found


def observations(entries: Measurements, config: ForecastConfig, counts: EventCounts) -> Observations:
    """Per metric what is learned; None if there is nothing. Values that are only shown are counted."""
    found: Observations = {}
    for metric, entry in entries.items():
        is_evidence = entry.value is not None and config.learns(entry.attribution)
        found[metric] = Observation(entry.value or 0.0, entry.lower_bound) if is_evidence else None
        why = "lower bound" if entry.lower_bound else entry.attribution
        counts["profiles_shown_only", f"{metric}: {why}"] += entry.value is not None and not _is_learned(entry, config)
    return found


def _is_learned(entry: Measurement, config: ForecastConfig) -> bool:
    return config.learns(entry.attribution) and not entry.lower_bound


def _refused_if_wrong(entry: Measurement, counts: EventCounts) -> Measurement:
    """The entry, without its value if that is not a valid measurement, so that it is not learned."""
    if entry.value is None or learnable(entry.value):
        return entry
    kind = "negative" if entry.value < 0 else "not finite"
    counts["profiles_refused", kind] += 1
    missing = Missing(f"its value is {kind}: {entry.value!r}")
    return replace(
        entry,
        value=None,
        peak=None,
        mean=None,
        lower_bound=False,
        reason=missing.reason,
        missing=Missing(f"its value is {kind}"),
    )


def row(entry: Measurement, config: ForecastConfig) -> dict[str, Any]:
    """The columns of ``profiles`` for the measurement."""
    return {
        "value": entry.value,
        "peak": entry.peak,
        "mean": entry.mean,
        "idle_age_s": entry.idle_age_s,
        "cache": entry.cache,
        "charged_peak": entry.charged_peak,
        "fabric": entry.fabric,
        "fabrics": None if entry.fabrics is None else msgspec.json.encode(entry.fabrics).decode(),
        "source": entry.source,
        "attribution": entry.attribution,
        "reason": entry.reason,
        "shown_only": entry.value is not None and not _is_learned(entry, config),
        "lower_bound": entry.lower_bound,
    }


def forecast_of(forecast: PendingForecast, entry: Measurement) -> dict[str, Any]:
    """The columns of ``profiles`` for the forecast of what the measurement found.

    What to ask for after the bound was too little is kept where it was, or may turn out to be.
    """
    was_enough = entry.value is not None and not entry.lower_bound and entry.value <= (forecast.bound or 0.0)
    return {
        "forecast": forecast.value,
        "bound": forecast.bound,
        "probability": None if forecast.value is None else forecast.probability,
        "attempts": None if was_enough or forecast.bound is None else msgspec.json.encode(forecast.attempts).decode(),
    }
