"""Access to data: the ``[access]`` table of the settings file."""

from __future__ import annotations

import re

from msgspec import Struct

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
            raise ValueError(f"login_header {self.login_header!r} is no name of a header, such as X-Remote-User")
        if self.login_header.lower() in {"authorization", "cookie", "host", "x-forwarded-for"}:
            raise ValueError(f"login_header {self.login_header!r} has another meaning; use one such as X-Remote-User")
