"""Parts of every page: the template over a record, the address of the same record in the API, links."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

from flask import Blueprint, current_app, g, make_response, render_template, request, url_for
from sqlalchemy import Connection, exists, select
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from jobsight_server.ground.answers import Record
from jobsight_server.storage.schema import nodes
from jobsight_server.web.kit.listing import asked_of, wanted_of
from jobsight_server.web.kit.routes import COOKIE, Route, context, known_viewer, reading

_SAFE = "!$'()*,/:;?@"
"""Characters that stay as they are in a query, as in Flask's addresses."""
_quoted = lru_cache(10_000)(partial(quote_plus, safe=_SAFE))

Menu = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Entries of the menu: endpoint, title, and the endpoints of the pages below it."""


def add_pages(pages: Blueprint, routes: Iterable[Route]) -> None:
    """Add the page of each route that has one."""
    for route in routes:
        if route.page is not None:
            pages.add_url_rule(f"/{route.page}", route.page, partial(_show, route))


def _show(route: Route) -> Response:
    found = route.handler()
    assert isinstance(found, Record)
    return page(f"{route.page}.html", found, route, **route.shown(found))


def page(
    template: str,
    data: Record,
    route: Route,
    status: int = 200,
    others: Iterable[str] = (),
    **shown: Any,
) -> Response:
    """Return the page for ``data``, which ``route`` returns as JSON; ``shown`` is for the template only.

    ``others`` are query parameters of the page alone.

    Links of a list keep what is ``wanted`` of it.

    Raises:
        BadRequest: a query parameter that ``route`` does not take: a misspelt one would change nothing, unseen.
    """
    route.refuse_unknown(others)
    if (of := route.listing) is not None:
        shown = {"listing": of, "wanted": wanted_of(of), "asked": asked_of(of), **shown}
    clusters = sorted(context().clusters.all())
    shown["has_agents"] = reading().scalar(select(exists().select_from(nodes)))
    menus: list[Callable[[Connection], Menu]] = current_app.extensions["jobsight_menus"]
    shown["scheduling"] = [entry for menu in menus for entry in menu(reading())]
    text = render_template(template, data=data, json_url=json_url(route), clusters=clusters, **shown)
    return make_response(text, status)


def json_url(route: Route) -> str:
    """Return the API address of the page's data: the same names in path and query, as far as the API has them."""
    asked = {name: values for name, values in request.args.to_dict(flat=False).items() if values != [""]}
    known = {**asked, **(request.view_args or {})}
    path = route.path.format(**{name: quote(str(value)) for name, value in (request.view_args or {}).items()})
    query = {
        parameter.name: known[parameter.name]
        for parameter in route.takes
        if known.get(parameter.name) not in (None, [""])
    }
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def error_page(error: HTTPException) -> Response:
    """Return an error page for people."""
    # Only by the cookie: the database may have failed.
    logged_in = COOKIE in request.cookies or known_viewer() is not None
    return make_response(render_template("error.html", error=error, logged_in=logged_in), error.code or 500)


def user_url(cluster: str, user: str) -> str:
    return _url("user", cluster, user)


def job_url(cluster: str, job_id: str) -> str:
    return _url("job", cluster, job_id)


def node_url(cluster: str, node: str) -> str:
    return _url("node", cluster, node)


def _url(noun: str, cluster: str, name: str) -> str:
    places = g.setdefault("places", {})  # a page has thousands of links
    if noun not in places:
        places[noun] = url_for(f"pages.{noun}")
    return f"{places[noun]}?cluster={_quoted(cluster)}&name={_quoted(name)}"
