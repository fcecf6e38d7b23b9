"""What a request works with: settings, engines, clock, and the process's caches of tokens and logins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask import current_app
from sqlalchemy import Engine

from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.login_rate import LoginFailures
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.tokens import TokenCache
from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.matching.service import Matcher
from jobsight_server.offers.config import PlanConfig
from jobsight_server.offers.run_times import RunTimes
from jobsight_server.offers.standing_plan import StandingPlans
from jobsight_server.reliability.board import MachineBoard
from jobsight_server.reliability.config import RankConfig
from jobsight_server.requirements import RequirementConfig
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters


@dataclass(frozen=True, slots=True)
class AppContext:
    """Made once by ``create_app``; a view gets it from ``context()``."""

    settings: Settings
    forecast_config: ForecastConfig
    read_engine: Engine
    write_engine: Engine
    clock: Callable[[], float]
    tokens: TokenCache
    clusters: KnownClusters
    answers: AnswerReader
    requirements: RequirementConfig
    plan: PlanConfig
    plans: StandingPlans
    run_times: RunTimes
    matcher: Matcher
    failures: LoginFailures
    proxies: TrustedProxies
    munge: MungeUsers
    machines: MachineBoard
    ranks: RankConfig
    schema_version: str | None


def context() -> AppContext:
    """The context of the application that handles the current request."""
    found = current_app.extensions["jobsight"]
    assert isinstance(found, AppContext)
    return found
