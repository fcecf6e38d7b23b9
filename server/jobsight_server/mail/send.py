"""Mail by the site's relay, within a total deadline."""

from __future__ import annotations

import smtplib
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage

from jobsight_server.settings.tables import Mail

_STEP_S, _WHOLE_S, _LOOK_S = 5.0, 15.0, 0.05


class DeliveryError(Exception):
    """A mail did not arrive; the message has the reason, one of few, because mails are counted by it."""


def send_mail(mail: Mail, to: Sequence[str], subject: str, text: str, within_s: float = _WHOLE_S) -> None:
    """Send a mail by the site's relay; cut off a relay that needs longer in all, even if it answers.

    Raises:
        DeliveryError: the relay did not take it for every address.
    """
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = mail.sender, ", ".join(to), subject
    message["Auto-Submitted"] = "auto-generated"  # prevents holiday notices
    message.set_content(text)
    host, _, port = mail.relay.rpartition(":") if ":" in mail.relay else (mail.relay, "", "25")
    relay = smtplib.SMTP(timeout=min(_STEP_S, within_s))
    done, late = threading.Event(), threading.Event()
    watch = threading.Thread(target=_cut_after, args=(within_s, relay, done, late), name="mail deadline", daemon=True)
    watch.start()
    try:
        relay.connect(host, int(port))
        refused = relay.send_message(message)
        with suppress(OSError, smtplib.SMTPException):  # the relay has the mail, whatever it answers now
            relay.quit()
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise DeliveryError("timeout" if late.is_set() else _reason(error)) from error
    finally:
        done.set()
        watch.join()
        relay.close()
    if refused:
        raise DeliveryError("address refused")


def _cut_after(within_s: float, relay: smtplib.SMTP, done: threading.Event, late: threading.Event) -> None:
    """Close the connection at the deadline; a socket's own timeout begins again with every byte."""
    if done.wait(within_s):
        return
    late.set()
    while not done.wait(_LOOK_S):
        # None while it still connects, which has its own timeout.
        if relay.sock is not None:
            with suppress(OSError):
                relay.sock.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception) -> str:
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__
