"""InfiniBand and Omni-Path ports, whose traffic bypasses the kernel's interface counters.

The data counters count words of 4 bytes whatever the number of lanes. Cards without extended counters hold 32 bits
and stay at the largest value once there: such a counter is stuck, not idle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobsight_agent.procfiles import number
from jobsight_agent.reading import Interface

WORD_BYTES = 4
MOST_32 = 2**32 - 1
MOST_64 = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Port:
    """One port and the files that its counters are read from."""

    interface: Interface
    data_in: str
    data_out: str


def find_ports(sys_root: Path, widths: Mapping[str, int] | None = None) -> tuple[Port, ...]:
    """The ports under ``sys_root/class/infiniband`` that have data counters, named ``device/port``."""
    ports = []
    for folder in sorted((sys_root / "class" / "infiniband").glob("*/ports/*")):
        name = f"{folder.parent.parent.name}/{folder.name}"
        for counters, suffix in (("counters_ext", "_64"), ("counters_ext", ""), ("counters", "")):
            data_in, data_out = (folder / counters / f"port_{way}_data{suffix}" for way in ("rcv", "xmit"))
            if data_in.exists() or data_out.exists():  # a missing one is reported at each reading
                width = (widths or {}).get(name) or _width_bits(name, folder, data_in, data_out)
                interface = Interface(name, _kind(name), width, _speed_bps(folder / "rate"))
                ports.append(Port(interface, str(data_in), str(data_out)))
                break
    return tuple(ports)


def read_words(path: str, width_bits: int) -> tuple[int | None, bool]:
    """A data counter in bytes, and whether it is stuck at the largest value of its width (then it has no value).

    Raises:
        OSError: the file cannot be read.
        ValueError: there is no counter in it.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        words = number(os.read(descriptor, 64).strip())
    finally:
        os.close(descriptor)
    if words == (MOST_32 if width_bits == 32 else MOST_64):
        return None, True
    if words * WORD_BYTES > MOST_64:
        raise ValueError(f"{path}: {words} words are more bytes than a batch can hold")
    return words * WORD_BYTES, False


def _kind(name: str) -> str:
    return "opa" if name.startswith("hfi1") else "infiniband"


def _width_bits(name: str, folder: Path, *files: Path) -> int:
    """The kernel does not say; 64 if only cards with wide counters have such files or values."""
    if _kind(name) == "opa" or files[0].parent.name == "counters_ext":
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


def _speed_bps(rate: Path) -> int | None:
    """From a line such as ``100 Gb/sec (4X EDR)``."""
    try:
        number, unit = rate.read_text(encoding="ascii").split()[:2]
        return round(float(number) * 1e9) if unit == "Gb/sec" and 0 < float(number) < 1e6 else None
    except (OSError, ValueError):
        return None
