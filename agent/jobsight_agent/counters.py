"""Reads one node from ``/proc`` and ``/sys``.

psutil reads the same files, but hides the counters' width and the InfiniBand ports, lists bridges beside their
cards, and costs more than the reading itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jobsight_agent.cgroups import PATTERNS, CgroupReader
from jobsight_agent.config import Config
from jobsight_agent.gpus import find_gpus, read_gpus
from jobsight_agent.interfaces import find_interfaces
from jobsight_agent.ports import Port, find_ports, read_port
from jobsight_agent.procfiles import (
    busy_ticks,
    bytes_in_and_out,
    huge_pages,
    memory_bytes,
    network_rows,
    number,
    shrinkable_bytes,
)
from jobsight_agent.reading import MOST_INTERFACES, Interface, Mark, Reading, sendable_name

LOOK_AGAIN_S = 60.0  # for changes that a listing does not show: link speeds, stacking
PIECE_BYTES = 65536
Counts = list[int | None]


class NodeReader:
    """Reads the node whose ``proc`` and ``sys`` are under ``root``.

    A file that is unreadable or invalid costs its metric one value and is named in ``Reading.missed``.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        exclude: Collection[str] = (),
        widths: Mapping[str, int] | None = None,
        cgroups: Sequence[str] = PATTERNS,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        boottime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._open: dict[str, int] = {}
        self._proc = str(root / "proc")
        self._sys = root / "sys"
        self._exclude = frozenset(exclude)
        self._widths = dict(widths or {})
        self._cgroups = CgroupReader(root, cgroups)
        self._clock = clock
        self._monotonic = monotonic
        self._boottime = boottime
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._cards: tuple[Interface, ...] = ()
        self._ports: tuple[Port, ...] = ()
        self._uncounted: tuple[str, ...] = ()
        self._gpus: tuple[str, ...] = ()
        self._cpus = os.cpu_count() or 1
        self._look_again = float("-inf")
        self._listed: frozenset[tuple[str, int]] = frozenset()
        self._boot_id = ""
        self._huge_bytes = 0  # pages in use by any process

    def read(self, mark: Mark | None = None) -> Reading:
        """Read the node."""
        missed: list[str] = []
        listed = self._listing(missed)
        look = listed != self._listed or self._monotonic() >= self._look_again
        if look:
            self._listed = listed
            self._find(missed)
        now, boottime_s = self._clock(), self._boottime()
        cards_in, cards_out = self._read_cards(missed)
        ports_in, ports_out = self._read_ports(missed)
        memory_total, memory_used = self._read_memory(missed)
        cpu_busy_s = self._read_cpu(missed)
        jobs = self._cgroups.read(missed, others=look, huge_bytes=self._huge_bytes)
        gpus = read_gpus(self._gpus, self._number, missed)
        return Reading(
            time=round(now, 6),
            boot_id=self._read_boot_id(missed),
            cpus=self._cpus,
            memory_total_bytes=memory_total,
            interfaces=self._cards + tuple(port.interface for port in self._ports),
            bytes_in=(*cards_in, *ports_in),
            bytes_out=(*cards_out, *ports_out),
            memory_used_bytes=memory_used,
            cpu_busy_s=cpu_busy_s,
            mark=mark,
            missed=tuple(missed),
            jobs=jobs,
            boottime_s=round(boottime_s, 6),
            uncounted=self._uncounted,
            gpus=gpus,
        )

    def _contents(self, name: str) -> bytes:
        """Read a file below ``/proc``, kept open: that halves the cost of a reading.

        Raises:
            OSError: it cannot be read.
        """
        descriptor, contents = self._descriptor(f"{self._proc}/{name}"), b""
        while piece := os.pread(descriptor, PIECE_BYTES, len(contents)):  # the kernel may hand over a page at a time
            contents += piece
        return contents

    def _number(self, path: str) -> int:
        """Read the number in a file of ``/sys``, kept open too.

        Raises:
            OSError: it cannot be read.
            ValueError: it has no number.
        """
        return number(os.pread(self._descriptor(path), 64, 0).strip())

    def _descriptor(self, path: str) -> int:
        if path not in self._open:
            self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._open[path]

    def close(self) -> None:
        """Close the files that are kept open; the next reading opens them again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def _listing(self, missed: list[str]) -> frozenset[tuple[str, int]]:
        """List the interfaces by name and inode: one recreated under its name is a different one. Checked at every
        reading, so that traffic of a new card is unknown for one interval at most."""
        found: list[tuple[str, int]] = []
        for kind in ("net", "infiniband"):
            try:
                with os.scandir(f"{self._sys}/class/{kind}") as entries:
                    found += [(entry.name, entry.inode()) for entry in entries]
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                missed.append("interfaces")
                return self._listed
        return frozenset(found)

    def _find(self, missed: list[str]) -> None:
        self._look_again = self._monotonic() + LOOK_AGAIN_S
        self.close()
        try:
            known = {port.interface.name: port for port in self._ports}
            ports, uncounted = find_ports(self._sys, self._widths, known)
            cards = find_interfaces(self._sys, infiniband_counted=bool(ports), widths=self._widths)
            self._gpus = find_gpus(self._sys)
        except OSError:  # not just a missing file; continue with the known ones
            missed.append("interfaces")
            return
        ports = tuple(port for port in ports if port.interface.name not in self._exclude)
        cards = tuple(card for card in cards if card.name not in self._exclude)
        uncounted = tuple(name for name in uncounted if name not in self._exclude and sendable_name(name))
        found = len(cards) + len(ports)
        # One name that the server does not accept would cost the whole batch.
        ports = tuple(port for port in ports if sendable_name(port.interface.name))
        cards = tuple(card for card in cards if sendable_name(card.name))
        if found > min(len(cards) + len(ports), MOST_INTERFACES):
            missed.append("interfaces")
        names = {name for name, _ in self._listed}
        missed += ["network" for card in self._cards if card.name not in names]  # its last counters
        self._cards = cards[:MOST_INTERFACES]
        self._ports = ports[: MOST_INTERFACES - len(self._cards)]
        self._uncounted = uncounted[:MOST_INTERFACES]

    def _read_cards(self, missed: list[str]) -> tuple[Counts, Counts]:
        counts: tuple[Counts, Counts] = ([], [])
        for position, card in enumerate(self._cards):
            read: Sequence[int | None] = (None, None)
            try:
                read = self._card_bytes(card.name)
            except (OSError, KeyError, ValueError):
                missed.append("network")
                self._look_again = float("-inf")  # the card may be gone for good
            if any(count is not None and count > card.most_bytes for count in read):
                self._cards = (*self._cards[:position], _wider(card), *self._cards[position + 1 :])
            for count, column in zip(read, counts, strict=True):
                column.append(count)
        return counts

    def _card_bytes(self, name: str) -> tuple[int, int]:
        """Read the bytes in and out of one card.

        Reads sysfs, which shows the network namespace that it was mounted in. ``/proc/net`` shows that of the process:
        an agent in a container, with the node's files below ``host_root``, would read the container's.
        """
        card = f"{self._sys}/class/net/{name}"
        try:
            return self._number(f"{card}/statistics/rx_bytes"), self._number(f"{card}/statistics/tx_bytes")
        except FileNotFoundError:
            if not os.path.exists(card):  # noqa: PTH110 - the card is gone, and a namesake elsewhere is another one
                raise
        return bytes_in_and_out(network_rows(self._contents("net/dev"))[name])

    def _read_ports(self, missed: list[str]) -> tuple[Counts, Counts]:
        counts: tuple[Counts, Counts] = ([], [])
        for position, port in enumerate(self._ports):
            for paths, column in zip((port.data_in, port.data_out), counts, strict=True):
                try:
                    value, stuck = read_port(port, paths)
                except (OSError, ValueError):
                    value, stuck = None, False
                    missed.append("infiniband")
                    self._look_again = float("-inf")
                if stuck:
                    missed.append("infiniband_stuck")
                elif value is not None and value > port.interface.most_bytes:
                    port = replace(port, interface=_wider(port.interface))
                    self._ports = (*self._ports[:position], port, *self._ports[position + 1 :])
                column.append(value)
        return counts

    def _read_memory(self, missed: list[str]) -> tuple[int | None, int | None]:
        """Read total and used memory: neither available, nor free huge pages, nor a cache that ZFS gives back."""
        try:
            contents = self._contents("meminfo")
        except OSError:
            contents = b""
        total, available = memory_bytes(contents, b"MemTotal:"), memory_bytes(contents, b"MemAvailable:")
        try:
            if total is None or available is None or available > total:
                raise ValueError(f"{available} bytes of {total} are available")
            free = self._free_huge_bytes(contents) + self._cache_of_zfs()
        except (OSError, ValueError):
            missed.append("memory")
            return total, None
        return total, max(0, total - available - free)

    def _free_huge_bytes(self, contents: bytes) -> int:
        """Return the bytes of free huge pages: the pool takes all its pages from the available memory, used or not."""
        pool_bytes, free = huge_pages(contents)
        pools = Path(f"{self._sys}/kernel/mm/hugepages")
        if pool_bytes and pools.exists():
            sizes = {pool: number(pool.name[10:-2].encode()) * 1024 for pool in pools.glob("hugepages-*kB")}
            free = sum(size * self._number(f"{pool}/free_hugepages") for pool, size in sizes.items())
        self._huge_bytes = max(0, pool_bytes - free)
        return free

    def _cache_of_zfs(self) -> int:
        try:
            return shrinkable_bytes(self._contents("spl/kstat/zfs/arcstats"))
        except FileNotFoundError:
            return 0

    def _read_cpu(self, missed: list[str]) -> float | None:
        try:
            contents = self._contents("stat")
            ticks = busy_ticks(contents)
        except (OSError, ValueError):
            missed.append("cpu")
            return None
        self._cpus = contents.count(b"\ncpu") or self._cpus
        return round(ticks / self._ticks_per_s, 2)

    def _read_boot_id(self, missed: list[str]) -> str:
        """Read the boot's id once: a process does not outlive the boot."""
        if not self._boot_id:
            try:
                boot_id = self._contents("sys/kernel/random/boot_id").decode("ascii").strip()
            except (OSError, UnicodeDecodeError):
                boot_id = ""
            if not sendable_name(boot_id):
                missed.append("boot_id")
                return "unknown"
            self._boot_id = boot_id
        return self._boot_id


def _wider(interface: Interface) -> Interface:
    """Declare 64 bits for a counter of 32 that showed a larger value: the server would reject the batch."""
    return Interface(interface.name, interface.kind, 64, interface.speed_bps)


def make_reader(config: Config) -> NodeReader:
    """Make the reader of this configuration."""
    return NodeReader(
        Path(config.host_root),
        exclude=config.exclude,
        widths=dict.fromkeys(config.counters_32bit, 32),
        cgroups=config.cgroups,
    )
