"""Addresses of earlier releases, which lead to those of today."""

from __future__ import annotations

from functools import partial

from flask import Flask, redirect, request
from werkzeug.wrappers import Response

MOVED = {
    "/brought": "/savings",
    "/trust": "/accuracy",
    "/api/v1/monday": "/api/v1/start",
    "/api/v1/brought": "/api/v1/savings",
    "/api/v1/trust": "/api/v1/accuracy",
}


def add_moved(app: Flask) -> None:
    """Redirect each old address, which needs no access rule: the new one has its own."""
    for old, new in MOVED.items():
        app.add_url_rule(old, f"moved {old}", partial(_moved, new))


def _moved(new: str) -> Response:
    query = request.query_string.decode("latin-1")
    return redirect(f"{new}?{query}" if query else new, 308)
