"""The dashboard: server-rendered pages over the read models, each with its JSON twin."""

from __future__ import annotations

from flask import Blueprint, make_response, render_template, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response

from jobsight_server.auth.guard import COOKIE, require_login
from jobsight_server.pages import jobs, links, nodes, overview, refused, simulations, units, users

__all__ = ["error_page", "pages_blueprint"]


def pages_blueprint() -> Blueprint:
    """Every page behind the login, and the stylesheet and scripts, which are open: the login form needs them."""
    pages = Blueprint("pages", __name__, template_folder="templates", static_folder="static", static_url_path="/assets")
    for noun in (overview, users, jobs, nodes, simulations, refused):
        noun.add_routes(pages)

    @pages.before_request
    def guard() -> Response | None:
        return None if request.endpoint == "pages.static" else require_login()

    pages.register_error_handler(HTTPException, error_page)
    for name, write in units.FORMATS.items():
        pages.add_app_template_filter(write, f"as_{name}")
    pages.add_app_template_filter(units.metric_value, "as_metric")
    pages.record_once(
        lambda state: state.app.jinja_env.globals.update(
            formats=units.FORMATS,
            metric_formats=units.METRIC_FORMATS,
            metric_titles=units.METRIC_TITLES,
            refusal_titles=units.REFUSAL_TITLES,
            accuracy_value=units.accuracy_value,
            user_url=links.user_url,
            job_url=links.job_url,
            node_url=links.node_url,
        )
    )
    return pages


def error_page(error: HTTPException) -> Response:
    """A page for people that says what went wrong; JSON where the twin was asked for."""
    if request.args.get("format") == "json":
        return make_response({"error": error.description}, error.code or 500)
    # By the cookie alone: the database may be what has failed.
    logged_in = COOKIE in request.cookies
    return make_response(render_template("error.html", error=error, logged_in=logged_in), error.code or 500)
