"""The client of a request, if proxies pass requests on."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix"
"""The other end of a Unix socket, which has no address."""

_INET = frozenset({socket.AF_INET, socket.AF_INET6})
_LOOPBACK = ("127.0.0.0/8", "::1")
_HOPS_AT_MOST = 16
_LENGTH_AT_MOST = 64  # characters of an address, with room for spaces


def trusted_proxy(text: str) -> IPv4Network | IPv6Network | None:
    """Return the network or the single address in ``text``; None for ``unix``.

    Raises:
        ValueError: neither of these.
    """
    if text == UNIX:
        return None
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; give an address, a network such as 10.0.0.0/8, or {UNIX}") from error


def on_this_host(proxies: Iterable[str]) -> list[str]:
    """Return the networks among ``proxies`` from which an account of this host can connect."""
    import psutil  # only for `serve`: it costs other commands 20 ms

    addresses = (
        one.address.partition("%")[0] for some in psutil.net_if_addrs().values() for one in some if one.family in _INET
    )
    local = [ip_network(address) for address in (*_LOOPBACK, *addresses)]
    networks = {proxy: network for proxy in proxies if (network := trusted_proxy(proxy)) is not None}
    return [proxy for proxy, network in networks.items() if any(map(network.overlaps, local))]


class TrustedProxies:
    """Reads X-Forwarded-For as far as trusted proxies wrote it."""

    def __init__(self, proxies: Iterable[str]) -> None:
        found = [trusted_proxy(proxy) for proxy in proxies]
        self._networks = frozenset(network for network in found if network is not None)
        self._unix = None in found

    def client(self, peer: str, forwarded: str) -> str:
        """Return the client's address: ``peer``, or the right-most address in ``forwarded`` that is not a trusted
        proxy.

        The client may have forged entries left of it. An invalid entry ends the search at the proxy that passed it on.
        """
        address = _address(peer)
        found = peer if address is None else str(address)
        entries = forwarded.rsplit(",", _HOPS_AT_MOST)[-_HOPS_AT_MOST:] if forwarded else []
        while entries and self.trusts(found):
            before = _address(entries.pop())
            if before is None:
                break
            found = str(before)
        return found

    def trusts(self, peer: str) -> bool:
        """Return whether the other end of this connection, an address or ``unix``, is a trusted proxy."""
        if peer == UNIX:
            return self._unix
        address = _address(peer)
        return address is not None and any(address in network for network in self._networks)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address in a text; None if invalid. An IPv4 client of an IPv6 socket has its IPv4 address."""
    try:
        address = ip_address(text[:_LENGTH_AT_MOST].strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
