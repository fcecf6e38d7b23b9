"""Addresses to listen on: ``HOST:PORT``, or ``unix:PATH`` for a Unix socket."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from jobsight_server.settings.load import SettingsError
from jobsight_server.storage.errors import UserError

_UNIX = "unix:"
_EXAMPLES = "write HOST:PORT, for example 127.0.0.1:8470"


def unix_path(address: str) -> Path | None:
    """Return the socket's file of ``unix:PATH``; None for ``HOST:PORT``."""
    if not address.startswith(_UNIX):
        return None
    path = Path(address.removeprefix(_UNIX))
    if not path.is_absolute():
        raise SettingsError(f"{address!r} is not an address; write unix: and an absolute path")
    return path


def split_address(address: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` into host and port.

    >>> split_address("127.0.0.1:8470")
    ('127.0.0.1', 8470)
    """
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 65536):
        raise SettingsError(f"{address!r} is not an address; {_EXAMPLES}")
    return host.strip("[]"), int(port)


def tcp_address(addresses: Sequence[str]) -> str | None:
    """Return the first ``HOST:PORT``; None if all are Unix sockets."""
    return next((address for address in addresses if unix_path(address) is None), None)


def check_addresses(*addresses: str) -> None:
    """Check that each address is valid, named once, and free.

    Raises:
        SettingsError: the message names the address and the flags that choose another.
    """
    for address in addresses:
        if addresses.count(address) > 1:
            raise SettingsError(f"--listen and --ingest-listen are both {address}; give each an address of its own")
        try:
            if path := unix_path(address):
                _check_path(path)
            else:
                _bound(address).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SettingsError(f"{address}: {reason}; choose others with --listen and --ingest-listen") from error


def listen(address: str, backlog: int, owner: str = "") -> socket.socket:
    """Return a listening socket. ``owner`` (``USER:GROUP``, either may be empty): of a Unix socket, for both alone.

    Replaces a Unix socket whose server has ended.

    Raises:
        UserError: the address is in use or not on this machine, or the owner cannot be set.
    """
    path = unix_path(address)
    try:
        listener = _bound(address) if path is None else _bound_file(path, owner)
        listener.listen(backlog)
    except (OSError, LookupError) as error:
        raise UserError(f"cannot listen on {address}: {getattr(error, 'strerror', None) or error}") from error
    return listener


def close(listener: socket.socket) -> None:
    """Close the socket and remove its file."""
    path = listener.getsockname()
    listener.close()
    if isinstance(path, str):
        Path(path).unlink(missing_ok=True)


def accepts(address: str, timeout_s: float = 0.5) -> bool:
    """Return whether something listens there."""
    path = unix_path(address)
    if path is not None:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(timeout_s)
            return probe.connect_ex(str(path)) == 0
    host, port = split_address(address)
    # A server on all addresses is reached through this machine's own.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError:
        return False
    return True


def _bound(address: str) -> socket.socket:
    host, port = split_address(address)
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def _bound_file(path: Path, owner: str) -> socket.socket:
    _check_path(path)
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    # Only this user can connect until the owner and the mode are those of the settings.
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
        user, _, group = owner.partition(":")
        if owner:
            uid, gid = pwd.getpwnam(user).pw_uid if user else -1, grp.getgrnam(group).gr_gid if group else -1
            os.chown(path, uid, gid)
        path.chmod(0o660)
    except (OSError, LookupError):
        close(bound)
        raise
    finally:
        os.umask(before)
    return bound


def _check_path(path: Path) -> None:
    """
    Raises:
        OSError: a socket cannot be created there.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(0, "there is a file that is no socket")
    if accepts(f"{_UNIX}{path}"):
        raise OSError(0, "Address already in use")
