"""One request to a Jobsight server, from the command line; the token goes to that server and nowhere else."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from jobsight_server.errors import UserError

_TIMEOUT_S = 30.0
_LARGEST_ANSWER = 512 * 2**20


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would send the token on to wherever it is redirected."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def ask_server(server: str, token: str | None, method: str, path: str, body: Any = None) -> Any:
    """What ``server`` (``http://HOST:PORT``) answers at ``path`` of its API, parsed.

    Raises:
        UserError: it is no address, does not answer, or answers an error or a redirect.
    """
    if urllib.parse.urlsplit(server).scheme not in ("http", "https"):
        raise UserError(f"{server!r} is no address of a server; give http://HOST:PORT")
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.rstrip('/')}/api/v1{path}", content, headers, method=method)
    try:
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read(_LARGEST_ANSWER))
    except urllib.error.HTTPError as error:
        if 300 <= error.code < 400:
            place = error.headers.get("Location", "nowhere")
            raise UserError(
                f"{server} redirects to {place!r}, which is not followed; give that server itself"
            ) from None
        raise UserError(f"{server} answered {error.code}: {error.read(500).decode(errors='replace')}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UserError(f"{server} does not answer: {error}") from error
