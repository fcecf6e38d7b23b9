"""Runs all benchmarks, one after the other; each prints its own figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("ingest.py", "backlog.py", "simulator.py")

if __name__ == "__main__":
    for name in BENCHMARKS:
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, str(Path(__file__).with_name(name))], check=True)
