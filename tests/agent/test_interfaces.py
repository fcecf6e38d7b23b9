"""Which interfaces are counted, on sysfs trees with the links that Linux makes."""

from __future__ import annotations

import os
from pathlib import Path

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

    def card(self, name: str, slot: str | None = None, **files: str) -> Path:
        address = f"devices/pci0000:00/{slot or name}"
        folder = self._add(name, f"{address}/net/{name}", files)
        (folder / "device").symlink_to("../..")
        return folder

    def virtual(self, name: str, *below: str, **files: str) -> Path:
        folder = self._add(name, f"devices/virtual/net/{name}", files)
        for other in below:
            (folder / f"lower_{other}").symlink_to((self._net / other).resolve())
            ((self._net / other).resolve() / f"upper_{name}").symlink_to(folder)
        return folder

    def master(self, slave: str, master: str) -> None:
        (self._net / slave / "master").symlink_to((self._net / master).resolve())

    def names(self, **options: bool) -> list[str]:
        return [interface.name for interface in find_interfaces(self.root, **options)]

    def pair(self, one: str, other: str) -> None:
        """A veth pair with both ends here."""
        index = len(os.listdir(self._net)) + 1  # noqa: PTH208
        self.virtual(one, iflink=str(index + 1))
        self.virtual(other, iflink=str(index))

    def _add(self, name: str, place: str, files: dict[str, str]) -> Path:
        folder = self.root / place
        folder.mkdir(parents=True)
        index = str(len(os.listdir(self._net)) + 1)  # noqa: PTH208
        for file, text in {"type": "1", "ifindex": index, "iflink": index, "flags": "0x1003", **files}.items():
            (folder / file).write_text(text + "\n")
        (self._net / name).symlink_to(os.path.relpath(folder, self._net))
        return folder


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    sysfs = Sysfs(tmp_path)
    sysfs.virtual("lo", type="772")
    return sysfs


def test_a_card_and_what_is_known_of_it(sysfs: Sysfs) -> None:
    sysfs.card("enp3s0", speed="25000")
    assert find_interfaces(sysfs.root) == (Interface("enp3s0", "ethernet", WIDTH, 25 * 10**9),)


def test_a_bond_counts_as_its_slaves(sysfs: Sysfs) -> None:
    sysfs.card("eth0")
    sysfs.card("eth1")
    bond = sysfs.virtual("bond0", "eth0", "eth1")
    (bond / "bonding").mkdir()
    sysfs.master("eth0", "bond0")
    sysfs.master("eth1", "bond0")
    (sysfs.root / "class/net/bonding_masters").write_text("bond0\n")  # a file among the interfaces
    assert sysfs.names() == ["eth0", "eth1"]


def test_a_bridge_with_a_card_and_virtual_machines_counts_as_the_card(sysfs: Sysfs) -> None:
    sysfs.card("eno1")
    for tap in ("tap0", "vnet1", "veth7a", "vmtap9"):
        (sysfs.virtual(tap) / "tun_flags").write_text("0x1002\n")
    bridge = sysfs.virtual("br0", "eno1", "tap0", "vnet1", "veth7a")
    (bridge / "bridge").mkdir()
    for port in ("eno1", "tap0", "vnet1", "veth7a"):
        sysfs.master(port, "br0")
    assert sysfs.names() == ["eno1"]


VIRTUAL: dict[str, dict[str, str]] = {
    "mirror": {"flags": "0x83"},  # ifb and dummy
    "bridge": {"uevent": "DEVTYPE=bridge"},
    "tunnel bound to nothing": {"type": "768", "iflink": "0", "flags": "0x80"},
    "tunnel that is down": {"type": "65534", "uevent": "DEVTYPE=wireguard", "flags": "0x90"},
}


@pytest.mark.parametrize("files", VIRTUAL.values(), ids=VIRTUAL)
def test_nothing_virtual_counts_beside_a_card_or_alone(sysfs: Sysfs, files: dict[str, str]) -> None:
    sysfs.virtual("port0", **files)
    assert sysfs.names() == []
    sysfs.card("eth0")
    assert sysfs.names() == ["eth0"]


@pytest.mark.parametrize(
    "files",
    [{"iflink": "40"}, {"uevent": "DEVTYPE=vxlan"}, {"uevent": "DEVTYPE=wireguard", "type": "65534"}],
    ids=["veth of a container", "VXLAN without dev", "WireGuard"],
)
@pytest.mark.parametrize("name", ["veth1", "ens5"])
def test_a_name_makes_no_card(sysfs: Sysfs, name: str, files: dict[str, str]) -> None:
    """Of a container its host sees a veth under any name, and a VXLAN need not say on which card it is."""
    sysfs.card("eth0")
    sysfs.virtual(name, **files)
    assert sysfs.names() == ["eth0"]


