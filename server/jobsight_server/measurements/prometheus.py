"""Questions to a server that speaks Prometheus's HTTP API: Prometheus, VictoriaMetrics, Mimir, Thanos."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from math import ceil
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import msgspec
import numpy as np
from msgspec import Struct

from jobsight_server.settings.measurements import MeasurementSource
from jobsight_server.storage.sample_columns import Floats

_MOST_BYTES = 64 * 2**20  # of one answer
_PIECE_S = 6 * 3600.0  # of a life, in one answer
_MOST_STEPS = 10_000  # Prometheus gives at most 11,000 values of a series


class UnavailableError(Exception):
    """It does not answer now, or not to us; it may later."""


class QueryError(Exception):
    """It refuses the question, and would again."""


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


_decode = msgspec.json.Decoder(_Answer).decode


def scraped(source: MeasurementSource, selector: str, since: float, until: float) -> list[MetricSeries]:
    """The values of all series that match ``selector``, as scraped, asked for in pieces of six hours.

    Raises:
        UnavailableError, QueryError
    """
    found: dict[tuple[tuple[str, str], ...], list[MetricSeries]] = {}
    begin = since
    while begin < until:
        end = min(begin + _PIECE_S, until)
        query = f"{selector}[{ceil(end - begin)}s]"
        for series in _ask(source, "query", {"query": query, "time": f"{end:.3f}"}):
            found.setdefault(tuple(sorted(series.labels.items())), []).append(series)
        begin = end
    return [_one(parts, since) for parts in found.values()]


def evaluated(source: MeasurementSource, expression: str, since: float, until: float) -> list[MetricSeries]:
    """The values of an expression, ``source.step_s`` apart or, over a long life, further.

    Raises:
        UnavailableError, QueryError
    """
    step_s = max(source.step_s, (until - since) / _MOST_STEPS)
    question = {"query": expression, "start": f"{since:.3f}", "end": f"{until:.3f}", "step": f"{step_s:.3f}"}
    return _ask(source, "query_range", question)


def _one(parts: list[MetricSeries], since: float) -> MetricSeries:
    time, first = np.unique(np.concatenate([part.time for part in parts]), return_index=True)
    value = np.concatenate([part.value for part in parts])[first]
    return MetricSeries(parts[0].labels, time[time >= since], value[time >= since])


def _ask(source: MeasurementSource, what: str, question: Mapping[str, str]) -> list[MetricSeries]:
    place = f"{source.url.rstrip('/')}/api/v1/{what}"
    try:
        request = Request(place, urlencode(question).encode(), dict(source.headers))
        if source.token_file is not None:
            request.add_header("Authorization", f"Bearer {source.token_file.read_text().strip()}")
        with urlopen(request, timeout=source.timeout_s) as answer:
            body = answer.read(_MOST_BYTES + 1)
    except HTTPError as error:
        said = _said(error.read(10_000))
        if error.code in (400, 422):
            raise QueryError(f"{source.url} refuses a query ({said}): {question['query']}") from error
        raise UnavailableError(f"{source.url}: HTTP {error.code} ({said})") from error
    except (OSError, HTTPException, ValueError) as error:
        raise UnavailableError(f"{source.url}: {error}") from error
    if len(body) > _MOST_BYTES:
        raise QueryError(f"{source.url} has more than {_MOST_BYTES >> 20} MiB for a query: {question['query']}")
    try:
        results = _decode(body).data.result
        return [_series(result) for result in results if result.values]
    except (msgspec.DecodeError, ValueError) as error:
        raise UnavailableError(f"{source.url} does not answer as Prometheus does: {error}") from error


def _series(result: _Result) -> MetricSeries:
    time = np.array([time for time, _ in result.values], dtype=np.float64)
    value = np.array([float(value) for _, value in result.values], dtype=np.float64)
    known = np.isfinite(value)
    return MetricSeries(result.metric, time[known], value[known])


def _said(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()[:300] or "no reason given"
