"""The site's mail relay and the weekly mail: the tables ``[mail]`` and ``[weekly_mail]``."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct


class Mail(Struct, frozen=True, forbid_unknown_fields=True):
    """The site's mail relay, ``HOST`` or ``HOST:PORT``, and the sender's address."""

    relay: str = "localhost:25"
    sender: str = "jobsight@localhost"


class WeeklyMail(Struct, frozen=True, forbid_unknown_fields=True):
    """The mail to users (NAME@``domain``) whose jobs leave more than ``share`` of their memory unused; empty: none.

    ``unsubscribed`` users get none. ``admins`` are addresses for the mail on present faults.
    """

    domain: str = ""
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    unsubscribed: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values; msgspec reports a ValueError with its place."""
        if self.domain and not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", self.domain):
            raise ValueError(f"expected a domain such as example.org, got {self.domain!r}")
        for address in self.admins:
            if not re.fullmatch(r"[^\s@<>,;]+@[^\s@<>,;]+", address) or not address.isprintable():
                raise ValueError(f"expected an address such as ops@example.org, got {address!r}")
