"""Which interfaces are counted, on sysfs trees with the links that Linux makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobsight_agent.interfaces import find_interfaces, kernel_width_bits
from jobsight_agent.reading import Interface

WIDTH = kernel_width_bits()


class Sysfs:
    """``class/net`` holds links into ``devices``, a card's ``device`` one to its bus address, as in Linux."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._net = root / "class/net"
        self._net.mkdir(parents=True)

    def card(self, name: str, *below: str, master: str | None = None, **files: str) -> None:
        folder = self._add(name, f"devices/pci0000:00/{name}/net/{name}", files)
        (folder / "device").symlink_to("../..")
        self._stack(folder, below, master)

    def virtual(self, name: str, *below: str, master: str | None = None, **files: str) -> None:
        self._stack(self._add(name, f"devices/virtual/net/{name}", files), below, master)

    def _stack(self, folder: Path, below: tuple[str, ...], master: str | None) -> None:
        """Put it above the ones ``below``, as their master with a folder of that name."""
        if master:
            (folder / master).mkdir()
        if master == "bonding":
            (self._net / "bonding_masters").write_text("a file among the interfaces")
        for other in below:
            lower = (self._net / other).resolve()
            (folder / f"lower_{other}").symlink_to(lower)
            (lower / f"upper_{folder.name}").symlink_to(folder)
            if master is not None:
                (lower / "master").symlink_to(folder)

    def names(self, **options: bool) -> list[str]:
        return [interface.name for interface in find_interfaces(self.root, **options)]

    def _add(self, name: str, place: str, files: dict[str, str]) -> Path:
        folder = self.root / place
        folder.mkdir(parents=True)
        index = str(len(os.listdir(self._net)) + 1)  # noqa: PTH208
        for file, text in {"type": "1", "ifindex": index, "iflink": index, "flags": "0x1003", **files}.items():
            (folder / file).write_text(text + "\n")
        (self._net / name).symlink_to(os.path.relpath(folder, self._net))
        return folder


Layer = Callable[[Sysfs], None]


def card(name: str, *below: str, **files: Any) -> Layer:
    return lambda sysfs: sysfs.card(name, *below, **files)


def virtual(name: str, *below: str, **files: Any) -> Layer:
    return lambda sysfs: sysfs.virtual(name, *below, **files)


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    sysfs = Sysfs(tmp_path)
    sysfs.virtual("lo", type="772")
    return sysfs


def test_a_card_and_what_is_known_of_it(sysfs: Sysfs) -> None:
    sysfs.card("enp3s0", speed="25000")
    assert find_interfaces(sysfs.root) == (Interface("enp3s0", "ethernet", WIDTH, 25 * 10**9),)


