"""Real processes whose memory the kernel knows, seen by a real agent: a peak, and jobs without a pause between."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import pytest
from tests import make

from site_run import AGENT, Site, wait_until

MIB = 2**20
RAMPED_BYTES, STEADY_BYTES = 2400 * MIB, 1600 * MIB
# What else runs on this machine may move its memory by this share of a job's, or nothing can be said.
MOST_NOISE = 0.25
ATTEMPTS = 2

# Grows by steps, holds, and prints the most that it had by the kernel's own account, in bytes.
JOB = """
import sys, time
size, ramp_s, hold_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
held = []
for step in range(20):
    held.append(bytearray(b"x") * (size // 20))
    time.sleep(ramp_s / 20)
time.sleep(hold_s)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) * 1024)
"""


class Background:
    """Watches how much memory everything but the job holds, while the job runs.

    With ``meminfo`` it writes there what the kernel would say if there were nothing but the job.
    """

    def __init__(self, meminfo: Path | None = None) -> None:
        self._meminfo = meminfo
        self.job: subprocess.Popen[str] | None = None
        self.seen: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def noise_bytes(self) -> int:
        return max(self.seen) - min(self.seen) if self.seen else 0

    def _watch(self) -> None:
        while not self._stop.wait(0.1 if self._meminfo is None else 0.02):
            job = self.job
            if self._meminfo is not None:
                write_meminfo(self._meminfo, _of(job) or 0)
                continue
            before, used, after = _of(job), _used_bytes(), _of(job)
            # Else it changed between the looks, or is being taken apart.
            if before is not None and after is not None and job is self.job and abs(after - before) < 8 * MIB:
                self.seen.append(used - after)


def write_meminfo(file: Path, job_bytes: int) -> None:
    """As if a GiB and the job were all that a node of 64 GiB holds; of equal length, as the agent keeps it open."""
    text = f"MemTotal:       {2**26:>12} kB\nMemAvailable:   {2**26 - 2**20 - job_bytes // 1024:>12} kB\n"
    with file.open("r+b" if file.exists() else "wb", buffering=0) as stream:
        stream.write(text.encode())


def quiet_root(directory: Path) -> Path:
    """The node's own files, but for ``proc/meminfo``."""
    proc = directory / "proc"
    proc.mkdir(parents=True)
    (directory / "sys").symlink_to("/sys")
    for name in ("net", "stat", "sys", "self", "uptime", "1"):
        (proc / name).symlink_to(f"/proc/{name}")
    write_meminfo(proc / "meminfo", 0)
    return directory


