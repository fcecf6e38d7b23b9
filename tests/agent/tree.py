"""A node's ``/proc`` and ``/sys`` in a directory, as a kernel shows them."""

from __future__ import annotations

from pathlib import Path

from jobsight_agent.counters import NodeReader
from jobsight_agent.reading import Reading

STAT = """\
cpu  1000 200 300 40000 5000 60 70 8 900 0
cpu0 500 100 150 20000 2500 30 35 4 450 0
cpu1 500 100 150 20000 2500 30 35 4 450 0
intr 12345 0 0
ctxt 1
btime 1700000000
"""
MEMINFO = "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    4096 kB\nBuffers: 1 kB\n"


class Node:
    """A tree that a test writes as a kernel would show it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.devices: dict[str, tuple[int, int]] = {}
        self.write("proc/stat", STAT)
        self.write("proc/meminfo", MEMINFO)
        self.write("proc/sys/kernel/random/boot_id", "0b8e6f5c-3f3a-4e0e-9a51-6f9f1d2c7a10\n")
        self.network()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def network(self) -> None:
        rows = [f"{name:>6}: {i} 2 0 0 0 0 0 0 {o} 3 0 0 0 0 0 0" for name, (i, o) in self.devices.items()]
        self.write("proc/net/dev", "\n".join(["Inter-| Receive", " face |bytes", *rows]) + "\n")

    def device(self, name: str, bytes_in: int, bytes_out: int, *, card: bool = True, **files: str) -> None:
        folder = self.root / "sys/class/net" / name
        folder.mkdir(parents=True)
        index = len(self.devices) + 1
        link = index if card or "type" in files else index + 100  # a virtual one's other end is elsewhere
        for file, text in {"type": "1", "ifindex": str(index), "iflink": str(link), **files}.items():
            self.write(f"sys/class/net/{name}/{file}", text + "\n")
        if card:
            pci = self.root / "sys/devices" / name
            pci.mkdir(parents=True)
            (folder / "device").symlink_to(pci)
        self.devices[name] = (bytes_in, bytes_out)
        self.network()

    def port(self, name: str, data_in: int, data_out: int, *, folder: str = "counters", **files: str) -> None:
        device, number = name.split("/")
        base = f"sys/class/infiniband/{device}/ports/{number}"
        self.write(f"{base}/{folder}/port_rcv_data{'_64' if folder == 'counters_ext' else ''}", f"{data_in}\n")
        self.write(f"{base}/{folder}/port_xmit_data{'_64' if folder == 'counters_ext' else ''}", f"{data_out}\n")
        for file, text in files.items():
            self.write(f"{base}/{file}", text + "\n")

    def read(self) -> Reading:
        return NodeReader(self.root, clock=lambda: 1700000000.1234567, boottime=lambda: 5000.5).read()
