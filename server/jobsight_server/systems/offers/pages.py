"""The plan of a cluster: its jobs over time and nodes, and the outcomes of promises."""

from __future__ import annotations

from sqlalchemy import Connection, exists, select

from jobsight_server.systems.offers import routes
from jobsight_server.systems.offers.queries import PLAN, StoredPlan, plan_of, planned_clusters
from jobsight_server.systems.offers.settings import OffersSettings
from jobsight_server.systems.offers.standing_plan import PlaceSeller
from jobsight_server.systems.offers.tables import offers
from jobsight_server.web.kit.inputs import cluster_argument
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.pages import Menu
from jobsight_server.web.kit.routes import AppContext, Route, context, reading
from jobsight_server.web.kit.system_parts import part


def plan() -> StoredPlan:
    seller = part(PlaceSeller)
    cluster = cluster_argument() or next(iter(planned_clusters(reading(), seller.config)), None)
    return plan_of(reading(), seller, cluster, context().clock(), asked_of(PLAN))


_SUMMARY = "The plan of a cluster: jobs with a time slot, promises and their outcomes"
ROUTES = (Route("/api/v1/plan", plan, _SUMMARY, listing=PLAN, page="plan"), *routes.ROUTES)


def menu(connection: Connection) -> Menu:
    """Return the page of the menu, none before a job was offered a time slot, unless the settings name nodes."""
    is_used = context().settings.section(OffersSettings).nodes or connection.scalar(
        select(exists().select_from(offers))
    )
    return (("pages.plan", "Plan", ()),) if is_used else ()


def make_part(here: AppContext) -> PlaceSeller:
    return PlaceSeller(here.settings.section(OffersSettings))
