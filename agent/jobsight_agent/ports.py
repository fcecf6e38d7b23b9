"""RDMA ports, whose traffic bypasses the network interfaces, and their byte counters.

InfiniBand and Omni-Path count words of 4 bytes, whatever the number of lanes. Cards without extended counters have
32 bits, which stay at the largest value once there: such a counter is stuck, not idle. Other devices count bytes under
their own names; their data counters have no number (``N/A (no PMA)``, nothing, an error) or never rise. A port that
never had a number is left out: its traffic is not counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobsight_agent.procfiles import number, text
from jobsight_agent.reading import Interface

WORD_BYTES = 4
MOST_32 = 2**32 - 1
MOST_64 = 2**64 - 1
# Below ``hw_counters``, in bytes; a driver's add up.
_NAMES = (
    (("rx_rdma_ucast_bytes", "rx_rdma_mcast_bytes"), ("tx_rdma_ucast_bytes", "tx_rdma_mcast_bytes")),  # ionic
    (("rx_bytes",), ("tx_bytes",)),  # EFA, bnxt_re
    (("hw_rx_bytes_cnt",), ("hw_tx_bytes_cnt",)),  # erdma
    (("ip4InOctets", "ip6InOctets"), ("ip4OutOctets", "ip6OutOctets")),  # irdma, i40iw
)


@dataclass(frozen=True, slots=True)
class Port:
    """One port, and the files whose numbers add up to its traffic in units of ``unit_bytes``."""

    interface: Interface
    data_in: tuple[str, ...]
    data_out: tuple[str, ...]
    unit_bytes: int = WORD_BYTES


def find_ports(
    sys_root: Path, widths: Mapping[str, int] | None = None, known: Mapping[str, Port] | None = None
) -> tuple[tuple[Port, ...], tuple[str, ...]]:
    """Find the ports under ``sys_root/class/infiniband``, named ``device/port``, and the names of ports without
    counter.

    ``known`` ports had numbers before: they stay, on the same files, even without one now. Left out are ports that
    are down, and software devices (rxe), which send over a card that is counted.
    """
    ports: list[Port] = []
    uncounted: list[str] = []
    for folder in sorted((sys_root / "class" / "infiniband").glob("*/ports/*")):
        device = folder.parent.parent
        name = f"{device.name}/{folder.name}"
        if (device / "parent").exists():
            continue
        port = _chosen(list(_candidates(name, folder, widths or {})), (known or {}).get(name))
        if port is not None:
            ports.append(port)
        elif not text(folder / "state").startswith("1:"):
            uncounted.append(name)
    return tuple(ports), tuple(uncounted)


def _chosen(candidates: Sequence[Port], known: Port | None) -> Port | None:
    """Choose the first port with risen counters, else with a number; the ``known`` one unless it is at 0."""
    numbers = [(port, total) for port in candidates if (total := _total(port)) is not None]
    best = next((port for port, total in numbers if total), numbers[0][0] if numbers else None)
    same = next((port for port in candidates if known is not None and port.data_in == known.data_in), None)
    return best if same is None or (best is not None and _total(same) == 0) else same


def _total(port: Port) -> int | None:
    """Add up the counters that can be read; None without any number."""
    found = []
    for path in (*port.data_in, *port.data_out):
        try:
            found.append(_number(path))
        except (OSError, ValueError):
            continue
    return sum(found) if found else None


def _candidates(name: str, folder: Path, widths: Mapping[str, int]) -> Iterator[Port]:
    """Yield the port for each kind of counters that has files; a missing file is reported at each reading."""
    kind = "opa" if name.startswith("hfi1") else "infiniband"
    speed_bps = _port_speed_bps(folder / "rate")
    for counters, suffix in (("counters_ext", "_64"), ("counters_ext", ""), ("counters", "")):
        data_in, data_out = (folder / counters / f"port_{way}_data{suffix}" for way in ("rcv", "xmit"))
        if data_in.exists() or data_out.exists():
            width = widths.get(name) or _port_width_bits(kind, folder, data_in, data_out)
            yield Port(Interface(name, kind, width, speed_bps), (str(data_in),), (str(data_out),))
    # Some kernels show the only port's counters at the device.
    for counters_of in (folder, folder.parent.parent) if folder.name == "1" else (folder,):
        for names in _NAMES:
            files = [[counters_of / "hw_counters" / one for one in way] for way in names]
            received, sent = (tuple(str(file) for file in way if file.exists()) for way in files)
            if received and sent:
                yield Port(Interface(name, kind, 64, speed_bps), received, sent, 1)


def read_port(port: Port, paths: Sequence[str]) -> tuple[int | None, bool]:
    """Read the bytes in one direction of ``port``, and whether a counter is stuck at its largest value (then there is
    no value).

    Raises:
        OSError: a file cannot be read.
        ValueError: there is no counter in it.
    """
    units = [_number(path) for path in paths]
    if (MOST_32 if port.interface.width_bits == 32 else MOST_64) in units:
        return None, True
    if sum(units) * port.unit_bytes > MOST_64:
        raise ValueError(f"{paths[0]}: {sum(units)} times {port.unit_bytes} bytes are more than a batch can hold")
    return sum(units) * port.unit_bytes, False


def _number(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return number(os.read(descriptor, 64).strip())
    finally:
        os.close(descriptor)


def _port_width_bits(kind: str, folder: Path, *files: Path) -> int:
    """Infer the width (the kernel does not show it): 64 if only wide counters have such files or values."""
    if kind == "opa" or files[0].parent.name == "counters_ext":
        return 64
    if (folder / "counters" / "unicast_rcv_packets").exists():
        return 64
    for file in files:
        try:
            if int(file.read_bytes()) > MOST_32:
                return 64
        except (OSError, ValueError):
            continue
    return 32


def _port_speed_bps(rate: Path) -> int | None:
    """Read a line such as ``100 Gb/sec (4X EDR)``."""
    try:
        number, unit = text(rate).split()[:2]
        return round(float(number) * 1e9) if unit == "Gb/sec" and 0 < float(number) < 1e6 else None
    except ValueError:
        return None
