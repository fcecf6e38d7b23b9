"""Addresses to listen on: ``HOST:PORT``, or ``unix:PATH`` for a Unix socket."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from jobsight_server.ground.errors import UserError
from jobsight_server.settings.declared import check_socket_path
from jobsight_server.settings.load import SettingsError

_UNIX = "unix:"
_EXAMPLES = "write HOST:PORT, for example 127.0.0.1:8470"
_PATIENCE_S, _PAUSE_S = 20.0, 0.1  # processes of a killed server end their requests first, in 15 s at most

Bound = TypeVar("Bound")


def unix_path(address: str) -> Path | None:
    """Return the socket's file of ``unix:PATH``; None for ``HOST:PORT``."""
    if not address.startswith(_UNIX):
        return None
    path = Path(address.removeprefix(_UNIX))
    if not path.is_absolute():
        raise SettingsError(f"{address!r} is not an address; write unix: and an absolute path")
    try:
        check_socket_path(str(path))
    except ValueError as error:
        raise SettingsError(f"{address}: {error}") from error
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


def check_addresses(*addresses: str, owner: str = "") -> None:
    """Check that each address is valid, named once, and free, and that the ``owner`` of Unix sockets exists.

    Raises:
        SettingsError: the message names the address and the flags that choose another.
    """
    _ids(owner)
    for address in addresses:
        if addresses.count(address) > 1:
            raise SettingsError(f"--listen and --ingest-listen are both {address}; give each an address of its own")
        try:
            if path := unix_path(address):
                _when_free(address, partial(_check_path, path))
            else:
                _when_free(address, partial(_bound, address)).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise SettingsError(f"{address}: {reason}; choose others with --listen and --ingest-listen") from error


def listen(address: str, backlog: int, owner: str = "") -> socket.socket:
    """Return a listening socket. ``owner`` (``USER:GROUP``, either may be empty): of a Unix socket, for both alone.

    Replaces a Unix socket whose server has ended.

    Raises:
        UserError: the address stays in use or is not on this machine, or the owner cannot be set.
    """
    path = unix_path(address)
    try:
        bind = partial(_bound, address) if path is None else partial(_bound_file, path, owner)
        listener = _when_free(address, bind)
        listener.listen(backlog)
    except OSError as error:
        raise UserError(f"cannot listen on {address}: {error.strerror or error}") from error
    return listener


def close(listener: socket.socket) -> None:
    """Remove the socket's file and close it: once it is closed, the next server may have a file there."""
    path = listener.getsockname()
    if isinstance(path, str) and path:
        Path(path).unlink(missing_ok=True)
    listener.close()


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


def _when_free(address: str, bind: Callable[[], Bound]) -> Bound:
    """Call ``bind`` until the address is free: processes of a killed server may still be ending.

    Raises:
        OSError: it stays in use, or cannot be used.
    """
    until, waited = time.monotonic() + _PATIENCE_S, False
    while True:
        try:
            return bind()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                raise
        if not waited:
            waited = True
            print(
                f"jobsight: {address} is in use; waiting up to {_PATIENCE_S:.0f} s for it", file=sys.stderr, flush=True
            )
        time.sleep(_PAUSE_S)


def _ids(owner: str) -> tuple[int, int]:
    """Return the numbers of ``USER:GROUP``; -1 for an empty one.

    Raises:
        SettingsError: this host has no such user or group, or only root may give them a file.
    """
    user, _, group = owner.partition(":")
    try:
        uid, gid = pwd.getpwnam(user).pw_uid if user else -1, grp.getgrnam(group).gr_gid if group else -1
    except LookupError as error:
        message = f"socket_owner = {owner!r}: this host has no such user or group; write USER, USER:GROUP or :GROUP"
        raise SettingsError(message) from error
    own = uid in (-1, os.geteuid()) and gid in (-1, os.getegid(), *os.getgroups())
    if not own and os.geteuid() != 0:
        raise SettingsError(f"socket_owner = {owner!r}: only root can give the socket away; name a group of the server")
    return uid, gid


def _bound(address: str) -> socket.socket:
    host, port = split_address(address)
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def _bound_file(path: Path, owner: str) -> socket.socket:
    ids = _ids(owner)
    _check_path(path)
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    # Only this user can connect until the owner and the mode are those of the settings.
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
        os.chown(path, *ids)
        path.chmod(0o660)
    except OSError:
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
        raise OSError(errno.EADDRINUSE, "Address already in use")
