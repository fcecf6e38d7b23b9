"""Programs for the jobs of a real scheduler, which write down what they held and burned: the truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

# Holds so many MiB, burns processor time up to so many seconds, and stays. What it held and burned then is the truth.
# Debian's own interpreter: the one that runs the tests may be where other users cannot go.
HOLD = """#!/usr/bin/python3 -IS
import json, os, sys, time
begin = time.time()
folder, label, mib, cpu_s, stay_s = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
held = bytearray(int(mib * 2**20))
held[::4096] = b"x" * len(held[::4096])
full = time.time()
def status():
    with open("/proc/self/status") as lines:
        return {words[0]: int(words[1]) * 1024 for words in map(str.split, lines) if words[-1] == "kB"}
virtual = status()["VmSize:"]
while sum(os.times()[:4]) < cpu_s:
    pass
time.sleep(stay_s)
del held  # giving it back costs processor time too
job = os.environ.get("SLURM_JOB_ID") or os.environ["JOB_ID"]
if (task := os.environ.get("SGE_TASK_ID", "undefined")) != "undefined":
    job += "." + task
truth = {"label": label, "peak_bytes": status()["VmHWM:"], "virtual_bytes": virtual, "cpu_s": sum(os.times()[:4])}
with open(f"{folder}/{job}-{label}-{os.getpid()}.json", "w") as file:
    json.dump({**truth, "begin": begin, "full": full, "end": time.time()}, file)
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

    def hold(self, label: str, mib: float | str, cpu_s: float = 0, stay_s: float = 3) -> str:
        """The command of a program that holds memory; ``mib`` may be what a shell makes of a text."""
        return f"{self._program} {self.truths} {label} {mib} {cpu_s} {stay_s}"

    def truths_of(self, job_id: object) -> Sequence[dict[str, float]]:
        """Records of the job's programs."""
        found = [json.loads(file.read_text()) for file in sorted(self.truths.glob(f"{job_id}-*.json"))]
        assert found, f"{job_id} left nothing in {self.truths}"
        return found
