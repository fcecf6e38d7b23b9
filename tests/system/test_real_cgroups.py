"""Real processes in real cgroups that share a node: what each used, from agent, hook and server."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from site_run import AGENT, Site, free_address, wait_until

LIVE = Path("/sys/fs/cgroup")
MB = 1_000_000

# Joins its cgroup, holds so much memory, keeps a processor busy for a share of the time, reads a large file, and
# prints what the kernel says that it held and used.
JOB = """
import os, resource, sys, time
size, share, life_s, file = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
for folder in sys.argv[5:]:
    with open(folder + "/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
begin, joined_s = time.time(), time.process_time()
with open(file, "wb") as out:
    for _ in range(100):
        out.write(bytes(1_000_000))
held = bytearray(b"x") * size
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


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: what a job writes to a file system in memory is memory of the job."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="jobsight-test-") as name:
        yield Path(name)


@pytest.fixture
def groups() -> Iterator[dict[str, list[Path]]]:
    """The cgroups of two jobs, removed by the test as a scheduler does."""
    parent = f"jobsight-test-{os.getpid()}"
    unified = (LIVE / "cgroup.controllers").exists()
    parents = [root / parent for root in ([LIVE] if unified else [LIVE / "memory", LIVE / "cpuacct"])]
    found = {job: [folder / job for folder in parents] for job in ("1.real", "2.real")}
    try:
        for folder in parents:
            folder.mkdir()
            if unified:
                (folder / "cgroup.subtree_control").write_text("+memory +cpu")
        for folders in found.values():
            for folder in folders:
                folder.mkdir()
        if not all((folders[0] / "memory.stat").exists() for folders in found.values()):
            pytest.skip("the memory controller of cgroups is not available here")
        yield found
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    finally:
        for folder in (*(folder for folders in found.values() for folder in folders), *parents):
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


@pytest.mark.slow
def test_two_jobs_on_one_node_are_each_measured(tmp_path: Path, disk: Path, groups: dict[str, list[Path]]) -> None:
    settings = ("--follow-interval-s", "0.2", "--profile-interval-s", "0.2", "--profile-grace-s", "60")
    site = Site(tmp_path / "site", ["alpha"], free_address(), settings)
    spool, pattern = str(tmp_path / "spool"), f"{groups['1.real'][0].parent.name}/{{job}}"
    options = ["--spool", spool, "--cgroups", pattern]
    agent = [*AGENT, "run", "--server", site.ingest_url, "--token-file", str(site.agent_token_file), *options]
    agent += ["--cluster", "alpha", "--node", "real", "--interval", "0.5", "--batch", "8", "--batch-age-s", "1"]
    used: dict[str, Truth] = {}
    with site.serve(), (site.accounting / "alpha" / "20261101").open("a") as log, subprocess.Popen(agent) as process:
        try:
            wait_until(lambda: bool(site.api("nodes")["nodes"]), 180, lambda: "the agent sent nothing")
            begin = math.ceil(time.time())
            time.sleep(begin - time.time())
            running = {
                job: subprocess.Popen(
                    [
                        sys.executable,
                        "-c",
                        JOB,
                        str(size),
                        str(share),
                        "8",
                        str(disk / job),
                        *map(str, groups[job]),
                    ],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for job, size, share in (("1.real", 300 * MB, 0.6), ("2.real", 80 * MB, 0.1))
            }
            for job in running:
                log.write(line("S", job, begin))
            for job, started in running.items():
                anon, cpu_s = started.communicate(timeout=180)[0].split()
                before = time.time()
                subprocess.run([*AGENT, "job-end", job, "--strict", *options], check=True, timeout=90)
                used[job] = Truth(int(anon), float(cpu_s), before - begin)
                for folder in groups[job]:
                    folder.rmdir()
            end = math.ceil(time.time())
            for job in running:
                log.write(line("E", job, begin, end))
            log.flush()
            wait_until(lambda: site.settled(2), 180, lambda: str(site.api("overview")["jobs"]))
        finally:
            process.terminate()
        for job, truth in used.items():
            (run,) = site.api(f"jobs/{job}", cluster="alpha")["runs"]
            found = {entry["metric"]: entry for entry in run["profile"]}
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
            assert run["memory_charged_peak"] is None or run["memory_charged_peak"] >= found["memory"]["value"]
            assert run["memory_cache"] is not None
