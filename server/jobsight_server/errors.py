"""The one error that commands show without a traceback."""

from __future__ import annotations


class UserError(ValueError):
    """Something that the person at the command line can put right; the message says what and how."""
