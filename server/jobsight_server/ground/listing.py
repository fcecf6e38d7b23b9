"""A list, declared once: its orders, filters and pages. A request for a page, by number or by cursor, and that page."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from jobsight_server.ground.answers import Record
from jobsight_server.ground.errors import RefusedError
from jobsight_server.ground.parameters import NAME, PAGES_AT_MOST, Parameter, choice_of, whole_number

Entry = TypeVar("Entry")

ORDERS = ("asc", "desc")


class ListPage(Record):
    """The position in a list; ``page`` counts from 1, ``total`` is the number of entries.

    ``next`` is the cursor of the page after this one: null on the last page, and in an order that changes while jobs
    arrive. ``page`` is 1 in an answer to a cursor."""

    page: int
    pages: int
    total: int
    next: str | None


Position = tuple[int, int, int, str | None]
"""The fields of ``ListPage``."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page of a list.

    ``search`` keeps names that contain it, in any case. ``page`` counts from 1 and has ``limit`` rows. ``after``: the
    key of the row before the page, instead of its number. ``of``: the values of the list's own filters by name; None
    does not filter.
    ``is_steady``: the order of two rows never changes.
    """

    sort: str
    descending: bool
    is_steady: bool
    cluster: str | None
    search: str | None
    page: int
    limit: int
    of: Mapping[str, Any]
    after: Sequence[Any] | None = None

    def keeps(self, cluster: str, name: str) -> bool:
        """Return whether the request is for this cluster, and for names such as this one."""
        return self.cluster in (None, cluster) and (self.search or "").casefold() in name.casefold()

    def position(self, total: int, last: Sequence[Any] | None) -> Position:
        """Return the page's position in a list of ``total`` rows; ``last``: the key of its last row, if another follows
        in a steady order."""
        key = msgspec.json.encode([self.sort, self.descending, *(last or ())])
        cursor = None if last is None else urlsafe_b64encode(key).decode().rstrip("=")
        return self.page, max(1, -(-total // self.limit)), total, cursor

    def near(self, values: NDArray[np.float64]) -> list[int]:
        """Return the places of the values that can be on the page, those of NaN last."""
        known, end = values[~np.isnan(values)], self.page * self.limit
        if end >= len(known):
            return [*range(len(values))]
        sign = -1.0 if self.descending else 1.0
        found: list[int] = np.flatnonzero(sign * values <= np.partition(sign * known, end)[end]).tolist()
        return found

    def page_of(
        self,
        rows: Iterable[Entry],
        value: Callable[[Entry], Any],
        tie: Callable[[Entry], tuple[Any, ...]],
        total: int | None = None,
    ) -> tuple[Position, list[Entry]]:
        """Return the page of ``rows`` by ``value``, equal ones by ``tie`` (ascending in either order), those without a
        value last. ``total``: how many there are, if ``rows`` are those ``near`` the page.

        Raises:
            RefusedError: a cursor of another list.
        """
        valued = [(value(row), row) for row in rows]
        total, end = len(valued) if total is None else total, self.page * self.limit
        known = [each for each, _ in valued if each is not None]
        if self.after is None and end < len(known):  # no later value is put in order
            edge, sign = (nlargest if self.descending else nsmallest)(end + 1, known)[end], self.descending
            valued = [of for of in valued if of[0] == edge or (of[0] is not None and (of[0] > edge) is sign)]
        keyed = sorted(((each, tie(row), row) for each, row in valued), key=itemgetter(1))
        ordered = sorted((each for each in keyed if each[0] is not None), key=itemgetter(0), reverse=self.descending)
        ordered += (each for each in keyed if each[0] is None)
        begin = (self.page - 1) * self.limit
        if self.after is not None:
            begin = sum(_is_passed(of, key, self.after, descending=self.descending) for of, key, _ in ordered)
        shown = ordered[begin : begin + self.limit]
        has_next = self.is_steady and begin + self.limit < total
        last = [shown[-1][0], *shown[-1][1]] if has_next else None
        return self.position(total, last), [row for *_, row in shown]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of pages and API.

    ``sorts``: its sort keys, the default first. Each begins with the largest, except ``lowest_first``. With the
    ``steady`` ones, the order of two rows never changes. ``rows``: its default number of rows on a page.
    ``is_searched``: ``search`` narrows it to names that contain a text. ``filters``: its other filters. ``span``: the
    parameters of its time range. ``parameters``: all those of its route.
    """

    sorts: tuple[str, ...]
    lowest_first: tuple[str, ...] = ()
    steady: tuple[str, ...] = ()
    rows: int = 50
    rows_at_most: int = 1000
    of_clusters: bool = True
    is_searched: bool = True
    filters: tuple[Parameter, ...] = ()
    span: tuple[Parameter, ...] = ()
    parameters: tuple[Parameter, ...] = field(init=False)

    def __post_init__(self) -> None:
        order = "ascending or descending (default: the largest, latest or worst first, names from A)"
        parameters = (
            *self.filters,
            *((Parameter("cluster", "only this cluster's", NAME),) if self.of_clusters else ()),
            *((Parameter("search", "only those whose name contains this, ignoring case", NAME),) * self.is_searched),
            Parameter("sort", f"what to sort by (default {self.sorts[0]})", choice_of(self.sorts)),
            Parameter("order", order, choice_of(ORDERS)),
            Parameter("page", "from 1", whole_number(PAGES_AT_MOST)),
            Parameter("limit", f"rows on a page (default {self.rows})", whole_number(self.rows_at_most)),
            Parameter("cursor", "`next` of the page before, instead of `page`", NAME),
            *self.span,
        )
        object.__setattr__(self, "parameters", parameters)  # once: each request is compared with them

    def asked(
        self,
        sort: str | None = None,
        order: str | None = None,
        *,
        cluster: str | None = None,
        search: str | None = None,
        page: int = 1,
        limit: int | None = None,
        **of: Any,
    ) -> Asked:
        """Return the request for a page, by default the first in the default order; ``of``: the list's own filters."""
        by = sort or self.sorts[0]
        descending = order == "desc" if order else by not in self.lowest_first
        of = dict.fromkeys(each.name for each in (*self.filters, *self.span)) | of
        return Asked(by, descending, by in self.steady, cluster, search, page, limit or self.rows, of=of)

    def following(self, asked: Asked, cursor: str) -> Asked:
        """Return the request for the page of a cursor, in the order of the page before it.

        Raises:
            RefusedError: it is not a cursor of this list.
        """
        try:
            sort, descending, *after = msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            raise no_cursor() from error
        if sort not in self.steady:
            raise no_cursor()
        return replace(asked, sort=sort, descending=descending is True, is_steady=sort in self.steady, after=after)


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
