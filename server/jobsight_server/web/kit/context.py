"""What a request works with: settings, engines, clock, and the process's caches of tokens and logins.

Each placing system has a part of its own here, which the core does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from flask import Flask, current_app
from sqlalchemy import Engine

from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.login_rate import LoginFailures
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.tokens import TokenCache
from jobsight_server.forecasts import AnswerReader
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class AppContext:
    """Made once by ``create_app``; a view gets it from ``context()``."""

    settings: Settings
    read_engine: Engine
    write_engine: Engine
    clock: Callable[[], float]
    tokens: TokenCache
    clusters: KnownClusters
    answers: AnswerReader
    failures: LoginFailures
    proxies: TrustedProxies
    munge: MungeUsers
    schema_version: str | None


def context() -> AppContext:
    """The context of the application that handles the current request."""
    found = current_app.extensions["jobsight"]
    assert isinstance(found, AppContext)
    return found


def add_part(app: Flask, part: object) -> None:
    """Adds what the views of one system work with."""
    app.extensions.setdefault("jobsight_parts", {})[type(part)] = part


def part(kind: type[Part]) -> Part:
    """The part of this type that belongs to the application handling the current request."""
    found = current_app.extensions["jobsight_parts"][kind]
    assert isinstance(found, kind)
    return found
