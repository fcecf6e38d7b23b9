"""Which network interfaces are physical, so that no byte is counted twice (DEFINITIONS 1).

A kernel lists each packet under every interface that it passes: on the card, on the bond above it, on the VLAN
above that. Only cards are counted: those with a ``device`` in sysfs. A virtual machine's virtio card has one too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from jobsight_agent.reading import Interface

ARP_ETHERNET = 1
ARP_INFINIBAND = 32
ARP_LOOPBACK = 772

VIRTUAL_NAMES = re.compile(
    r"(lo|veth|docker|podman|cni|flannel|cali|br-|br\d|virbr|ifb|tun|tap|dummy|bond|team|vlan|vxlan|geneve|gre|sit|"
    r"ip6|ipip|tunl|wg|macvtap|nlmon|vmnet|lxc)|.*[.@]"
)
# A switch port inside the card, standing for a virtual function; its traffic passes the uplink too.
REPRESENTOR = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+")


def kernel_width_bits() -> int:
    """The width of the running kernel's interface counters: an ``unsigned long``."""
    return 64 if "64" in os.uname().machine or os.uname().machine == "s390x" else 32


def find_interfaces(
    sys_root: Path, *, infiniband_counted: bool = False, widths: Mapping[str, int] | None = None
) -> tuple[Interface, ...]:
    """The interfaces to count under ``sys_root/class/net``, by name; empty where there is no such directory.

    A container has no card: there everything that is not known to be loopback or stacked on another is taken.
    ``infiniband_counted`` leaves out IP over InfiniBand, whose bytes the port's own counters hold already.
    ``widths`` declares the counters of drivers that wrap at 32 bits on a 64-bit kernel.
    """
    net = sys_root / "class" / "net"
    try:
        names = sorted(os.listdir(net))  # noqa: PTH208
    except OSError:
        return ()
    devices = [name for name in names if (net / name / "device").exists()]
    if devices:
        cards = [name for name in devices if not _passes_another(net / name)]
    else:
        cards = [name for name in names if not _is_virtual(net, name)]
    if infiniband_counted:
        cards = [name for name in cards if _type(net / name) != ARP_INFINIBAND]
    return tuple(
        Interface(
            name=name,
            kind=_kind(net / name),
            width_bits=(widths or {}).get(name, kernel_width_bits()),
            speed_bps=_speed_bps(net / name),
        )
        for name in cards
    )


def _passes_another(folder: Path) -> bool:
    """Whether what this device counts is counted by another one too."""
    # A virtual function enslaved to a paravirtual card (Hyper-V, virtio failover): the card's counters include it.
    if (folder / "master" / "device").exists():
        return True
    return REPRESENTOR.fullmatch(_text(folder / "phys_port_name")) is not None


def _is_virtual(net: Path, name: str) -> bool:
    folder = net / name
    if not folder.is_dir() or _type(folder) == ARP_LOOPBACK or VIRTUAL_NAMES.match(name):
        return True
    if any((folder / sign).exists() for sign in ("bridge", "bonding", "tun_flags")):
        return True
    return any(entry.startswith("lower_") for entry in os.listdir(folder))  # noqa: PTH208


def _kind(folder: Path) -> str:
    if not (folder / "device").exists():
        return "other"
    return {ARP_ETHERNET: "ethernet", ARP_INFINIBAND: "infiniband"}.get(_type(folder), "other")


def _type(folder: Path) -> int:
    text = _text(folder / "type")
    return int(text) if text.isdecimal() else -1


def _speed_bps(folder: Path) -> int | None:
    """Megabits in the file; -1 or an error where the driver does not know or the link is down."""
    text = _text(folder / "speed")
    return int(text) * 1_000_000 if text.isdecimal() and 0 < int(text) < 2**31 else None


def _text(path: Path) -> str:
    try:
        return path.read_bytes()[:4096].decode("ascii", "replace").strip()
    except OSError:
        return ""
