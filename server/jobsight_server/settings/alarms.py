"""What to raise an alarm about and whom to notify: ``[[alarms]]`` tables, ``[mail]`` and ``[watchdog]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

AlarmKind = Literal["node-silent", "rejected", "disk", "forecasts", "job"]
ALARM_KINDS: tuple[AlarmKind, ...] = get_args(AlarmKind)
LIMITS: Mapping[str, float] = MappingProxyType(
    {"node-silent": 3600.0, "rejected": 100.0, "disk": 7 * 86400.0, "forecasts": 0.0, "job": 1800.0}
)
"""By kind, if the rule gives none: seconds since the last batch; pieces of data rejected in an hour; seconds until the
disk is full; none; seconds within which a job is likely to run out."""


def check_url(url: str) -> None:
    """Raises ValueError for what is no address of a web server."""
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        raise ValueError(f"expected an http:// or https:// url, got {url!r}")


class AlarmRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule. ``name`` distinguishes rules of one kind; ``limit`` has the meaning and default of its kind.

    Beginning and end are sent to ``webhook`` or by ``mail``; without either, alarms are only shown.
    """

    kind: AlarmKind
    name: str = ""
    limit: Annotated[float, Meta(gt=0)] | None = None
    webhook: str = ""
    mail: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec reports with the place."""
        if self.webhook and self.mail:
            raise ValueError("expected webhook or mail, not both: write a second table")
        if self.webhook:
            check_url(self.webhook)
        if not (self.name + "".join(self.mail)).isprintable():
            raise ValueError("name and mail must be printable")

    @property
    def key(self) -> str:
        """The rule's name, or its kind."""
        return self.name or self.kind

    @property
    def above(self) -> float:
        """The limit, or that of its kind."""
        return LIMITS[self.kind] if self.limit is None else self.limit


class Mail(Struct, frozen=True, forbid_unknown_fields=True):
    """The site's mail relay, ``HOST`` or ``HOST:PORT``, and the sender's address."""

    relay: str = "localhost:25"
    sender: str = "jobsight@localhost"


class Watchdog(Struct, frozen=True, forbid_unknown_fields=True):
    """An address that is called each minute while alarms are checked and their messages delivered."""

    url: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec reports with the place."""
        if self.url:
            check_url(self.url)


class MonthlyMail(Struct, frozen=True, forbid_unknown_fields=True):
    """The mail to users (NAME@``domain``) whose jobs leave more than ``share`` of their memory unused; empty: none.

    ``unsubscribed`` users get none.
    """

    domain: str = ""
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    unsubscribed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec reports with the place."""
        if self.domain and not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", self.domain):
            raise ValueError(f"expected a domain such as example.org, got {self.domain!r}")
