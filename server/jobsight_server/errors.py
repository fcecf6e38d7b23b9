"""The one error that commands show without a traceback."""

from __future__ import annotations


class UserError(ValueError):
    """Something that the user at the command line can correct; the message says what and how."""
