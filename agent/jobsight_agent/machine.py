"""The node's hardware, determined once when the agent starts; unknown facts are None, never a guess."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import mul
from pathlib import Path

from jobsight_agent.procfiles import MOST_BYTES, text
from jobsight_agent.reading import Reading

_LARGEST_HZ = 1e12
_DIGITS = 32
_PAIRS = 2000
_MOST_S = 0.03


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """``id`` is a digest that a reinstallation changes; ``benchmark_flops`` is for one processor.

    ``cores`` are physical; ``storage_bytes`` is the size of the file system of the option ``scratch``.
    """

    id: str | None = None
    system: str | None = None
    cores: int | None = None
    clock_hz: float | None = None
    benchmark_flops: float | None = None
    storage_bytes: int | None = None


def read_facts(root: Path, scratch: str, *, flops: float | None = None) -> NodeDescription:
    """Read the facts of the node whose ``proc``, ``sys`` and ``etc`` are under ``root``."""
    cores, megahertz = processor_facts(text(root / "proc/cpuinfo"))
    return NodeDescription(
        id=machine_id(text(root / "etc/machine-id")),
        system=system_name(),
        cores=cores,
        clock_hz=clock_hz(text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"), megahertz),
        benchmark_flops=flops,
        storage_bytes=_size_bytes(scratch),
    )


def system_name() -> str:
    """Return operating system and architecture, such as ``linux-x86_64``."""
    own = os.uname()
    return f"{own.sysname}-{own.machine}".lower()[:64]


def processor_facts(cpuinfo: str) -> tuple[int | None, float | None]:
    """Read physical cores and the fastest current clock in MHz from ``/proc/cpuinfo``.

    >>> processor_facts("physical id : 0\\ncore id : 1\\ncpu MHz : 2400.5\\n\\nphysical id : 0\\ncore id : 1\\n")
    (1, 2400.5)
    """
    cores: set[tuple[str, str]] = set()
    socket, fastest = "", None
    for line in cpuinfo.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if name == "physical id":
            socket = value
        elif name == "core id":
            cores.add((socket, value))
        elif name == "cpu MHz" and (megahertz := _number(value)) is not None:
            fastest = max(fastest or 0.0, megahertz)
    return len(cores) or None, fastest


def clock_hz(max_kilohertz: str, megahertz: float | None) -> float | None:
    """Return the processor's highest clock, else its current one; None if neither is valid."""
    highest = _number(max_kilohertz.strip())
    hertz = highest * 1e3 if highest else (megahertz or 0.0) * 1e6
    return hertz if 0.0 < hertz <= _LARGEST_HZ else None


def machine_id(contents: str) -> str | None:
    """Hash ``/etc/machine-id``, which itself must not leave the machine (machine-id(5))."""
    own = contents.strip()
    if len(own) != _DIGITS or not all(digit in "0123456789abcdef" for digit in own):
        return None
    return hashlib.sha256(f"jobsight {own}".encode()).hexdigest()[:_DIGITS]


def benchmark_flops(clock: Callable[[], float] = time.perf_counter, most_s: float = _MOST_S) -> float:
    """Measure a processor's multiplications and additions a second: the fastest of several dot products in ``most_s``.

    Every product is a Python object, so the figure is about a hundredth of the processor's peak. It compares
    machines measured in the same way; the fastest product is the least disturbed one.
    """
    left = [1.0 + i / _PAIRS for i in range(_PAIRS)]
    right = [2.0 - i / _PAIRS for i in range(_PAIRS)]
    begun = clock()
    fastest_s = float("inf")
    while True:
        before = clock()
        sum(map(mul, left, right))
        after = clock()
        if after > before:
            fastest_s = min(fastest_s, after - before)
        if after - begun >= most_s or after < begun:
            return 2 * _PAIRS / fastest_s


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0.0 < number < 1e15 else None


def _size_bytes(directory: str) -> int | None:
    try:
        found = os.statvfs(directory)
    except (OSError, ValueError):
        return None
    return min(found.f_blocks * found.f_frsize, MOST_BYTES) or None


_MOST_JOBS = 1000
_MOST_LOGINS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class OwnerPresence:
    """``foreign_load``: busy processors while no job hook has announced a job, else None.

    ``present``: None if no sign of an owner is configured, or none could be read.
    """

    logins: int | None = None
    foreign_load: float | None = None
    present: bool | None = None


class OwnerWatch:
    """Watches for the ``signs`` of an owner: ``logins``, and ``load`` of at least ``load_from`` processors."""

    def __init__(
        self, signs: Collection[str], load_from: float, count_logins: Callable[[], int | None] | None = None
    ) -> None:
        self._signs = frozenset(signs)
        self._load_from = load_from
        self._count_logins = count_logins or logged_in
        self._jobs: set[str] = set()
        self._had_job = False
        self._since: tuple[float, float, str] | None = None
        self._last: tuple[float, float, str] | None = None

    def see(self, reading: Reading) -> None:
        """Learn the busy time from a reading, and the job if a hook took it."""
        if not self._signs:
            return
        if reading.mark is not None:
            if reading.mark.event == "end":
                self._jobs.discard(reading.mark.job)
            elif len(self._jobs) < _MOST_JOBS:
                self._jobs.add(reading.mark.job)
        self._had_job = self._had_job or bool(self._jobs) or reading.mark is not None
        if reading.cpu_busy_s is not None:
            self._last = (reading.time, reading.cpu_busy_s, reading.boot_id)
            self._since = self._since or self._last

    def now(self) -> OwnerPresence:
        """Return the presence since the last call."""
        if not self._signs:
            return OwnerPresence()
        logins = self._count_logins() if "logins" in self._signs else None
        load = self._load() if "load" in self._signs else None
        self._since, self._had_job = self._last, bool(self._jobs)
        if logins is None and load is None:
            return OwnerPresence()
        return OwnerPresence(logins, load, bool(logins) or (load is not None and load >= self._load_from))

    def _load(self) -> float | None:
        if self._since is None or self._last is None or self._had_job:
            return None
        (begin, busy_before, boot_before), (end, busy_after, boot) = self._since, self._last
        if end <= begin or boot != boot_before or busy_after < busy_before:
            return None
        return round(min((busy_after - busy_before) / (end - begin), 1e6), 3)


def logged_in() -> int | None:
    """Count login sessions on terminals and displays; None if unknown."""
    import psutil  # only if logins are configured: it costs a tenth of a second and 4 MB

    try:
        return min(len(psutil.users()), _MOST_LOGINS)
    except (OSError, RuntimeError):
        return None
