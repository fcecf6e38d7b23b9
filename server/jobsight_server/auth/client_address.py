"""Which client a request came from, where proxies pass requests on."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix"
"""The proxy at the other end of a Unix socket, which has no address."""

_HOPS_AT_MOST = 16
_LENGTH_AT_MOST = 64  # of an address as text, with room for spaces


def trusted_proxy(text: str) -> IPv4Network | IPv6Network | None:
    """The network, or the one address, that ``text`` names; None of ``unix``.

    Raises:
        ValueError: it is neither.
    """
    if text == UNIX:
        return None
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; give an address, a network such as 10.0.0.0/8, or {UNIX}") from error


class TrustedProxies:
    """Reads X-Forwarded-For, as far as those wrote it whose word counts."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self._networks = frozenset(trusted_proxy(proxy) for proxy in proxies)

    def client(self, peer: str, forwarded: str) -> str:
        """The client's address: ``peer``, or the right-most address in ``forwarded`` that is no trusted proxy.

        What stands left of it the client may have made up. An entry that is no address ends the search at the proxy
        that passed it on.
        """
        found = _address(peer)
        entries = forwarded.rsplit(",", _HOPS_AT_MOST)[-_HOPS_AT_MOST:] if forwarded else []
        while entries and self._trusts(found):
            before = _address(entries.pop())
            if before is None:
                break
            found = before
        return peer if found is None else str(found)

    def trusts(self, peer: str) -> bool:
        """Whether the other end of this connection is a trusted proxy; "" is that of a Unix socket."""
        return self._trusts(_address(peer)) if peer else self._trusts(None)

    def _trusts(self, address: IPv4Address | IPv6Address | None) -> bool:
        if address is None:
            return None in self._networks
        return any(network is not None and address in network for network in self._networks)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """None of what is no address. An IPv4 client of an IPv6 socket has its IPv4 address."""
    try:
        address = ip_address(text[:_LENGTH_AT_MOST].strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
