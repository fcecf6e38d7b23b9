"""The demo's ports: checked before anything is installed, using only the standard library.

    python examples/ports.py [HOST:PORT]

The dashboard takes the named port, agents the next one. Without a named port, the first free pair is used.
"""

from __future__ import annotations

import socket
import sys

USUAL = "127.0.0.1:8470"
_STEP = 10
_TRIED = 100


def choose(wanted: str | None) -> str:
    """Return HOST:PORT with this port and the next free: the wanted one, or the first free pair from 8470 on.

    Raises:
        OSError: the wanted one is taken or not an address; the message names the option for another.
    """
    host, _, port = (wanted or USUAL).rpartition(":")
    try:
        first = int(port)
        if not host or not 0 < first < 65535:
            raise ValueError
    except ValueError:
        raise OSError(f"{wanted} is not an address: give HOST:PORT, as in `make demo LISTEN={USUAL}`") from None
    if wanted is not None:
        for number in (first, first + 1):
            if reason := taken(host, number):
                other = f"{host}:{first + 1000 if first < 60000 else first - 1000}"
                raise OSError(f"{host}:{number}: {reason}; choose another with `make demo LISTEN={other}`")
        return wanted
    for number in range(first, first + _STEP * _TRIED, _STEP):
        if not (taken(host, number) or taken(host, number + 1)):
            return f"{host}:{number}"
    raise OSError(f"no free pair of ports from {USUAL} on; choose one with `make demo LISTEN={host}:PORT`")


def taken(host: str, port: int) -> str | None:
    """Return why nothing can listen there; None if it can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does; a listener still conflicts
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    try:
        chosen = choose(wanted)
    except OSError as error:
        sys.exit(f"demo: {error}")
    if wanted is None and chosen != USUAL:
        print(f"Port 8470 or 8471 is in use; the demo will listen on {chosen}.")


if __name__ == "__main__":
    main()
