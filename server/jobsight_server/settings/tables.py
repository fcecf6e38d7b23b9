"""Tables of the settings file that are settings as a whole.

``[access]`` to data, the limits of `jobsight adjust` (an ``[[adjust]]`` for a cluster), ``[mail]`` and
``[weekly_mail]``.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


class Access(Struct, frozen=True, forbid_unknown_fields=True):
    """``login_header`` is a trusted proxy's header with the user that it has authenticated; empty: none.

    ``no_local_users``: only administrators log in on this host, so its own addresses may be the proxy's.
    ``admins`` see everything and act, ``staff`` sees everything, all others their own jobs and advice.
    """

    login_header: str = ""
    admins: tuple[str, ...] = ()
    staff: tuple[str, ...] = ()
    no_local_users: bool = False

    def __post_init__(self) -> None:
        """Check the values; msgspec reports a ValueError with its place."""
        if self.login_header and not _HEADER.fullmatch(self.login_header):
            raise ValueError(f"login_header {self.login_header!r}is not a header name, such as X-Remote-User")
        if self.login_header.lower() in {"authorization", "cookie", "host", "x-forwarded-for"}:
            raise ValueError(f"login_header {self.login_header!r} has another meaning; use one such as X-Remote-User")


class AdjustLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of changes to the jobs of ``cluster``.

    ``users_share``: the share of the users whose jobs are changed, always the same ones, without those to ``keep``.
    ``memory``: whether to change it; time limits are never lowered. No job gets less than the share ``keep_share`` of
    its user's request, nor more than ``raise_to`` times that. Running jobs that reach their limit within
    ``running_within_s``, and should need longer, get more; 0: running jobs are left alone. ``scheduler``: that of the
    cluster, by default by its accounting. ``command`` is `scontrol` or `qalter`, an argument list.

    ``FIXED`` are no settings, or no longer: changes by less than the share ``least_change`` are not made; one run makes
    ``jobs_at_most`` changes; a command is ended after ``timeout_s``.
    """

    FIXED: ClassVar[frozenset[str]] = frozenset(
        {"time", "memory_at_least", "time_at_least_s", "least_change", "jobs_at_most", "timeout_s"}
    )

    cluster: Annotated[str, Meta(min_length=1)]
    scheduler: Literal["", "slurm", "pbspro", "torque"] = ""
    users_share: Annotated[float, Meta(ge=0, le=1)] = 0.1
    memory: bool = True
    keep: tuple[str, ...] = ()
    keep_share: Annotated[float, Meta(ge=0, le=1)] = 0.1
    raise_to: Annotated[float, Meta(ge=1, le=1000)] = 1.0
    running_within_s: Annotated[float, Meta(ge=0, le=366 * 86400)] = 0.0
    command: tuple[str, ...] = ()

    least_change: float = 0.1
    jobs_at_most: int = 1000
    timeout_s: float = 30.0


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
