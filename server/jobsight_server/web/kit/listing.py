"""What a list can be asked: its order, its part and its filters, declared once for the API, the page and its links."""

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
    """What a request asks of a list. ``page`` counts from 1; ``limit`` is the rows of a list that has no pages."""

    cluster: str | None
    search: str | None
    sort: str
    descending: bool
    page: int
    limit: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of pages and API.

    ``sorts``: what it can be sorted by, the default first. Each begins with the largest, except ``lowest_first``.
    ``is_ordered``: the order can be turned round. ``rows``: how many rows it has by default if it has no pages.
    ``is_searched``: ``search`` narrows it to names that contain a text. ``filters``: what else narrows it.
    ``span``: the parameters of its range of time.
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
        """The parameters of its route."""
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
        """Return what the request asks.

        Raises:
            BadRequest: a sort key, an order, a page, a limit or a name that cannot be.
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
        """Return what the address of the page says, except which part of the list: what its links keep."""
        return {each.name: given(each.name) for each in self.parameters if each.name not in ("page", "limit")}
