"""Typed records, the source of an answer's JSON and its OpenAPI description, and pages of lists of them.

A reader asks for an order, and for a page by its number or by a cursor.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Meta
from sqlalchemy import Row

from jobsight_predictor.metrics import METRICS
from jobsight_server.ground.errors import RefusedError

Entry = TypeVar("Entry")

Share = Annotated[float, Meta(ge=0, le=1)]
Metric = Annotated[str, Meta(extra_json_schema={"enum": [*METRICS]})]


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """A record with exactly these fields. Times are UTC epoch seconds, units are in names; None means no value."""

    @classmethod
    def of_row(cls, row: Row[*tuple[Any, ...]], **more: Any) -> Self:
        """Make the record from the columns of ``row``, or from ``more`` by name."""
        columns = row._mapping
        return cls(**{name: more[name] if name in more else columns[name] for name in cls.__struct_fields__})


PAGE_SIZE = 50


class Page(Record):
    """The position in a list; ``page`` counts from 1, ``total`` is the number of entries."""

    page: int
    pages: int
    total: int


def pages_of(total: int, size: int = PAGE_SIZE) -> int:
    """Return the number of pages of ``size`` for ``total`` entries; an empty list has one."""
    return max(1, -(-total // size))


class ListPage(Page):
    """``next`` is the cursor of the page after this one: null on the last page, and in an order that changes while jobs
    arrive. ``page`` is 1 in an answer to a cursor."""

    next: str | None


class Position(NamedTuple):
    """The fields of ``ListPage``."""

    page: int
    pages: int
    total: int
    next: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page of a list.

    ``search`` keeps names that contain it, in any case. ``page`` counts from 1 and has ``limit`` rows. ``after``: the
    key of the row before the page, instead of its number.
    """

    sort: str = ""
    descending: bool = False
    cluster: str | None = None
    search: str | None = None
    page: int = 1
    limit: int = PAGE_SIZE
    after: Sequence[Any] | None = None

    def following(self, cursor: str) -> Asked:
        """Return the request for the page of a cursor, in the order of the page before it.

        Raises:
            RefusedError: it is not a cursor.
        """
        try:
            sort, descending, *after = msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            raise no_cursor() from error
        return replace(self, sort=sort, descending=descending is True, after=after)

    def position(self, total: int, last: Sequence[Any] | None) -> Position:
        """Return the page's position in a list of ``total`` rows; ``last``: the key of its last row, if another follows
        in a steady order."""
        key = msgspec.json.encode([self.sort, self.descending, *(last or ())])
        cursor = None if last is None else urlsafe_b64encode(key).decode().rstrip("=")
        return Position(self.page, pages_of(total, self.limit), total, cursor)


def page_of(
    rows: Iterable[Entry],
    asked: Asked,
    value: Callable[[Entry], Any],
    tie: Callable[[Entry], tuple[Any, ...]],
    steady: Collection[str],
) -> tuple[Position, list[Entry]]:
    """Return a page of ``rows`` by ``value``, equal ones by ``tie`` (ascending in either order), those without a value
    last. ``steady``: the sort keys with which the order of two rows never changes.

    Raises:
        RefusedError: a cursor of another list.
    """
    valued = [(value(row), row) for row in rows]
    total, end = len(valued), asked.page * asked.limit
    known = [each for each, _ in valued if each is not None]
    if asked.after is None and end < len(known):  # no later value is put in order
        edge, sign = (nlargest if asked.descending else nsmallest)(end + 1, known)[end], asked.descending
        valued = [of for of in valued if of[0] == edge or (of[0] is not None and (of[0] > edge) is sign)]
    keyed = sorted(((each, tie(row), row) for each, row in valued), key=itemgetter(1))
    ordered = sorted((each for each in keyed if each[0] is not None), key=itemgetter(0), reverse=asked.descending)
    ordered += (each for each in keyed if each[0] is None)
    begin = (asked.page - 1) * asked.limit
    if asked.after is not None:
        begin = sum(_is_passed(of, key, asked.after, descending=asked.descending) for of, key, _ in ordered)
    shown = ordered[begin : begin + asked.limit]
    has_next = asked.sort in steady and begin + asked.limit < total
    last = [shown[-1][0], *shown[-1][1]] if has_next else None
    return asked.position(total, last), [row for *_, row in shown]


def _is_passed(value: Any, tie: Sequence[Any], after: Sequence[Any], *, descending: bool) -> bool:
    """Return whether a row of this key is the one of the cursor, or before it."""
    try:
        first, *rest = after
        if value == first:
            return [*tie] <= rest
        return bool(value > first if descending else value < first)
    except (TypeError, ValueError) as error:
        raise no_cursor() from error


def no_cursor() -> RefusedError:
    """Return the error for a cursor of another list, or none at all."""
    return RefusedError("cursor is none of this list; give `next` of the page before, with the same filters")
