"""The client's address behind proxies, real and pretended."""

from __future__ import annotations

import socket
import time

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsight_server.auth.client_address import TrustedProxies, on_this_host
from jobsight_server.front.wsgi import environ_of
from jobsight_server.settings.load import SettingsError, load_settings

PROXIES = TrustedProxies(["127.0.0.1", "10.1.0.0/16", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "198.51.100.7,192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "198.51.100.7 , 192.0.2.1 ,10.1.255.1", "192.0.2.1"),
        ("127.0.0.1", "10.1.0.1, 10.1.0.2", "10.1.0.1"),
        ("127.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("127.0.0.1", "2001:DB8:0::1", "2001:db8::1"),
        ("::ffff:127.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
        ("fd00::2", "192.0.2.1", "192.0.2.1"),
        # From those who are no proxy of ours.
        ("192.0.2.9", "198.51.100.7", "192.0.2.9"),
        ("192.0.2.9", "127.0.0.1", "192.0.2.9"),
        ("10.2.0.1", "198.51.100.7", "10.2.0.1"),
        ("", "198.51.100.7", ""),
        # Garbage is no address, and no one vouches for what stands left of it.
        ("127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.7, x", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.7, , 10.1.0.9", "10.1.0.9"),
        ("127.0.0.1", ",", "127.0.0.1"),
        ("127.0.0.1", "192.0.2.1:80", "127.0.0.1"),
        ("127.0.0.1", "1" * 5000, "127.0.0.1"),
        ("127.0.0.1", "192.0.2.1" + " " * 5000, "192.0.2.1"),
    ],
)
def test_the_client_is_the_last_that_is_no_proxy_of_ours(peer: str, forwarded: str, client: str) -> None:
    assert PROXIES.client(peer, forwarded) == client


def test_by_default_the_header_is_ignored() -> None:
    assert TrustedProxies(load_settings(flags={}).trusted_proxies).client("127.0.0.1", "192.0.2.1") == "127.0.0.1"


def test_the_end_of_a_unix_socket_may_be_a_proxy() -> None:
    assert TrustedProxies(["unix"]).client("unix", "198.51.100.7, 192.0.2.1") == "192.0.2.1"
    assert TrustedProxies(["unix"]).client("127.0.0.1", "192.0.2.1") == "127.0.0.1"


def test_a_client_that_has_gone_is_no_unix_socket() -> None:
    """After a reset of the connection its address is unknown; it must not count as the proxy."""
    of_request = {"method": "GET", "raw_path": b"/", "query_string": b"", "http_version": "1.1", "headers": []}
    gone = environ_of({**of_request, "server": ("127.0.0.1", 8470), "client": None})
    on_socket = environ_of({**of_request, "server": ("/run/jobsight/http.sock", None), "client": None})
    trusted = TrustedProxies(["unix"])
    assert (gone["REMOTE_ADDR"], on_socket["REMOTE_ADDR"]) == ("", "unix")
    assert (trusted.trusts(gone["REMOTE_ADDR"]), trusted.trusts(on_socket["REMOTE_ADDR"])) == (False, True)
    assert TrustedProxies(["0.0.0.0/0", "::/0"]).trusts("unix") is False


def test_networks_with_an_address_of_this_host() -> None:
    assert on_this_host(["127.0.0.0/30", "::1", "0.0.0.0/0", "unix", "203.0.113.0/24"]) == [
        "127.0.0.0/30",
        "::1",
        "0.0.0.0/0",
    ]
    own = [one.address for some in psutil.net_if_addrs().values() for one in some if one.family == socket.AF_INET]
    assert on_this_host(own) == list(dict.fromkeys(own)), "one that connects from its own address is local as well"


def test_a_very_long_list_costs_nothing() -> None:
    """Only a bounded number of proxies is examined, however long the list."""
    began = time.process_time()
    for _ in range(100):
        assert PROXIES.client("127.0.0.1", "10.1.0.1," * 200_000 + "10.1.0.2") == "10.1.0.1"
    assert time.process_time() - began < 5.0


@given(st.text(max_size=200), st.sampled_from(["127.0.0.1", "10.1.2.3", "192.0.2.1", ""]))
def test_no_header_makes_it_fail(forwarded: str, peer: str) -> None:
    found = PROXIES.client(peer, forwarded)
    assert len(found) < 64
    if peer in ("192.0.2.1", ""):
        assert found == peer


@pytest.mark.parametrize("value", ["10.0.0.1/8", "localhost", "10.0.0.0/33", "*", ""])
def test_a_proxy_that_is_no_network_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match=r"trusted_proxies = .*give an address, a network such as 10\.0\.0\.0/8"):
        load_settings(flags={"trusted_proxies": [value]})
