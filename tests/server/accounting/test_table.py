"""Tables of runs, as a site's converter writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jobsight_server.accounting.parsers.table import parser_of
from jobsight_server.accounting.parsers.table_columns import COLUMNS
from jobsight_server.accounting.runs import JobEvent, RunRecord

T0 = 1_790_000_000


def parsed(*lines: str) -> list[JobEvent]:
    parse = parser_of("\n".join(lines).encode())
    return [parse(line) for line in lines]


BACCT = """
Accounting information about jobs that are:
  - submitted by all users.
  - accounted on all projects.
------------------------------------------------------------------------------

Job <1743>, Job Name <cfd>, User <ann>, Project <fluids>, Status <DONE>, Queue <normal>, Command <./cfd 1>
Mon Sep 21 14:12:20: Submitted from host <login>, CWD <$HOME>, Output File </dev/null>;
Mon Sep 21 14:13:20: Dispatched 6 Task(s) on Host(s) <4*n1> <2*n2>, Allocated 6 Slot(s) on Host(s) <4*n1> <2*n2>;
Mon Sep 21 14:14:20: Completed <done>.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
    300.19       60            120     done         2.5016     1.5G   216M
------------------------------------------------------------------------------

Job <1744[3]>, User <bob>, Project <default>, Status <EXIT>, Queue <normal>, Command <./cfd 2>
Mon Sep 21 14:12:20 2026: Submitted from host <login>, CWD <$HOME>;
Mon Sep 21 14:13:20 2026: [3] dispatched to <n1>;
Mon Sep 21 14:13:50 2026: Completed <exit>; TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
      0.19       60             90     exit         0.0012    512M     -
------------------------------------------------------------------------------

Job <1745>, User <bob>, Project <default>, Status <EXIT>, Queue <normal>, Command <sleep 9>
Mon Sep 21 14:12:20: Submitted from host <login>, CWD <$HOME>;
Mon Sep 21 14:12:30: Completed <exit>; TERM_OWNER: job killed by owner.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
      0.00       10             10     exit         0.0000      -      -
------------------------------------------------------------------------------

SUMMARY:      ( time unit: second )
 Total number of done jobs:       1      Total number of exited jobs:     2
"""
ROOT = Path(__file__).parents[3]


def test_the_converter_of_bacct_makes_a_table() -> None:
    converter = ROOT / "examples" / "lsf_to_table.py"
    made = subprocess.run(
        [sys.executable, str(converter), "2026"],
        input=BACCT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TZ": "UTC"},
    )
    done, killed, never_ran = parsed(*made.stdout.splitlines())
    assert done.run == RunRecord(
        user="ann",
        account="fluids",
        name="cfd",
        queue="normal",
        queued=T0 - 60.0,
        start=float(T0),
        end=T0 + 60.0,
        exec_host="n1:4 n2:2",
        nodes=(("n1", 4), ("n2", 2)),
        processors=6,
        used_cpu_s=300.19,
        used_memory_bytes=3 * 2**29,
        used_walltime_s=60.0,
    )
    assert killed.run is not None
    assert (killed.job_id, killed.run.nodes, killed.run.failure) == ("1744[3]", (("n1", 1),), "memory")
    assert killed.run.used_memory_bytes == 2**29
    assert (never_ran.job_id, never_ran.kind) == ("1745", "D")


def test_the_documents_name_every_column() -> None:
    text = (ROOT / "docs" / "operate" / "sources.md").read_text()
    assert {name for name in COLUMNS if f"`{name}`" not in text} == set()