WIREGUARD = {"type": "65534", "uevent": "DEVTYPE=wireguard"}
TAP = {"tun_flags": "0x1002"}
STACKED: dict[str, tuple[list[Layer], str]] = {
    "a bond": ([card("eth0"), card("eth1"), virtual("bond0", "eth0", "eth1", master="bonding")], "eth0 eth1"),
    "a bridge with machines": (
        [card("eno1"), virtual("vmtap9", **TAP), *(virtual(tap, **TAP) for tap in ("tap0", "vnet1", "veth7a")),
         virtual("br0", "eno1", "tap0", "vnet1", "veth7a", master="bridge")],
        "eno1",
    ),
    "a mirror (ifb and dummy)": ([card("eth0"), virtual("port0", flags="0x83")], "eth0"),
    "a mirror alone": ([virtual("port0", flags="0x83")], ""),
    "a bridge alone": ([virtual("port0", uevent="DEVTYPE=bridge")], ""),
    "a tunnel bound to nothing": ([virtual("port0", type="768", iflink="0", flags="0x80")], ""),
    "a tunnel that is down": ([virtual("port0", **WIREGUARD, flags="0x90")], ""),
    # Of a container its host sees a veth under any name, and a VXLAN need not say on which card it is.
    "a veth of a container": ([card("eth0"), virtual("ens5", iflink="40")], "eth0"),
    "VXLAN without dev": ([card("eth0"), virtual("ens5", uevent="DEVTYPE=vxlan")], "eth0"),
    "WireGuard": ([card("eth0"), virtual("veth1", **WIREGUARD)], "eth0"),
    # A partition of InfiniBand has the card's ``device``; kernels differ in the sign.
    "a partition by iflink": ([card("ib0", type="32", ifindex="7", iflink="7"), card("ib0.8001", iflink="7")], "ib0"),
    "a partition by parent": ([card("ib0", type="32"), card("ib0.8001", type="32", parent="ib0")], "ib0"),
    "a partition by lower": ([card("ib0", type="32"), card("ib0.8001", "ib0", type="32")], "ib0"),
    "a port of a switch chip": ([card("eth0", ifindex="4"), card("lan1", iflink="4", uevent="DEVTYPE=dsa")], "eth0"),
    # Hyper-V: the upper one counts what both carry, and sysfs shows the lower one below it.
    "a paravirtual card": ([card("enP1p0s2"), card("eth0", "enP1p0s2", master="")], "eth0"),
    **{
        f"a port {name!r} of a function": ([card("eth0", phys_port_name=name)], "eth0" if counts else "")
        for name, counts in (("p0", True), ("pf0vf3", False), ("c1pf0vf3", False), ("pf0sf88", False), ("", True))
    },
    **{
        f"the way out {name} of a container": (
            [virtual(name, iflink="12"), virtual("fabric", uevent="DEVTYPE=vxlan"), virtual("wg", **WIREGUARD),
             virtual("red", ifindex="50", iflink="51"), virtual("blue", ifindex="51", iflink="50")],
            name,
        )
        for name in ("eth0", "veth0", "tap3", "lan")
    },
    "an end outside with a stranger's number": (
        [virtual("eth0", iflink="7"), virtual("tap0", ifindex="7", iflink="7", **TAP)], "eth0"
    ),
    "an end outside with its peer's number": ([virtual("eth0", ifindex="2", iflink="2")], "eth0"),
    "an IP tunnel on the way out": (
        [virtual("eth0", ifindex="4", iflink="12"), virtual("gre1", type="778", iflink="4")], "eth0"
    ),
    "several ways out": (
        [virtual("eth0", iflink="12"), virtual("net1", iflink="3", uevent="DEVTYPE=macvlan", ifindex="5")], "eth0 net1"
    ),
    "containers in a container": (
        [virtual("eth0", iflink="12"), virtual("inner1", iflink="90"), virtual("inner2", iflink="91"),
         virtual("docker0", "inner1", "inner2", master="bridge")],
        "eth0",
    ),
    "a bridge over the way out": (
        [virtual("eth0", iflink="12"), virtual("a-inner", iflink="90"),
         virtual("lan", "eth0", "a-inner", master="bridge")],
        "eth0",
    ),
    "a rootless container": ([virtual("tap0", **TAP), virtual("mybridge", master="bridge")], "tap0"),
    "a rootless container with a tunnel, perhaps through its tap": (
        [virtual("tap0", **TAP), virtual("wg0", **WIREGUARD, flags="0x91")], ""
    ),
    "stacked in a container": (
        [virtual("net1", iflink="12"), virtual("net1x", "net1", iflink="2"),
         virtual("pair", iflink="13", master="bonding")],
        "net1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("layers", "counted"), STACKED.values(), ids=STACKED)
def test_what_is_stacked_counts_once(sysfs: Sysfs, layers: list[Layer], counted: str) -> None:
    for layer in layers:
        layer(sysfs)
    assert sysfs.names() == counted.split()


def test_ip_over_infiniband_counts_only_where_the_port_does_not(sysfs: Sysfs) -> None:
    sysfs.card("eth0")
    sysfs.card("ib0", type="32", speed="100000")
    assert [interface.kind for interface in find_interfaces(sysfs.root)] == ["ethernet", "infiniband"]
    assert sysfs.names(infiniband_counted=True) == ["eth0"]


@pytest.mark.parametrize(
    ("text", "speed_bps"),
    [
        ("10", 10**7), ("400000", 4 * 10**11), ("-1", None), ("0", None), ("", None), ("unknown", None),
        ("4294967295", None), ("1e4", None), ("9" * 5000, None), ("١٠", None),
    ],
)  # fmt: skip
def test_a_speed_that_is_not_known_is_none(sysfs: Sysfs, text: str, speed_bps: int | None) -> None:
    sysfs.card("eth0", speed=text)
    assert find_interfaces(sysfs.root)[0].speed_bps == speed_bps


@pytest.mark.parametrize("text", ["", "x", "-1", "65534", "9" * 5000])
def test_a_card_of_another_type_counts(sysfs: Sysfs, text: str) -> None:
    sysfs.card("eth0", type=text)
    assert find_interfaces(sysfs.root)[0].kind == "other"


def test_a_link_that_leads_nowhere(sysfs: Sysfs) -> None:
    sysfs.card("eth0")
    (sysfs.root / "class/net/eth1").symlink_to("../../devices/gone")
    (sysfs.root / "class/net/eth2").symlink_to("eth2")
    assert sysfs.names() == ["eth0"]
