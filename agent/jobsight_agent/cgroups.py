"""Reads each job's use from the control group (cgroup) that its scheduler made for it.

A pattern is the path of the jobs' groups below the mount: below ``sys/fs/cgroup`` in version 2, below its ``memory``
and ``cpuacct`` in version 1. Each part may have wildcards, and ``{job}`` in the last one stands for the job's id,
``{sluid}`` for the name that Slurm 26.05 gives it instead, which the server looks up among the records of sacct.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple

from jobsight_agent.procfiles import MOST_BYTES, MOST_COUNT, number
from jobsight_agent.reading import LONGEST_JOB, MOST_JOBS, JobUsage, sendable_name

_IDS = {"{job}": ".+", "{sluid}": "s[0-9A-Z]{10,20}"}
PATTERNS = (
    "slurm*/uid_*/job_{job}",  # Slurm, version 1
    "slurm*/uid_*/{sluid}",
    "*.slice/*slurmstepd.scope/job_{job}",  # Slurm, version 2
    "*.slice/*slurmstepd.scope/{sluid}",
    "pbs*.service/jobid/{job}",  # PBS Pro, OpenPBS
    "torque/{job}",
)
# Where schedulers keep their jobs' groups, also under names that no pattern matches, as PBS before 20 does. Slurm's own
# processes are in ``system``.
_SLICES = ("slurm*/uid_*", "*/*slurmstepd.scope", "pbs*.service/jobid", "pbspro.slice", "pbspro", "torque")
_NO_JOB = "system"
_STAT_BYTES = 16 * 1024
_MOST_OPEN = 512  # files kept open, four for each job: that halves the cost of a reading
_HUGE_PAGES = re.compile(r"hugetlb\.\w+\.(current|usage_in_bytes)")


class _Files(NamedTuple):
    """A version's files; ``stat`` labels anonymous, shared, file, mapped and huge pages, ``-`` for none."""

    stat: tuple[bytes, ...]
    charged: str
    peak: str
    cpu: str
    ticks_per_s: int


_UNIFIED = _Files((b"anon", b"shmem", b"file", b"-", b"hugetlb"), "memory.current", "memory.peak", "cpu.stat", 10**6)
_VERSION_1 = _Files(
    (b"total_rss", b"total_shmem", b"total_cache", b"total_mapped_file", b"-"),
    "memory.usage_in_bytes", "memory.max_usage_in_bytes", "cpuacct.usage", 10**9,
)  # fmt: skip


class CgroupReader:
    """Reads the groups of all jobs on the node whose ``sys`` is under ``root``."""

    def __init__(self, root: Path, patterns: Sequence[str] = PATTERNS) -> None:
        self._open: dict[str, int] = {}
        self._before: dict[str, int] = {}  # open since the last reading
        mount = root / "sys" / "fs" / "cgroup"
        self._mount = str(mount)
        self._unified = (mount / "cgroup.controllers").exists()
        self._memory = self._mount if self._unified else str(mount / "memory")
        # With systemd, ``cpuacct`` is a link to ``cpu,cpuacct``; some containers mount only the latter.
        accounts = (mount / name for name in ("cpuacct", "cpu,cpuacct"))
        self._cpu = self._mount if self._unified else next((str(path) for path in accounts if path.exists()), "")
        self._huge = self._mount if self._unified else str(mount / "hugetlb")
        self._huge_files: dict[str, list[str]] = {}
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._slices = [_compiled(f"{each}/{{job}}") for each in _SLICES] if patterns else []

    def read(self, missed: list[str], *, others: bool = True, huge_bytes: int = 0) -> tuple[JobUsage, ...]:
        """Read each job's use, in order of job ids.

        Adds ``cgroups`` to ``missed`` for a group that cannot be read, a second one of the same job, a name that is no
        job id, groups beyond ``MOST_JOBS`` and, with ``others``, a scheduler's group that no pattern matches.
        ``huge_bytes`` are the huge pages in use on the node: a group that does not show its own may hold all of them at
        its peak.
        """
        found: dict[str, str] = {}
        matched: set[str] = set()
        for root in dict.fromkeys((self._memory, self._cpu)):
            for pattern in self._patterns:
                for job, path in _matches(root, pattern, missed) if root else ():
                    matched.add(path)
                    if not sendable_name(job, LONGEST_JOB) or found.setdefault(job, path) != path:
                        missed.append("cgroups")
        groups = [group for each in self._slices for group in _matches(self._memory, each, [])] if others else []
        missed += ["cgroups" for name, path in groups if path not in matched and name != _NO_JOB]
        jobs = sorted(found)
        missed += ["cgroups"] * (len(jobs) - MOST_JOBS)
        self._before, self._open = self._open, {}
        usages = [self._usage(job, found[job], missed, huge_bytes) for job in jobs[:MOST_JOBS]]
        self._huge_files = {path: files for path, files in self._huge_files.items() if path in matched}
        _close(self._before)
        return tuple(usage for usage in usages if usage is not None)

    def close(self) -> None:
        """Close the files that are kept open; the next reading opens them again."""
        _close(self._open)

    def __del__(self) -> None:
        self.close()

    def _usage(self, job: str, path: str, missed: list[str], huge_bytes: int) -> JobUsage | None:
        """Return None if the group has just disappeared, or shows neither memory nor CPU time."""
        memory, cpu = f"{self._memory}/{path}", f"{self._cpu}/{path}"
        try:
            usage = self._read(job, memory, cpu, self._huge_bytes(path))
        except (OSError, ValueError):
            missed.append("cgroups")
            return None
        if huge_bytes and not self._huge_files[path] and usage.charged_bytes is not None:
            usage = replace(usage, peak_bytes=(usage.peak_bytes or usage.charged_bytes) + huge_bytes)
        return usage if usage.charged_bytes is not None or usage.cpu_s is not None else None

    def _huge_bytes(self, path: str) -> int:
        """Sum the group's huge pages of all sizes, which the memory files leave out."""
        folder = f"{self._huge}/{path}"
        if path not in self._huge_files:
            try:
                names = os.listdir(folder)  # noqa: PTH208 - for each job
            except OSError:  # the controller is off, or the group is gone
                names = []
            self._huge_files[path] = [f"{folder}/{name}" for name in names if _HUGE_PAGES.fullmatch(name)]
        return sum(_whole(self._contents(file)) or 0 for file in self._huge_files[path])

    def _read(self, job: str, memory: str, cpu: str, huge: int) -> JobUsage:
        files = _UNIFIED if self._unified else _VERSION_1
        stat = self._contents(f"{memory}/memory.stat")
        anon, shmem, file, mapped, hugetlb = (_line(stat, label) for label in files.stat)
        # Before Linux 4.10 shared memory has no line of its own: mapped files include the mapped part of it.
        shmem = mapped if shmem is None else shmem
        busy = self._contents(f"{cpu}/{files.cpu}") if self._cpu else None
        ticks = _line(busy, b"usage_usec") if self._unified else _whole(busy)
        uncharged = 0 if hugetlb else huge  # charged if mounted with memory_hugetlb_accounting
        return JobUsage(
            job=job,
            cpu_s=None if ticks is None else round(ticks / files.ticks_per_s, 6),
            anon_bytes=_plus(anon, huge),
            shmem_bytes=shmem,
            # The kernel counts shared memory as files too.
            file_bytes=None if file is None or shmem is None else max(0, file - shmem),
            charged_bytes=_plus(_whole(self._contents(f"{memory}/{files.charged}")), uncharged),
            peak_bytes=_plus(_whole(self._contents(f"{memory}/{files.peak}")), uncharged),
        )

    def _contents(self, path: str) -> bytes | None:
        """Return None without such a file: a controller that is off, an older kernel, a group that is gone."""
        descriptor = self._before.pop(path, None)
        if descriptor is not None:
            self._open[path] = descriptor
            try:
                return os.pread(descriptor, _STAT_BYTES, 0)
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise
            os.close(self._open.pop(path))  # the group was removed, and perhaps made again for the same job
        try:
            descriptor = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return os.pread(descriptor, _STAT_BYTES, 0)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        finally:
            if len(self._open) > _MOST_OPEN:
                os.close(self._open.pop(path))


