"""Access control: tokens of three roles, and login sessions for people."""

from __future__ import annotations

from jobsight_server.auth.tokens import (
    ROLES,
    AuthError,
    Token,
    TokenCache,
    create_token,
    list_tokens,
    revoke_token,
)

__all__ = [
    "ROLES",
    "AuthError",
    "Token",
    "TokenCache",
    "create_token",
    "list_tokens",
    "revoke_token",
]
