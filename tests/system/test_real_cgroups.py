"""Real processes in real cgroups that share a node: what the agent reads of each, and what the kernel says."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobsight_agent.cgroups import PATTERNS, CgroupReader
from jobsight_agent.reading import JobUsage

LIVE = Path("/sys/fs/cgroup")
MB = 1_000_000
FILE_BYTES = 100 * MB

# Joins its cgroup, holds so much memory, writes a large file, keeps a processor busy for a share of the time, and
# prints what the kernel says that it held and used.
JOB = """
import os, resource, sys, time
size, share, life_s, file = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
for folder in sys.argv[5:]:
    with open(folder + "/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
joined_s = time.process_time()
with open(file, "wb") as out:
    for _ in range(100):
        out.write(bytes(1_000_000))
held = bytearray(b"x") * size
begin = time.time()  # what takes a slow machine long to fill is held as long as elsewhere
while time.time() < begin + life_s:
    until = time.process_time() + share * 0.05
    while time.process_time() < until:
        pass
    time.sleep((1 - share) * 0.05)
anon = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
print(int(anon.split()[1]) * 1024, time.process_time() - joined_s)
"""


@dataclass(frozen=True, slots=True)
class Group:
    """A job's groups, one below each mount that counts memory or CPU time, and where in them its processes are."""

    folders: tuple[Path, ...]
    inner: str = ""


# Jobs of no other run of these tests on this machine, nor of one that was killed.
FIRST, SECOND, THIRD = (f"{os.getpid()}{number}.real" for number in (1, 2, 3))

# Version 2 as the schedulers lay it out, with Slurm's processes in groups of their step and task.
UNIFIED = {
    FIRST: ("system.slice/{tag}_slurmstepd.scope/job_" + FIRST.partition(".")[0], "step_0/user/task_0"),
    SECOND: ("pbs_{tag}.service/jobid/" + SECOND, ""),
    THIRD: ("torque/" + THIRD, ""),
}
# In version 1 the groups of a real Slurm, which another test may start, are not to be mixed up with these.
VERSION_1 = (FIRST, SECOND, THIRD)


@dataclass(frozen=True, slots=True)
class Layout:
    """The jobs' groups, and the patterns by which the agent finds them."""

    groups: dict[str, Group]
    patterns: tuple[str, ...]


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: what a job writes to a file system in memory is memory of the job."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="jobsight-test-") as name:
        yield Path(name)


@pytest.fixture
def layout() -> Iterator[Layout]:
    """The cgroups of three jobs, which the test removes as a scheduler does."""
    tag, made = f"jobsight-test-{os.getpid()}", list[Path]()
    unified = (LIVE / "cgroup.controllers").exists()
    if unified:
        found = {job: Group((LIVE / path.format(tag=tag),), inner) for job, (path, inner) in UNIFIED.items()}
    else:
        found = {job: Group((LIVE / "memory" / tag / job, LIVE / "cpuacct" / tag / job)) for job in VERSION_1}
    try:
        for group in found.values():
            for folder in group.folders:
                make_group(folder / group.inner, unified, made)
            if not (group.folders[0] / "memory.stat").exists():
                pytest.skip("the memory controller of cgroups is not available here")
        yield Layout(found, PATTERNS if unified else (f"{tag}/{{job}}",))
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    finally:
        remove(made)


def make_group(group: Path, unified: bool, made: list[Path]) -> None:
    """Make the group and those that it is in, with memory and CPU time counted; add the new ones to ``made``."""
    for folder in (*reversed(group.parents), group):
        if not folder.exists():
            folder.mkdir()
            made.append(folder)
        if unified and folder.is_relative_to(LIVE) and folder not in (LIVE, group):
            (folder / "cgroup.subtree_control").write_text("+memory +cpu")


def remove(folders: Sequence[Path]) -> None:
    """Remove groups, the inner ones first."""
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        if folder.exists():
            folder.rmdir()


@pytest.mark.exhaustive
def test_the_agent_reads_what_the_processes_hold(disk: Path, layout: Layout) -> None:
    """While the jobs run, and once more when they have ended."""
    reader = CgroupReader(Path("/"), layout.patterns)
    sizes = {FIRST: (200 * MB, 0.5), SECOND: (80 * MB, 0.1), THIRD: (300 * MB, 0.3)}
    running = {job: start(layout.groups[job], disk / job, *size) for job, size in sizes.items()}
    seen: dict[str, list[JobUsage]] = {job.partition(".")[0]: [] for job in sizes}
    ended = False
    while not ended:
        ended = all(process.poll() is not None for process in running.values())
        missed: list[str] = []
        for usage in reader.read(missed):
            seen.get(usage.job.partition(".")[0], []).append(usage)  # a scheduler of this machine may run jobs, too
        assert not missed
        time.sleep(0.25)
    reader.close()
    for job, process in running.items():
        anon_bytes, cpu_s = map(float, process.communicate()[0].split())
        usages = seen[job.partition(".")[0]]
        print(job, anon_bytes, cpu_s, usages[-2:])  # if it fails
        # Where the kernel has no peak, it says nothing.
        peaks = [usage.peak_bytes or math.inf for usage in usages]
        assert max(usage.anon_bytes or 0 for usage in usages) == pytest.approx(anon_bytes, rel=0.05)
        assert usages[-1].cpu_s == pytest.approx(cpu_s, rel=0.05, abs=0.15)
        assert FILE_BYTES * 0.95 <= max(usage.file_bytes or 0 for usage in usages) <= FILE_BYTES * 1.05
        assert max(peaks) >= 0.95 * (anon_bytes + FILE_BYTES)


def start(group: Group, file: Path, size: int, share: float) -> subprocess.Popen[str]:
    """A process that joins the group."""
    folders = [str(folder / group.inner) for folder in group.folders]
    command = [sys.executable, "-c", JOB, str(size), str(share), "8", str(file), *folders]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
