"""Queries to a server with Prometheus's HTTP API: Prometheus, VictoriaMetrics, Mimir, Thanos."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import msgspec
import numpy as np
from msgspec import Struct

from jobsight_server.measurements.posting import NoAnswerError, post
from jobsight_server.settings.measurements import MeasurementSource
from jobsight_server.storage.readings.sample_columns import Floats

_MOST_BYTES = 64 * 2**20  # bytes of one answer
_MOST_VALUES = 20_000_000  # of all pieces of a life: 320 MB
_LARGEST = 1e24  # above any job's bytes
_ROUNDED_S = 0.001  # of times in questions
_PIECE_S = 6 * 3600.0  # of a life, in one answer
_OF_STORES = b"rpc error"  # in Thanos's errors when one of its stores is away
_OF_QUERY = ("PromQL warning", "PromQL info")  # warnings about the query, not about missing data
_MOST_STEPS = 10_000  # Prometheus gives at most 11,000 values of a series


class QueryError(Exception):
    """The server refuses the query, and would again."""


class TooMuchError(QueryError):
    """The answer is longer than Jobsight reads."""


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Values of one series, rising in time."""

    labels: Mapping[str, str]
    time: Floats
    value: Floats


class _Result(Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(Struct):
    result: list[_Result]


class _Answer(Struct):
    data: _Data
    is_partial: bool = msgspec.field(default=False, name="isPartial")  # of VictoriaMetrics in a cluster
    warnings: list[str] | None = None  # of Thanos, without one of its stores


_decoding = threading.Lock()
_decode = msgspec.json.Decoder(_Answer).decode


def scraped(source: MeasurementSource, selector: str, since: float, until: float) -> list[MetricSeries]:
    """Return the scraped values of all series that match ``selector``, queried in pieces of six hours.

    Raises:
        NoAnswerError, QueryError
    """
    found: dict[tuple[tuple[str, str], ...], list[MetricSeries]] = {}
    begin, values = since, 0
    while begin < until:
        end = min(begin + _PIECE_S, until)
        query = f"{selector}[{ceil(end - begin)}s]"
        for series in _ask(source, "query", {"query": query, "time": f"{end:.3f}"}, since, end):
            found.setdefault(tuple(sorted(series.labels.items())), []).append(series)
            values += len(series.time)
        if values > _MOST_VALUES:
            raise TooMuchError(f"{source.url} has more than {_MOST_VALUES:,} values for a query: {selector}")
        begin = end
    return [_one(parts) for parts in found.values()]


def evaluated(source: MeasurementSource, expression: str, since: float, until: float) -> list[MetricSeries]:
    """Return the values of an expression, ``source.step_s`` apart or, over a long life, further.

    Raises:
        NoAnswerError, QueryError
    """
    step_s = max(source.step_s, (until - since) / _MOST_STEPS)
    question = {"query": expression, "start": f"{since:.3f}", "end": f"{until:.3f}", "step": f"{step_s:.3f}"}
    return _ask(source, "query_range", question, since, until)


def _one(parts: list[MetricSeries]) -> MetricSeries:
    time, first = np.unique(np.concatenate([part.time for part in parts]), return_index=True)
    value = np.concatenate([part.value for part in parts])[first]
    return MetricSeries(parts[0].labels, time, value)


def _ask(
    source: MeasurementSource, what: str, question: Mapping[str, str], since: float, until: float
) -> list[MetricSeries]:
    try:
        headers = dict(source.headers)
        if source.token_file is not None:
            headers["Authorization"] = f"Bearer {source.token_file.read_text().strip()}"
        place = f"{source.url.rstrip('/')}/api/v1/{what}"
        answered = post(place, question, headers, source.timeout_s, _MOST_BYTES)
    except (OSError, NoAnswerError, ValueError) as error:
        raise NoAnswerError(f"{source.url}: {error}") from error
    if answered.status in (400, 422) and _OF_STORES not in answered.body:
        raise QueryError(f"{source.url} refuses a query ({_error_text(answered.body)}): {question['query']}")
    if answered.status != 200:
        raise NoAnswerError(f"{source.url}: HTTP {answered.status} ({_error_text(answered.body)})")
    if not answered.is_whole:
        raise TooMuchError(f"{source.url} has more than {_MOST_BYTES >> 20} MiB for a query: {question['query']}")
    try:
        # One at a time: an answer takes ten times its bytes as objects.
        with _decoding:
            answer = _decode(answered.body)
            found = [_series(result, since, until) for result in answer.data.result if result.values]
    except (msgspec.DecodeError, ValueError) as error:
        raise NoAnswerError(f"{source.url} does not answer as Prometheus does: {error}") from error
    warnings = [text for text in answer.warnings or () if not text.startswith(_OF_QUERY)]
    if answer.is_partial or warnings:
        why = warnings[0][:200] if warnings else "isPartial"
        raise NoAnswerError(f"{source.url}: a part of its storage does not answer ({why})")
    for series in found:
        if (beyond := series.value[np.abs(series.value) > _LARGEST]).size:
            raise QueryError(f"{source.url} has a value of {beyond[0]:g} for a query: {question['query']}")
    return found


def _series(result: _Result, since: float, until: float) -> MetricSeries:
    """Return the series' numeric values within the queried time, in order of time."""
    time, first = np.unique(np.array([time for time, _ in result.values], dtype=np.float64), return_index=True)
    value = np.array([float(value) for _, value in result.values], dtype=np.float64)[first]
    known = np.isfinite(value) & (time >= since - _ROUNDED_S) & (time <= until + _ROUNDED_S)
    return MetricSeries(result.metric, time[known], value[known])


def _error_text(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:300] or "no reason given"
