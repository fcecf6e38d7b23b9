"""Makes docs/papers/coallocation.md and its figure: the co-allocation experiment on KTH-SP2 and SDSC-SP2.

    python benchmarks/coallocation.py [--output docs] [--runs coallocation.jsonl] [--workers N]

Traces are looked for in JOBSIGHT_TRACES, by default ../shared/traces. The same traces give the same document. What
is finished is kept in the file of runs, from which the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from coallocation_document import document

from jobsight_papers.coallocation.command import TRACES
from jobsight_papers.coallocation.plot import draw

ROOT = Path(__file__).parents[1]


def experiment(*options: str) -> dict[str, Any]:
    """What ``python -m jobsight_papers coallocation`` prints; SystemExit where it fails or is interrupted."""
    command = [sys.executable, "-m", "jobsight_server.cli", "experiment", "coallocation", "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs/papers", metavar="DIR", help="default: docs/papers")
    parser.add_argument("--runs", type=Path, default=ROOT / "coallocation.jsonl", metavar="FILE", help="finished runs")
    parser.add_argument("--workers", default=str(os.cpu_count() or 1), metavar="N", help="processes (one a core)")
    args = parser.parse_args()
    folder = Path(os.environ.get("JOBSIGHT_TRACES", ROOT.parent / "shared" / "traces"))
    if missing := [name for name in TRACES if not (folder / name).exists()]:
        print(
            f"not in {folder}: {', '.join(missing)}. Set JOBSIGHT_TRACES to the folder of the traces.", file=sys.stderr
        )
        return 1
    files = [str(folder / name) for name in TRACES]
    found = experiment("--traces", *files, "--out", str(args.runs), "--workers", args.workers)
    pictures = args.output / "coallocation"
    draw(found, pictures)
    (args.output / "coallocation.md").write_text(document(found), encoding="utf-8")
    print(f"written: {args.output / 'coallocation.md'}, {pictures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
