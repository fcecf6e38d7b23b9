"""Chooses the network interfaces to count, so that each byte of a node's traffic counts once.

A kernel lists each packet under every interface that it passes: on the card, on the bond above it, on the VLAN above
that. sysfs says what an interface is; its name does not (docs/use/definitions.md, Interfaces).

1. *Cards*, which have a ``device``; a virtual machine's virtio card has one too. Not counted: a card below a
   paravirtual one, a switch port for a virtual function, and a child of another card (an InfiniBand partition).
2. A container or network namespace has no card. There an interface counts if its other end (``iflink``) is outside:
veth, macvlan, ipvlan, a VLAN that was moved in. Not counted: pairs with both ends here, and ports of a bridge (to
containers inside this one) beside an interface that is no such port.
3. Without any of these, a tunnel or tap counts if it is the only one and up: a rootless container's way out. Of
several none counts, because any of them may carry the others.

RDMA traffic bypasses these interfaces (``ports``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobsight_agent.procfiles import text
from jobsight_agent.reading import Interface

ARP_ETHERNET = 1
ARP_INFINIBAND = 32
ARP_LOOPBACK = 772
_UP, _NO_ARP = 0x1, 0x80  # an interface's flags
# A switch port inside the card for a virtual function; its traffic passes the uplink too.
REPRESENTOR = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+")


def kernel_width_bits() -> int:
    """Return the width of the running kernel's interface counters: an ``unsigned long``."""
    return 64 if "64" in os.uname().machine or os.uname().machine == "s390x" else 32


def find_interfaces(
    sys_root: Path, *, infiniband_counted: bool = False, widths: Mapping[str, int] | None = None
) -> tuple[Interface, ...]:
    """Find the interfaces to count under ``sys_root/class/net``, by name; none without such a directory.

    ``infiniband_counted`` leaves out IP over InfiniBand: the port's own counters hold its bytes already.
    ``widths`` declares the counters of drivers that wrap at 32 bits on a 64-bit kernel.
    """
    net = sys_root / "class" / "net"
    try:
        folders = [net / name for name in sorted(os.listdir(net))]  # noqa: PTH208
    except OSError:
        return ()
    devices = [folder for folder in folders if (folder / "device").exists()]
    if devices:
        counted = [folder for folder in devices if not _passes_another(folder, devices)]
    else:
        counted = _ways_out([folder for folder in folders if folder.is_dir() and _type(folder) != ARP_LOOPBACK])
    if infiniband_counted:
        counted = [folder for folder in counted if _type(folder) != ARP_INFINIBAND]
    return tuple(
        Interface(
            name=folder.name,
            kind=_kind(folder),
            width_bits=(widths or {}).get(folder.name, kernel_width_bits()),
            # The file has megabits, -1 or an error if the speed is unknown or the link down.
            speed_bps=megabits * 1_000_000 if 0 < (megabits := _whole(folder / "speed")) < 2**31 else None,
        )
        for folder in counted
    )


def _passes_another(folder: Path, devices: Sequence[Path]) -> bool:
    """Return whether another device counts this one's traffic as well."""
    # A virtual function enslaved to a paravirtual card (Hyper-V, virtio failover): the card's counters include it.
    if (folder / "master" / "device").exists():
        return True
    if REPRESENTOR.fullmatch(text(folder / "phys_port_name")) is not None:
        return True
    # A partition of an InfiniBand card, a port of a switch chip behind a card: same device.
    others = [other for other in devices if other != folder]
    link, parent, lower = _whole(folder / "iflink"), text(folder / "parent"), _lower(folder)
    return any(
        link == _whole(other / "ifindex", -1)
        or parent == other.name
        or (other.name in lower and _master(other) != folder.name)
        for other in others
    )


def _ways_out(folders: Sequence[Path]) -> list[Path]:
    """Find the interfaces by which traffic leaves a namespace without a card; ``folders`` has all but loopback."""
    links = {_whole(folder / "ifindex", -1): _whole(folder / "iflink") for folder in folders}
    lowest = [folder for folder in folders if not (_lower(folder) or _is_master(folder))]
    outward = [folder for folder in lowest if _leads_out(folder, links)]
    if not outward:
        tunnels = [folder for folder in lowest if _is_tunnel(folder) and _whole(folder / "flags") & _UP]
        return tunnels if len(tunnels) == 1 else []
    free = [folder for folder in outward if not (folder / "master" / "bridge").exists()]
    if free:
        return free
    # All are ports of bridges: the one that leads outside is the oldest.
    oldest: dict[str, Path] = {}
    for folder in sorted(outward, key=lambda folder: _whole(folder / "ifindex")):
        oldest.setdefault(_master(folder), folder)
    return sorted(oldest.values())


def _leads_out(folder: Path, links: Mapping[int, int]) -> bool:
    """Return whether the other end is in another namespace. Its number belongs to that namespace: an unrelated
    interface here may have the same one, or this interface itself."""
    own, other = _whole(folder / "ifindex", -1), _whole(folder / "iflink")
    if other == 0 or (folder / "tun_flags").exists():
        return False
    if other == own:
        # Without another end, the kernel would name its kind, or it is a dummy or mirror, which have no ARP.
        plain = _type(folder) == ARP_ETHERNET and "DEVTYPE=" not in text(folder / "uevent")
        return plain and not _whole(folder / "flags") & _NO_ARP
    if links.get(other) == own:
        return False  # both ends of a pair
    return other not in links or _type(folder) == ARP_ETHERNET  # else an IP tunnel bound to an interface here


def _is_tunnel(folder: Path) -> bool:
    """Return whether it is a tap, a tun or of a kind that the kernel names (VXLAN, WireGuard), no dummy or mirror."""
    return (folder / "tun_flags").exists() or "DEVTYPE=" in text(folder / "uevent")


def _is_master(folder: Path) -> bool:
    return any((folder / sign).exists() for sign in ("bridge", "bonding")) or "DEVTYPE=bridge" in text(
        folder / "uevent"
    )


def _lower(folder: Path) -> set[str]:
    """Return the interfaces that this one is stacked on."""
    try:
        entries = os.listdir(folder)  # noqa: PTH208
    except OSError:  # it has just disappeared
        return set()
    return {entry.removeprefix("lower_") for entry in entries if entry.startswith("lower_")}


def _master(folder: Path) -> str:
    try:
        return (folder / "master").readlink().name
    except OSError:
        return ""


def _kind(folder: Path) -> str:
    if not (folder / "device").exists():
        return "other"
    return {ARP_ETHERNET: "ethernet", ARP_INFINIBAND: "infiniband"}.get(_type(folder), "other")


def _type(folder: Path) -> int:
    return _whole(folder / "type", -1)


def _whole(path: Path, otherwise: int = 0) -> int:
    """Read a file's number, decimal or with ``0x``."""
    found = text(path)
    try:
        return int(found, 16 if found.startswith("0x") else 10) if found.isascii() and len(found) < 20 else otherwise
    except ValueError:
        return otherwise
