"""Messages to a webhook or a mail relay: within bounded time, redirects refused."""

from __future__ import annotations

import http.client
import smtplib
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from urllib.parse import urlsplit

from jobsight_server.settings.alarms import Mail

_STEP_S, _WHOLE_S = 5.0, 15.0


class DeliveryError(Exception):
    """A message did not arrive; the message says why, with few different values, as it is counted by them."""


def call(method: str, url: str, body: bytes | None = None) -> None:
    """Sends a request; any 2xx is success. A receiver that answers slowly is cut off after 15 s.

    Raises:
        DeliveryError: it did not succeed.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    late = threading.Event()
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=_STEP_S)
        timer = threading.Timer(_WHOLE_S, _cut, (connection, late))
        timer.daemon = True
        timer.start()
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"Connection": "close"} | ({} if body is None else {"Content-Type": "application/json"})
            connection.request(method, target, body, headers)
            status = connection.getresponse().status
        finally:
            timer.cancel()
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DeliveryError("timeout" if late.is_set() else _reason(error)) from error
    if 300 <= status < 400:
        raise DeliveryError("redirect refused")
    if not 200 <= status < 300:
        raise DeliveryError(f"status {status}")


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    late.set()
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def send_mail(mail: Mail, to: Sequence[str], subject: str, text: str) -> None:
    """Sends a mail by the site's relay.

    Raises:
        DeliveryError: the relay did not take it for every address.
    """
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = mail.sender, ", ".join(to), subject
    message["Auto-Submitted"] = "auto-generated"  # so that holiday notices do not answer
    message.set_content(text)
    host, _, port = mail.relay.rpartition(":") if ":" in mail.relay else (mail.relay, "", "25")
    try:
        with smtplib.SMTP(host, int(port), timeout=_STEP_S) as relay:
            refused = relay.send_message(message)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise DeliveryError(_reason(error)) from error
    if refused:
        raise DeliveryError("address refused")


def _reason(error: Exception) -> str:
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__
