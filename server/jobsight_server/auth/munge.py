"""MUNGE credentials: users identified by the munged that a cluster's hosts already share.

``munge -n`` makes a credential. It expires after some minutes and decodes once: a copy is worthless.
"""

from __future__ import annotations

import re
import subprocess
from threading import BoundedSemaphore

from jobsight_server.auth.tokens import AuthError

SCHEME = "munge"
LONGEST_CREDENTIAL = 4096
_AT_ONCE = 4
_LIMIT_S = 2.0
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")
_FIELD = re.compile(r"^(STATUS|UID):\s+(.*?)\s*\((\d+)\)\s*$", re.MULTILINE)


class MungeUsers:
    """Finds the user of a credential by ``unmunge`` at a ``socket``; without a socket, none is accepted.

    At most four credentials are decoded at once, and each for two seconds at most.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._free = BoundedSemaphore(_AT_ONCE)

    def user(self, header: str) -> str:
        """Return the user of the credential in an ``Authorization`` header.

        Raises:
            AuthError: credentials are not accepted here, or this one is invalid, expired or used; 503 if too many are
            being decoded, or munged does not answer.
        """
        if not self._socket:
            raise AuthError(401, "this server accepts no MUNGE credentials: set munge_socket")
        credential = header.partition(" ")[2].strip()
        if len(credential) > LONGEST_CREDENTIAL or not _CREDENTIAL.fullmatch(credential):
            raise AuthError(401, "not a MUNGE credential: send what `munge -n` prints")
        if not self._free.acquire(blocking=False):
            raise AuthError(503, "too many MUNGE credentials at once; try again later")
        try:
            found = self._decode(credential)
        finally:
            self._free.release()
        status, uid = found.get("STATUS"), found.get("UID")
        if status is None or status[1] != "0" or uid is None or not uid[0] or uid[0] == "???":
            reason = "munged does not say why" if status is None else status[0]
            raise AuthError(401, f"this MUNGE credential is not accepted: {reason}")
        return uid[0]

    def _decode(self, credential: str) -> dict[str, tuple[str, str]]:
        """Decode a credential: name of a field -> its text and number."""
        command = ["unmunge", f"--socket={self._socket}", "--no-output", "--metadata=-", "--keys=STATUS,UID"]
        try:
            done = subprocess.run(
                command, input=credential, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AuthError(503, f"cannot decode MUNGE credentials: {error}") from error
        return {name: (text, number) for name, text, number in _FIELD.findall(done.stdout)}
