"""The plan of a cluster: its jobs over time and nodes, and the outcomes of promises."""

from __future__ import annotations

from flask import Blueprint
from sqlalchemy import Connection, exists, select
from werkzeug.wrappers import Response

from jobsight_server.systems.offers import routes
from jobsight_server.systems.offers.queries import StoredPlan, plan_of, planned_clusters
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.standing_plan import PlaceSeller
from jobsight_server.systems.offers.tables import offers
from jobsight_server.web.kit.inputs import cluster_argument
from jobsight_server.web.kit.pages import Menu, page
from jobsight_server.web.kit.parameters import NAME, Parameter
from jobsight_server.web.kit.routes import AppContext, Route, context, part


def plan() -> StoredPlan:
    here, seller = context(), part(PlaceSeller)
    cluster = cluster_argument()
    with here.read_engine.connect() as connection:
        if cluster is None:
            cluster = next(iter(planned_clusters(connection, seller.config)), None)
        return plan_of(connection, seller, cluster, here.clock())


PLAN = Route(
    "/api/v1/plan",
    plan,
    "The plan of a cluster: jobs with a time slot, promises and their outcomes",
    (Parameter("cluster", "default: the first with a plan, by name", NAME),),
)
ROUTES = (PLAN, *routes.ROUTES)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/plan", endpoint="plan")
    def show() -> Response:
        return page("plan.html", plan(), PLAN)


def menu(connection: Connection) -> Menu:
    """Return the page of the menu, none before a job was offered a time slot, unless the settings name nodes."""
    is_used = context().settings.section(OffersSettings).nodes or connection.scalar(
        select(exists().select_from(offers))
    )
    return (("pages.plan", "Plan", ()),) if is_used else ()


def make_part(here: AppContext) -> PlaceSeller:
    return PlaceSeller(here.settings.section(OffersSettings))
