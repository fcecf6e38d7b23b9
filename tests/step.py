"""Run a command, print the seconds it took, and end with its status: ``python tests/step.py NAME COMMAND...``.

CPU seconds include all child processes that were waited for. The line is also added to the file that
``JOBSIGHT_STEPS`` names.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    name, *command = sys.argv[1:]
    began = time.monotonic()
    process = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets it, too, and ends
    status = process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} CPU seconds"
    line = f"{name}: {seconds}{f', failed with status {status}' if status else ''}"
    print(line, flush=True)
    if file := os.environ.get("JOBSIGHT_STEPS"):
        with Path(file).open("a") as steps:
            steps.write(line + "\n")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