@pytest.mark.parametrize("sign", ["iflink", "parent", "lower"])
def test_a_partition_of_an_infiniband_card_counts_once(sysfs: Sysfs, sign: str) -> None:
    """It has the card's ``device``; without RDMA ports there are no other counters. Kernels differ in the sign."""
    sysfs.card("ib0", type="32", ifindex="7", iflink="7")
    files = {"iflink": {"iflink": "7"}, "parent": {"parent": "ib0"}, "lower": {}}[sign]
    child = sysfs.card("ib0.8001", "ib0x", type="32", **files)
    if sign == "lower":
        (child / "lower_ib0").symlink_to(sysfs.root / "class/net/ib0")
    assert sysfs.names() == ["ib0"]


def test_a_port_of_a_switch_chip_counts_once(sysfs: Sysfs) -> None:
    sysfs.card("eth0", ifindex="4", iflink="4")
    sysfs.card("lan1", iflink="4", uevent="DEVTYPE=dsa")
    assert sysfs.names() == ["eth0"]


def test_a_paravirtual_card_above_its_virtual_function_counts(sysfs: Sysfs) -> None:
    """Hyper-V: the upper one counts what both carry, and sysfs shows the lower one below it."""
    upper = sysfs.card("eth0")
    sysfs.card("enP1p0s2")
    sysfs.master("enP1p0s2", "eth0")
    (upper / "lower_enP1p0s2").symlink_to(sysfs.root / "class/net/enP1p0s2")
    assert sysfs.names() == ["eth0"]


@pytest.mark.parametrize(
    ("port_name", "counted"), [("p0", True), ("pf0vf3", False), ("c1pf0vf3", False), ("pf0sf88", False), ("", True)]
)
def test_a_port_that_stands_for_a_virtual_function_does_not_count(sysfs: Sysfs, port_name: str, counted: bool) -> None:
    sysfs.card("eth0", phys_port_name=port_name)
    assert sysfs.names() == (["eth0"] if counted else [])


@pytest.mark.parametrize("name", ["eth0", "veth0", "tap3", "lan"])
def test_a_container_counts_its_way_out_under_any_name(sysfs: Sysfs, name: str) -> None:
    sysfs.virtual(name, iflink="12")
    sysfs.virtual("fabric", uevent="DEVTYPE=vxlan")  # without dev: nothing says that it is on the other
    sysfs.virtual("wg", type="65534", uevent="DEVTYPE=wireguard")
    sysfs.pair("red", "blue")
    assert sysfs.names() == [name]


def test_an_end_outside_may_have_the_number_of_a_stranger_here(sysfs: Sysfs) -> None:
    sysfs.virtual("eth0", iflink="7")
    sysfs.virtual("tap0", ifindex="7", iflink="7").joinpath("tun_flags").write_text("0x1002")
    assert sysfs.names() == ["eth0"]


def test_an_end_outside_may_have_the_number_of_its_peer_here(sysfs: Sysfs) -> None:
    """As in two fresh namespaces with one cable."""
    sysfs.virtual("eth0", ifindex="2", iflink="2")
    assert sysfs.names() == ["eth0"]


def test_an_ip_tunnel_bound_to_the_way_out_counts_once(sysfs: Sysfs) -> None:
    sysfs.virtual("eth0", ifindex="4", iflink="12")
    sysfs.virtual("gre1", type="778", iflink="4")
    assert sysfs.names() == ["eth0"]


def test_a_container_with_several_ways_out_counts_them_all(sysfs: Sysfs) -> None:
    sysfs.virtual("eth0", iflink="12")
    sysfs.virtual("net1", iflink="3", uevent="DEVTYPE=macvlan", ifindex="5")
    assert sysfs.names() == ["eth0", "net1"]


def test_containers_in_a_container_pass_its_way_out(sysfs: Sysfs) -> None:
    sysfs.virtual("eth0", iflink="12")
    sysfs.virtual("inner1", iflink="90")
    sysfs.virtual("inner2", iflink="91")
    (sysfs.virtual("docker0", "inner1", "inner2") / "bridge").mkdir()
    sysfs.master("inner1", "docker0")
    sysfs.master("inner2", "docker0")
    assert sysfs.names() == ["eth0"]


def test_a_bridge_over_the_way_out_counts_as_its_oldest_port(sysfs: Sysfs) -> None:
    sysfs.virtual("eth0", iflink="12")
    sysfs.virtual("a-inner", iflink="90")
    (sysfs.virtual("lan", "eth0", "a-inner") / "bridge").mkdir()
    sysfs.master("eth0", "lan")
    sysfs.master("a-inner", "lan")
    assert sysfs.names() == ["eth0"]


def test_a_rootless_container_counts_its_tap_if_there_is_no_other(sysfs: Sysfs) -> None:
    (sysfs.virtual("tap0") / "tun_flags").write_text("0x1002")
    (sysfs.virtual("mybridge") / "bridge").mkdir()
    assert sysfs.names() == ["tap0"]
    sysfs.virtual("wg0", type="65534", uevent="DEVTYPE=wireguard", flags="0x91")  # perhaps through the tap
    assert sysfs.names() == []


def test_a_container_with_stacked_interfaces_counts_the_lowest(sysfs: Sysfs) -> None:
    sysfs.virtual("net1", iflink="12")
    sysfs.virtual("net1x", "net1", iflink="2")
    (sysfs.virtual("pair", iflink="13") / "bonding").mkdir()
    assert sysfs.names() == ["net1"]


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
