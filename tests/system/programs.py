"""Programs for the jobs of a real scheduler, which write down what they held and burned: the truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

# Holds so many MiB, burns processor time up to so many seconds, and stays; then it may grow until its end. What it held
# and burned is the truth: written before it stays, in case that it is killed there, and at its end.
# Debian's own interpreter: the one that runs the tests may be where other users cannot go.
HOLD = """#!/usr/bin/python3 -IS
import json, os, sys, time
begin = time.time()
folder, label, mib, cpu_s, stay_s, grown_mib, grown_s = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
def hold(mib):
    held = bytearray(int(mib * 2**20))
    held[::4096] = b"x" * len(held[::4096])
    return held
def status():
    with open("/proc/self/status") as lines:
        return {words[0]: int(words[1]) * 1024 for words in map(str.split, lines) if words[-1] == "kB"}
held = [hold(mib)]
full = time.time()
virtual, anonymous = status()["VmSize:"], status()["RssAnon:"]
job = os.environ.get("SLURM_JOB_ID") or os.environ["JOB_ID"]
if (task := os.environ.get("SGE_TASK_ID", "undefined")) != "undefined":
    job += "." + task
def write():
    restart = os.environ.get("SLURM_RESTART_COUNT") or os.environ.get("RESTARTED") or 0
    truth = {"label": label, "restart": int(restart), "virtual_bytes": virtual, "told_cpu_s": cpu_s}
    truth |= {"anonymous_bytes": anonymous, "cpu_s": sum(os.times()[:4])}
    with open(f"{folder}/{job}-{label}-{os.getpid()}.json", "w") as file:
        json.dump({**truth, "peak_bytes": status()["VmHWM:"], "begin": begin, "full": full, "end": time.time()}, file)
while sum(os.times()[:4]) < cpu_s:
    pass
write()
time.sleep(stay_s)
for _ in range(20 if grown_mib else 0):
    held.append(hold(grown_mib / 20))
    time.sleep(grown_s / 20)
anonymous = status()["RssAnon:"]
del held  # giving it back costs processor time too
write()
"""


class Programs:
    """The program that holds memory, and where it writes the truth, which all users may."""

    def __init__(self, directory: Path) -> None:
        self.truths = directory / "truth"
        self.truths.mkdir()
        self.truths.chmod(0o1777)
        self._program = directory / "hold"
        self._program.write_text(HOLD)
        self._program.chmod(0o755)

    def hold(
        self,
        label: str,
        mib: float | str,
        cpu_s: float = 0,
        stay_s: float = 3,
        *,
        grown_mib: float = 0,
        grown_s: float = 0,
    ) -> str:
        """The command of a program that holds memory; ``mib`` may be what a shell makes of a text.

        In its last ``grown_s`` it grows by ``grown_mib``.
        """
        return f"{self._program} {self.truths} {label} {mib} {cpu_s} {stay_s} {grown_mib} {grown_s}"

    def truths_of(self, job_id: object) -> Sequence[dict[str, float]]:
        """Records of the programs of the job's last run."""
        found = [json.loads(file.read_text()) for file in sorted(self.truths.glob(f"{job_id}-*.json"))]
        assert found, f"{job_id} left nothing in {self.truths}"
        last = max(truth["restart"] for truth in found)
        return [truth for truth in found if truth["restart"] == last]

    def burns(self, job_id: object) -> bool:
        """Return whether a program of the job was told to burn processor time, beside what holding memory takes."""
        return any(truth["told_cpu_s"] for truth in self.truths_of(job_id))
