"""Addresses to listen on, written as ``HOST:PORT``."""

from __future__ import annotations

import socket

from jobsight_server.settings import SettingsError


def split_address(address: str) -> tuple[str, int]:
    """``HOST:PORT`` as host and port.

    >>> split_address("127.0.0.1:8470")
    ('127.0.0.1', 8470)
    """
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 65536):
        raise SettingsError(f"{address!r} is not an address; write HOST:PORT, for example 127.0.0.1:8470")
    return host.strip("[]"), int(port)


def check_addresses(*addresses: str) -> None:
    """Checks that each address is valid, that none is named twice and that nothing listens there yet.

    Raises:
        SettingsError: the message names the address and the flags that choose another.
    """
    if len(set(addresses)) < len(addresses):
        raise SettingsError(f"--listen and --ingest-listen are both {addresses[0]}; give each an address of its own")
    for address in addresses:
        host, port = split_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # as the server does; a listener still conflicts
            try:
                probe.bind((host, port))
            except OSError as error:
                reason = error.strerror or str(error)
                raise SettingsError(f"{address}: {reason}; choose others with --listen and --ingest-listen") from error
