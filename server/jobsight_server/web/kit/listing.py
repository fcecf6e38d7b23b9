"""The order, page and filters of a list, declared once for the API, the page and its links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobsight_server.web.kit.inputs import (
    ORDERS,
    PAGES_AT_MOST,
    choice_argument,
    cluster_argument,
    given,
    integer_argument,
    name_argument,
)
from jobsight_server.web.kit.routes import NAME, PAGE, Parameter, choice_of

ROWS_AT_MOST = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's choices for a list. ``page`` counts from 1; ``limit`` is the rows of a list without pages."""

    cluster: str | None
    search: str | None
    sort: str
    descending: bool
    page: int
    limit: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of pages and API.

    ``sorts``: its sort keys, the default first. Each begins with the largest, except ``lowest_first``.
    ``is_ordered``: the order can be reversed. ``rows``: its default number of rows if it has no pages.
    ``is_searched``: ``search`` narrows it to names that contain a text. ``filters``: its other filters.
    ``span``: the parameters of its time range.
    """

    sorts: tuple[str, ...] = ()
    lowest_first: tuple[str, ...] = ()
    is_ordered: bool = True
    rows: int | None = None
    of_clusters: bool = True
    is_searched: bool = True
    filters: tuple[Parameter, ...] = ()
    span: tuple[Parameter, ...] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of its route."""
        found = list(self.filters)
        if self.of_clusters:
            found.append(Parameter("cluster", "only this cluster's", NAME))
        if self.is_searched:
            found.append(Parameter("search", "only those whose name contains this, ignoring case", NAME))
        if self.sorts:
            found.append(Parameter("sort", f"what to sort by (default {self.sorts[0]})", choice_of(self.sorts)))
        if self.sorts and self.is_ordered:
            text = "ascending or descending (default: the largest, latest or worst first, names from A)"
            found.append(Parameter("order", text, choice_of(ORDERS)))
        if self.rows is None:
            found.append(Parameter("page", "from 1, 50 a page", PAGE))
        else:
            schema: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": ROWS_AT_MOST}
            found.append(Parameter("limit", f"rows (default {self.rows})", schema))
        return (*found, *self.span)

    def asked(self) -> Asked:
        """Return the request's choices.

        Raises:
            BadRequest: an invalid sort key, order, page, limit or name.
            NotFound: an unknown cluster.
        """
        sort = (choice_argument("sort", self.sorts) if self.sorts else None) or next(iter(self.sorts), "")
        order = choice_argument("order", ORDERS) if self.is_ordered else None
        return Asked(
            cluster=cluster_argument() if self.of_clusters else None,
            search=name_argument("search") if self.is_searched else None,
            sort=sort,
            descending=order == "desc" if order else sort not in self.lowest_first,
            page=integer_argument("page", 1, PAGES_AT_MOST) if self.rows is None else 1,
            limit=0 if self.rows is None else integer_argument("limit", self.rows, ROWS_AT_MOST),
        )

    def wanted(self) -> Mapping[str, str | None]:
        """Return the parameters that the page's links keep: all of its address except the page number."""
        return {each.name: given(each.name) for each in self.parameters if each.name not in ("page", "limit")}
