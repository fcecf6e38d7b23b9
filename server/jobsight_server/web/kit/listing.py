"""The order, page and filters of a list, declared once for the API, the page and its links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug.exceptions import BadRequest

from jobsight_server.ground.answers import PAGE_SIZE, Asked, no_cursor
from jobsight_server.web.kit.inputs import (
    ORDERS,
    choice_argument,
    cluster_argument,
    given,
    integer_argument,
    name_argument,
    number_argument,
)
from jobsight_server.web.kit.parameters import NAME, PAGE, PAGES_AT_MOST, Parameter, choice_of

ROWS_AT_MOST = 1000
_LIMIT: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": ROWS_AT_MOST}


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of pages and API.

    ``sorts``: its sort keys, the default first. Each begins with the largest, except ``lowest_first``. ``rows``: its
    default number of rows on a page. ``is_searched``: ``search`` narrows it to names that contain a text. ``filters``:
    its other filters. ``span``: the parameters of its time range.
    """

    sorts: tuple[str, ...]
    lowest_first: tuple[str, ...] = ()
    rows: int = PAGE_SIZE
    of_clusters: bool = True
    is_searched: bool = True
    filters: tuple[Parameter, ...] = ()
    span: tuple[Parameter, ...] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of its route."""
        order = "ascending or descending (default: the largest, latest or worst first, names from A)"
        return (
            *self.filters,
            *((Parameter("cluster", "only this cluster's", NAME),) if self.of_clusters else ()),
            *((Parameter("search", "only those whose name contains this, ignoring case", NAME),) * self.is_searched),
            Parameter("sort", f"what to sort by (default {self.sorts[0]})", choice_of(self.sorts)),
            Parameter("order", order, choice_of(ORDERS)),
            Parameter("page", "from 1", PAGE),
            Parameter("limit", f"rows on a page (default {self.rows})", _LIMIT),
            Parameter("cursor", "`next` of the page before, instead of `page`", NAME),
            *self.span,
        )

    def asked(self) -> Asked:
        """Return the request's choices.

        Raises:
            BadRequest: an invalid sort key, order, page, limit, name or cursor.
            NotFound: an unknown cluster.
        """
        sort, order = choice_argument("sort", self.sorts) or self.sorts[0], choice_argument("order", ORDERS)
        asked = Asked(
            sort=sort,
            descending=order == "desc" if order else sort not in self.lowest_first,
            cluster=cluster_argument() if self.of_clusters else None,
            search=name_argument("search") if self.is_searched else None,
            page=integer_argument("page", 1, PAGES_AT_MOST),
            limit=integer_argument("limit", self.rows, ROWS_AT_MOST),
        )
        cursor = name_argument("cursor")
        if cursor is None:
            return asked
        if given("page") is not None:
            raise BadRequest("cursor and page exclude each other; give one of them")
        if (asked := asked.following(cursor)).sort not in self.sorts:
            raise no_cursor()
        return asked

    def filtered(self) -> dict[str, Any]:
        """Return the request's other filters by name; None for one that was not given.

        Raises:
            BadRequest: an invalid value.
        """
        return {each.name: _value(each) for each in self.filters}

    def wanted(self) -> Mapping[str, str | None]:
        """Return the parameters that the page's links keep: all of its address except the place in the list."""
        places = ("page", "cursor")
        return {each.name: given(each.name) for each in self.parameters if each.name not in places}


def _value(of: Parameter) -> Any:
    if "enum" in of.schema:
        return choice_argument(of.name, tuple(of.schema["enum"]))
    return name_argument(of.name) if of.schema["type"] == "string" else number_argument(of.name, of.schema)
