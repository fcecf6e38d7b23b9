"""The order and the pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jobsight_server.forecasts.record import PAGE_SIZE

Row = TypeVar("Row")


def in_order(
    rows: Iterable[Row], value: Callable[[Row], Any], tie: Callable[[Row], Any], *, descending: bool
) -> list[Row]:
    """Return ``rows`` by ``value``, equal ones by ``tie`` (ascending in either order), those without a value last."""
    ordered = sorted(rows, key=tie)
    values = [(value(row), row) for row in ordered]
    known = sorted((pair for pair in values if pair[0] is not None), key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in known] + [row for of, row in values if of is None]


def window(page: int) -> slice:
    """Return the rows of ``page``, which counts from 1."""
    return slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE)
