"""Real processes in real cgroups that share a node: what each used, from agent, hook and server."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests import make

from jobsight_agent.cgroups import PATTERNS, CgroupReader
from jobsight_agent.reading import JobUsage
from site_run import AGENT, wait_until

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


@dataclass
class Truth:
    """What a job's process held and used by the kernel's account of the process, and how long it ran at least."""

    anon_bytes: int
    cpu_s: float
    shortest_s: float


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
    """The jobs' groups, and the agent's options that find them."""

    groups: dict[str, Group]
    options: tuple[str, ...]


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
        yield Layout(found, () if unified else ("--cgroups", f"{tag}/{{job}}"))
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    finally:
        remove(made)


def make_group(group: Path, unified: bool, made: list[Path]) -> None:
    """Makes the group and those that it is in, with memory and CPU time counted; adds the new ones to ``made``."""
    for folder in (*reversed(group.parents), group):
        if not folder.exists():
            folder.mkdir()
            made.append(folder)
        if unified and folder.is_relative_to(LIVE) and folder not in (LIVE, group):
            (folder / "cgroup.subtree_control").write_text("+memory +cpu")


def remove(folders: Sequence[Path]) -> None:
    """Removes groups, the inner ones first."""
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        if folder.exists():
            folder.rmdir()


def line(kind: str, job_id: str, start: int, end: int | None = None) -> str:
    """A record as TORQUE writes it where it measures nothing."""
    stamp = datetime.fromtimestamp(start if end is None else end, UTC)
    common = (
        f"user=ann group=staff jobname={job_id} queue=batch ctime={start} qtime={start} etime={start} start={start} "
        f"owner=ann@login exec_host=real/{job_id[0]} Resource_List.walltime=01:00:00"
    )
    ended = "" if end is None else f" session=1 end={end} Exit_status=0 resources_used.walltime=00:00:10"
    return f"{stamp:%m/%d/%Y %H:%M:%S};{kind};{job_id};{common}{ended}\n"


@pytest.mark.exhaustive
@pytest.mark.slow
def test_jobs_on_one_node_are_each_measured(tmp_path: Path, disk: Path, layout: Layout) -> None:
    settings = ("--follow-interval-s", "0.2", "--profile-grace-s", "60")
    site = make.site(tmp_path / "site", *settings)
    options = ["--spool", str(tmp_path / "spool"), *layout.options]
    agent = [*AGENT, "run", "--server", site.ingest_url, "--token-file", str(site.agent_token_file), *options]
    agent += ["--cluster", "alpha", "--node", "real", "--interval", "0.5", "--batch", "8", "--batch-age-s", "1"]
    used: dict[str, Truth] = {}
    with site.serve(), (site.accounting / "alpha" / "20261101").open("a") as log, subprocess.Popen(agent) as process:
        try:
            wait_until(lambda: bool(site.api("nodes")["nodes"]), 180, lambda: "the agent sent nothing")
            begin = math.ceil(time.time())
            time.sleep(begin - time.time())
            sizes = {FIRST: (300 * MB, 0.5), SECOND: (80 * MB, 0.1), THIRD: (200 * MB, 0.3)}
            running = {job: start(layout.groups[job], disk / job, *size) for job, size in sizes.items()}
            for job in running:
                log.write(line("S", job, begin))
            for job, started in running.items():
                anon, cpu_s = started.communicate(timeout=180)[0].split()
                before = time.time()
                subprocess.run([*AGENT, "job-end", job, "--strict", *options], check=True, timeout=90)
                used[job] = Truth(int(anon), float(cpu_s), before - begin)
                for folder in layout.groups[job].folders:
                    remove([folder, *(path for path in folder.rglob("*") if path.is_dir())])
            end = math.ceil(time.time())
            for job in running:
                log.write(line("E", job, begin, end))
            log.flush()
            wait_until(lambda: site.settled(3), 180, lambda: str(site.api("overview")["jobs"]))
        finally:
            process.terminate()
        for job, truth in used.items():
            (run,) = site.api("job", name=job, cluster="alpha")["runs"]
            found = {entry["metric"]: entry for entry in run["profile"]}
            print(job, truth, *(run[f"memory_{name}"] for name in ("cache", "charged_peak")), found)  # if it fails
            assert run["memory_source"] == found["cpu"]["source"] == found["memory"]["attribution"] == "cgroup"
            assert found["memory"]["value"] == pytest.approx(truth.anon_bytes, rel=0.05)
            # From when the process joined its cgroup until the hook's reading, with what its exit takes.
            # Its life is until the hook's reading, or until the end in the log where that came too late.
            cpu_s = found["cpu"]["value"] * truth.shortest_s, found["cpu"]["value"] * (end - begin)
            assert cpu_s[0] <= truth.cpu_s * 1.05 + 0.15
            assert cpu_s[1] >= truth.cpu_s * 0.95 - 0.15
            assert found["memory"]["learned"]
            assert found["cpu"]["learned"]
            assert found["bandwidth"]["value"] is None or not found["bandwidth"]["learned"]
            # The file that it wrote is in the page cache, which is charged to it and is no part of its memory.
            assert run["memory_cache"] >= 0.95 * FILE_BYTES
            peak_bytes = run["memory_charged_peak"]
            assert peak_bytes is None or peak_bytes >= 0.95 * (truth.anon_bytes + FILE_BYTES)


@pytest.mark.exhaustive
def test_the_agent_reads_what_the_processes_hold(disk: Path, layout: Layout) -> None:
    """The reading alone, while the jobs run and once more when they have ended."""
    reader = CgroupReader(Path("/"), layout.options[1:] or PATTERNS)
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
