"""The start page, the site now, the load of each node, and rejected data with the kept examples."""

from __future__ import annotations

from flask import Blueprint, redirect, request, url_for
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from jobsight_server.ground.amounts import DAY_S
from jobsight_server.queries.node_states import FIGURES, Machines, NodeLoad
from jobsight_server.queries.now import JOBS, Now, now_page
from jobsight_server.queries.rejected import Rejected, rejected_data
from jobsight_server.queries.start import MUTED_DAYS_AT_MOST, Start, mute
from jobsight_server.queries.start import start as read_start
from jobsight_server.web.kit.inputs import choice_argument, given
from jobsight_server.web.kit.listing import asked_of, wanted_of
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route, context, reading
from jobsight_server.web.kit.system_parts import part


def now() -> Now:
    return _now()[0]


def _now() -> tuple[Now, list[NodeLoad]]:
    return now_page(reading(), context().clock(), asked_of(JOBS))


NOW = Route(
    "/api/v1/now",
    now,
    "Running jobs by bandwidth, memory or time left; runs by state; silent nodes; whether the server keeps up",
    listing=JOBS,
    roles=(),
)


def rejected() -> Rejected:
    return rejected_data(reading())


REJECTED = Route(
    "/api/v1/rejected",
    rejected,
    "All event counts, quarantined batches and rejected accounting lines with their reasons",
    roles=(),
)


def start() -> Start:
    here = context()
    return read_start(reading(), here.clock(), here.settings, part(Machines))


START = Route(
    "/api/v1/start",
    start,
    "At most seven cards, the dearest first: the findings about a user, a node or a cluster, each with the jobs behind "
    "it and one action; a text to send to the user; muted cards",
    roles=(),
)
ROUTES = (START, NOW, REJECTED)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/", endpoint="start")
    def show_start() -> Response:
        return page("start.html", start(), START)

    @pages.post("/start/mute", endpoint="mute")
    def mute_finding() -> Response:
        key, reason, days = (request.form.get(name, "").strip() for name in ("key", "reason", "days"))
        if not key or not reason or not days.isdecimal() or int(days[:9]) > MUTED_DAYS_AT_MOST:
            most = f"a card's key, a reason, and 0 to {MUTED_DAYS_AT_MOST} days"
            raise BadRequest(f"give {most}; days = {days[:20]!r}, reason = {reason[:60]!r}")
        here = context()
        with here.write_engine.begin() as connection:
            mute(connection, key[:1000], here.clock() + int(days) * DAY_S, reason[:1000])
        return redirect(url_for("pages.start"), 303)

    @pages.get("/now", endpoint="now")
    def show() -> Response:
        figure = choice_argument("map", FIGURES) or FIGURES[0]
        table = choice_argument("table", ("yes",))
        wanted = {**wanted_of(JOBS), "map": given("map"), "table": table}
        found, loads = _now()
        return page("now.html", found, NOW, others=wanted, loads=loads, figure=figure, wanted=wanted)
