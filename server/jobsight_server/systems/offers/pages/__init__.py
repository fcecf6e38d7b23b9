"""Routes and pages of offers, a module per noun."""

from __future__ import annotations

from jobsight_server.systems.offers.config import plan_config
from jobsight_server.systems.offers.pages import offers, plan
from jobsight_server.systems.offers.standing_plan import PlaceSeller
from jobsight_server.web.kit.context import AppContext

ROUTES = (*plan.ROUTES, *offers.RISK_ROUTES, *offers.ROUTES)
add_pages = plan.add_pages


def make_part(here: AppContext) -> PlaceSeller:
    return PlaceSeller(plan_config(here.settings))