def _of(job: subprocess.Popen[str] | None) -> int | None:
    """Memory of the job; 0 before there is one, None while it comes or goes."""
    if job is None:
        return 0
    try:
        lines = Path(f"/proc/{job.pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), None)


def _used_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return found["MemTotal"] - found["MemAvailable"]


def line(kind: str, job_id: str, start: int, end: int | None = None) -> str:
    """A record as TORQUE writes it where it does not measure memory."""
    stamp = datetime.fromtimestamp(start if end is None else end, UTC)
    common = (
        f"user=ann group=staff jobname={job_id} queue=batch ctime={start} qtime={start} etime={start} start={start} "
        "owner=ann@login exec_host=real/0 Resource_List.walltime=01:00:00"
    )
    ended = "" if end is None else f" session=1 end={end} Exit_status=0 resources_used.walltime=00:00:10"
    return f"{stamp:%m/%d/%Y %H:%M:%S};{kind};{job_id};{common}{ended}\n"


def run_job(background: Background, size: int, ramp_s: float, hold_s: float, begin: int) -> tuple[int, int]:
    """Runs the process from the second ``begin`` on; returns its peak in bytes and the second when it was over."""
    time.sleep(max(0.0, begin - time.time()))
    command = [sys.executable, "-c", JOB, str(size), str(ramp_s), str(hold_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        background.job = job
        peak = int(job.communicate()[0])
    return peak, math.ceil(time.time())


def memory_of(site: Site, job_id: str) -> dict[str, Any]:
    run = site.api("job", name=job_id, cluster="alpha")["runs"][0]
    entry = next(one for one in run["profile"] if one["metric"] == "memory")
    return {**entry, **{name: run[name] for name in ("memory_mean", "memory_source", "memory_idle_age_s")}}


@dataclass
class Attempt:
    """Three jobs without a pause between; the peaks of the first two by the kernel, in bytes."""

    ids: tuple[str, str, str]
    peaks: list[int]
    noise_bytes: int
    first_s: int


def attempt(log: TextIO, number: int, sizes: tuple[int, int], meminfo: Path | None) -> Attempt:
    """One job ramps up, the next holds less all the time, and the third begins as the second ends."""
    time.sleep(2)  # readings of the node without a job
    ids = (f"{number}1.real", f"{number}2.real", f"{number}3.real")
    with Background(meminfo) as background:
        begin = math.ceil(time.time())
        log.write(line("S", ids[0], begin))
        ramped, over = run_job(background, sizes[0], 3.0, 2.0, begin)
        log.write(line("E", ids[0], begin, over) + line("S", ids[1], over))
        steady, last = run_job(background, sizes[1], 0.2, 4.0, over)
        # The next one begins at once, so no reading shows the node without a job after either of them.
        log.write(line("E", ids[1], over, last) + line("S", ids[2], last))
        time.sleep(max(0.0, last + 2 - time.time()))
        log.write(line("E", ids[2], last, last + 2))
        log.flush()
    return Attempt(ids, [ramped, steady], background.noise_bytes, over - begin)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    "quiet", [pytest.param(True, id="job"), pytest.param(False, id="whole-machine", marks=pytest.mark.alone)]
)
@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="no /proc/meminfo: the kernel is not Linux")
def test_the_peak_of_real_processes_and_of_one_that_follows_another_at_once(tmp_path: Path, quiet: bool) -> None:
    """Once with the machine's memory as it is, once with what else runs here taken out of it."""
    settings = ("--follow-interval-s", "0.2", "--profile-grace-s", "60")
    site = make.site(tmp_path / "site", *settings)
    agent = [*AGENT, "run", "--server", site.ingest_url, "--token-file", str(site.agent_token_file)]
    agent += ["--cluster", "alpha", "--node", "real", "--spool", str(tmp_path / "spool")]
    agent += ["--interval", "0.25", "--batch", "8", "--batch-age-s", "1"]
    sizes, meminfo = (RAMPED_BYTES, STEADY_BYTES), None
    if quiet:
        sizes, meminfo = (sizes[0] // 4, sizes[1] // 4), quiet_root(tmp_path / "root") / "proc" / "meminfo"
        agent += ["--host-root", str(tmp_path / "root")]
    with site.serve(), (site.accounting / "alpha" / "20261101").open("a") as log:
        with subprocess.Popen(agent) as process:
            try:
                wait_until(lambda: bool(site.api("nodes")["nodes"]), 180, lambda: "the agent sent nothing")
                for number in range(1, ATTEMPTS + 1):
                    made = attempt(log, number, sizes, meminfo)
                    if made.noise_bytes <= MOST_NOISE * STEADY_BYTES:
                        break
                else:
                    pytest.skip(
                        f"other processes move this machine's memory by {made.noise_bytes // MIB} MiB meanwhile"
                    )
                wait_until(lambda: site.settled(3 * number), 180, lambda: str(site.api("overview")["jobs"]))
            finally:
                process.terminate()
        first, second = (memory_of(site, job_id) for job_id in made.ids[:2])
    slack = made.noise_bytes + 16 * MIB
    assert first["memory_source"] == "samples"
    assert abs(first["value"] - made.peaks[0]) <= slack, (first, made)
    assert first["memory_mean"] < 0.9 * first["value"]  # a ramp: the average is what would kill it
    assert second["memory_source"] == "samples-idle-remembered"
    assert abs(second["value"] - made.peaks[1]) <= slack, (second, made)
    assert second["memory_idle_age_s"] >= made.first_s
    assert first["learned"]
    assert second["learned"]
