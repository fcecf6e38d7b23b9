"""Interfaces that the kernel itself makes, in network namespaces: bytes are known from the other side of the cable.

Needs root and network namespaces; a kind of interface that this kernel has not is skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobsight_agent.reading import Reading, from_record

AGENT = Path(__file__).parents[2] / "agent"
READER = """
import json, sys
from jobsight_agent.counters import NodeReader
from jobsight_agent.reading import to_record
reader = NodeReader(cgroups=())
for _ in sys.stdin:
    print(json.dumps(to_record(reader.read())), flush=True)
"""
SENDER = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    sender.sendto(bytes(1000), (sys.argv[1], 9))
"""


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Cable:
    """A namespace as a node, whose veth ends are its cards, and one on the other side that counts what arrives."""

    def __init__(self, name: str) -> None:
        self.node, self.outside = f"{name}-node", f"{name}-out"
        self._reader: subprocess.Popen[str] | None = None

    def open(self) -> None:
        for space in (self.node, self.outside):
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        far = ("link", "add", "o0", "type", "veth", "peer", "name", "eth0", "netns", self.node)
        ip("-n", self.outside, *far)
        for space, end, host in ((self.node, "eth0", 1), (self.outside, "o0", 2)):
            ip("-n", space, "address", "add", f"10.9.0.{host}/24", "dev", end)
            ip("-n", space, "link", "set", end, "up")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.communicate()
        for space in (self.node, self.outside, f"{self.node}-inner"):
            with contextlib.suppress(OSError):
                ip("netns", "del", space)

    def add(self, name: str, *kind: str) -> None:
        """Add a virtual interface; skip the test if the kernel has none of its kind."""
        try:
            ip("-n", self.node, "link", "add", "name", name, *kind)
        except OSError as error:
            if any(reason in str(error) for reason in ("Unknown device type", "not supported", "invalid lladdr")):
                pytest.skip(f"this kernel has no {kind[kind.index('type') + 1]}")
            raise
        ip("-n", self.node, "link", "set", name, "up")

    def read(self) -> Reading:
        if self._reader is None:
            command = ["ip", "netns", "exec", self.node, sys.executable, "-c", READER]
            environment = {**os.environ, "PYTHONPATH": str(AGENT)}
            self._reader = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
        assert self._reader.stdin is not None
        assert self._reader.stdout is not None
        self._reader.stdin.write("now\n")
        self._reader.stdin.flush()
        return from_record(json.loads(self._reader.stdout.readline()))

    def send(self) -> None:
        """200 packets of 1,000 bytes from the node."""
        command = ["ip", "netns", "exec", self.node, sys.executable, "-IS", "-c", SENDER, "10.9.0.2", "200"]
        subprocess.run(command, check=True, timeout=60)

    def arrived(self) -> tuple[int, int]:
        """Bytes that the other side received and sent, over all its cards."""
        command = ["ip", "netns", "exec", self.outside, "cat", "/proc/net/dev"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        rows = [line.partition(":")[2].split() for line in lines if line.lstrip().startswith("o")]
        return sum(int(row[0]) for row in rows), sum(int(row[8]) for row in rows)

    def settled(self) -> tuple[Reading, tuple[int, int]]:
        """A reading, and the other side's counts when nothing is under way."""
        deadline = time.monotonic() + 20
        while True:
            before, reading, after = self.arrived(), self.read(), self.arrived()
            if before == after:
                return reading, after
            assert time.monotonic() < deadline, "the line is never quiet"
            time.sleep(0.05)


@pytest.fixture
def cable() -> Iterator[Cable]:
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("needs root and ip (iproute2)")
    made = Cable(f"jobsight{os.getpid()}")
    try:
        made.open()
    except OSError as error:
        made.close()
        pytest.skip(f"no network namespaces here: {error}")
    try:
        yield made
    finally:
        made.close()


def counted(earlier: Reading, later: Reading) -> tuple[int, int]:
    """Bytes out and in between two readings of the same interfaces, summed as the server does."""
    assert earlier.interfaces == later.interfaces
    return tuple(  # type: ignore[return-value]
        sum(now - then for now, then in zip(getattr(later, way), getattr(earlier, way), strict=True))
        for way in ("bytes_out", "bytes_in")
    )


def check(cable: Cable) -> None:
    """Check that the node counts 200 kB exactly as the other side does."""
    first, before = cable.settled()
    deadline = time.monotonic() + 30
    cable.send()
    last, after = cable.settled()
    while after[0] - before[0] < 200_000:  # a bridge forwards when it is ready to, and an address is asked for first
        assert time.monotonic() < deadline, f"{after[0] - before[0]} bytes arrived"
        cable.send()
        last, after = cable.settled()
    assert counted(first, last) == (after[0] - before[0], after[1] - before[1])


def test_the_only_way_out_is_counted_to_the_byte(cable: Cable) -> None:
    check(cable)


STACKED = {
    "VLAN": ("link", "eth0", "type", "vlan", "id", "5"),
    "macvlan": ("link", "eth0", "type", "macvlan", "mode", "bridge"),
    "ipvlan": ("link", "eth0", "type", "ipvlan"),
    "VXLAN": ("type", "vxlan", "id", "7", "dstport", "4789", "remote", "10.9.0.2", "dev", "eth0"),
    "GRE": ("type", "gre", "local", "10.9.0.1", "remote", "10.9.0.2", "dev", "eth0"),
    "IP in IP": ("type", "ipip", "local", "10.9.0.1", "remote", "10.9.0.2"),
    "Geneve": ("type", "geneve", "id", "5", "remote", "10.9.0.2"),
    "WireGuard": ("type", "wireguard"),
    "bridge": ("type", "bridge"),
    "bond": ("type", "bond"),
    "team": ("type", "team"),
    "dummy": ("type", "dummy"),
    "mirror": ("type", "ifb"),
    "pair": ("type", "veth", "peer", "name", "eth7"),
}


@pytest.mark.parametrize("kind", STACKED.values(), ids=STACKED)
def test_nothing_virtual_is_counted_beside_the_way_out(cable: Cable, kind: tuple[str, ...]) -> None:
    cable.add("eth5", *kind)
    assert [port.name for port in cable.read().interfaces] == ["eth0"]
    check(cable)


@pytest.mark.parametrize("kind", ["bond", "bridge"])
def test_what_carries_a_bond_or_bridge_counts_once(cable: Cable, kind: str) -> None:
    cable.add("stack", "type", kind, *(("forward_delay", "0") if kind == "bridge" else ()))
    ip("-n", cable.node, "address", "flush", "dev", "eth0")
    ip("-n", cable.node, "link", "set", "eth0", "down")
    ip("-n", cable.node, "link", "set", "eth0", "master", "stack")
    ip("-n", cable.node, "link", "set", "eth0", "up")
    ip("-n", cable.node, "address", "add", "10.9.0.1/24", "dev", "stack")
    assert [port.name for port in cable.read().interfaces] == ["eth0"]
    check(cable)


def test_a_container_in_a_bridge_inside_passes_the_way_out(cable: Cable) -> None:
    cable.add("inner", "type", "bridge")
    space = f"{cable.node}-inner"
    ip("netns", "add", space)
    ip("-n", cable.node, "link", "add", "lan1", "type", "veth", "peer", "name", "eth0", "netns", space)
    ip("-n", cable.node, "link", "set", "lan1", "master", "inner", "up")
    assert [port.name for port in cable.read().interfaces] == ["eth0"]
