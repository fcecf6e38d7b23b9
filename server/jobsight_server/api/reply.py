"""How the API writes its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from flask import Response

_encode = msgspec.json.Encoder().encode


def json_reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """``content`` as JSON; a NaN, which JSON does not know, becomes null."""
    return json_text(_encode(content), status, headers)


def json_text(body: bytes | str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that is already written."""
    return Response(body, status, headers, content_type="application/json")


def error_reply(message: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """What went wrong, as every error under /api is answered."""
    return json_reply({"error": message}, status, headers)