def _close(files: dict[str, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def check_pattern(pattern: str) -> str:
    """Return ``pattern`` if it is valid.

    Raises:
        ValueError: it is not a path below the mount, or its last part does not have exactly one id.
    """
    parts = pattern.split("/")
    ids = [sum(each.count(name) for name in _IDS) for each in (pattern, parts[-1])]
    if ids != [1, 1] or not all(parts) or {".", ".."} & set(parts):
        raise ValueError(f"{pattern!r:.80} is not a path below /sys/fs/cgroup with {{job}} in its last part")
    return pattern


def _compiled(pattern: str) -> list[str | re.Pattern[str]]:
    """Return the parts; text where only one name fits."""
    *folders, last = check_pattern(pattern).split("/")
    id_ = next(name for name in _IDS if name in last)
    before, _, after = (re.escape(part).replace(r"\*", ".*").replace(r"\?", ".") for part in last.partition(id_))
    parts = [re.compile(translate(part)) if set(part) & set("*?[") else part for part in folders]
    return [*parts, re.compile(f"(?s:{before}({_IDS[id_]}){after})")]


def _matches(
    root: str, parts: Sequence[str | re.Pattern[str]], missed: list[str], path: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield job ids and the paths of their groups below ``root``."""
    first, rest = parts[0], parts[1:]
    if isinstance(first, str):
        yield from _matches(root, rest, missed, f"{path}{first}/")
        return
    try:
        with os.scandir(f"{root}/{path}") as entries:
            folders = [entry.name for entry in entries if first.fullmatch(entry.name) and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):  # another scheduler's, or gone since its parent was listed
        return
    except OSError:
        missed.append("cgroups")
        return
    for name in folders:
        if rest:
            yield from _matches(root, rest, missed, f"{path}{name}/")
        elif (match := first.fullmatch(name)) is not None:
            yield match[1], f"{path}{name}"


def _plus(bytes_: int | None, more: int) -> int | None:
    return None if bytes_ is None else bytes_ + more


def _line(contents: bytes | None, label: bytes) -> int | None:
    """Return the number after ``label``; None without such a line."""
    if contents is None:
        return None
    rest = (b"\n" + contents).partition(b"\n" + label + b" ")[2]
    return number(rest.partition(b"\n")[0], MOST_COUNT if label == b"usage_usec" else MOST_BYTES) if rest else None


def _whole(contents: bytes | None) -> int | None:
    return None if contents is None else number(contents.strip(), MOST_BYTES)
