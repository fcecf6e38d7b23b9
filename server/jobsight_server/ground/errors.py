"""Errors that commands show without a traceback, and that end a process which was replaced."""

from __future__ import annotations


class UserError(ValueError):
    """Something that the user at the command line can correct; the message says what and how."""


class RefusedError(UserError):
    """A request that cannot be done like this; ``status`` is that of HTTP."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class FencedError(Exception):
    """Another process has taken over this role; this one must end."""
