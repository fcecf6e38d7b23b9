"""A page and its JSON twin: the same dictionary, written for people or for programs."""

from __future__ import annotations

import hashlib
from typing import Any

from flask import Response, current_app, make_response, render_template, request, url_for
from werkzeug.exceptions import BadRequest


def respond(template: str, data: dict[str, Any], **shown: Any) -> Response:
    """The page, or with ``?format=json`` the dictionary that it shows.

    The twin carries an ETag, so that a page that polls an unchanged one is answered 304. ``shown`` is for the
    template only: what it needs beside the data.
    """
    if request.args.get("format") != "json":
        return make_response(render_template(template, data=data, twin=twin_url(), **shown))
    body = current_app.json.dumps(data)
    response = Response(body, mimetype="application/json")
    response.set_etag(hashlib.sha256(body.encode()).hexdigest()[:32])
    response.make_conditional(request)
    return response


def twin_url() -> str:
    """The address of the present page's JSON twin."""
    arguments: dict[str, Any] = {**request.args.to_dict(flat=False), **(request.view_args or {}), "format": "json"}
    return url_for(request.endpoint or "", **arguments)


def page_number() -> int:
    """``?page=``, from 1.

    Raises:
        BadRequest: it is not a whole number from 1 to a million.
    """
    value = request.args.get("page", "1")
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:8]) <= 1_000_000 and len(value) <= 7):
        raise BadRequest(f"page={value[:20]!r} is not a page number; use 1 or more")
    return int(value)


def choice(name: str, allowed: tuple[str, ...]) -> str | None:
    """``?name=`` where it is one of ``allowed``; None where it is absent or empty.

    Raises:
        BadRequest: it is something else.
    """
    value = request.args.get(name) or None
    if value is not None and value not in allowed:
        raise BadRequest(f"{name}={value[:40]!r} is not one of {', '.join(allowed)}")
    return value
