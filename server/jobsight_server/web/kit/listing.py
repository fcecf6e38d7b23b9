"""The request for a page of a list, from an address; and the parameters that the list's links keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import BadRequest

from jobsight_server.ground.listing import ORDERS, Asked, Listing
from jobsight_server.ground.parameters import PAGES_AT_MOST
from jobsight_server.web.kit.inputs import (
    choice_argument,
    cluster_argument,
    given,
    integer_argument,
    name_argument,
    value_argument,
)


def asked_of(listing: Listing, **of: Any) -> Asked:
    """Return what the request asks of the list; ``of``: values of filters that are not as in the address.

    Raises:
        BadRequest: an invalid sort key, order, page, limit, name, filter or cursor.
        NotFound: an unknown cluster.
    """
    given_filters = {each.name: value_argument(each) for each in listing.filters}
    more = {
        "cluster": cluster_argument() if listing.of_clusters else None,
        "search": name_argument("search") if listing.is_searched else None,
        "page": integer_argument("page", 1, PAGES_AT_MOST),
        "limit": integer_argument("limit", listing.rows, listing.rows_at_most),
    }
    sort, order = choice_argument("sort", listing.sorts), choice_argument("order", ORDERS)
    asked = listing.asked(sort, order, **more | given_filters | of)
    cursor = name_argument("cursor")
    if cursor is not None and given("page") is not None:
        raise BadRequest("cursor and page exclude each other; give one of them")
    return asked if cursor is None else listing.following(asked, cursor)


def wanted_of(listing: Listing) -> Mapping[str, str | None]:
    """Return the parameters that the page's links keep: all of its address except the place in the list."""
    places = ("page", "cursor")
    return {each.name: given(each.name) for each in listing.parameters if each.name not in places}
