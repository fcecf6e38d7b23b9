"""Tables of runs, as a site's converter writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from jobsight_server.accounting.parsers.table import parser_of
from jobsight_server.accounting.parsers.table_columns import COLUMNS
from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.accounting.runs import AccountingError, JobEvent, RunRecord
from jobsight_server.settings import AccountingSource
from jobsight_server.storage.schema import jobs

T0 = 1_790_000_000


def parsed(*lines: str) -> list[JobEvent]:
    parse = parser_of("\n".join(lines).encode())
    return [parse(line) for line in lines]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("job_id,user,start_epoch_s,used_memory", "unknown column: 'used_memory; nearest: used_memory_"),
        ("job_id,user,start_epoch_s,usr", "unknown column: 'usr; nearest: user'"),
        ("JobID,user,start_epoch_s", "unknown column: 'JobID; nearest: "),
        ("job_id,user,start_epoch_s,start_utc", "two columns for the same field: 'start_epoch_s, start_utc'"),
        ("job_id,user", "a column is missing: 'start_epoch_s or start_epoch_ms or start_utc'"),
        ("", "a column is missing: 'job_id'"),
        ('job_id,"user', "not a line of CSV"),
    ],
)
def test_a_wrong_header_names_the_column_and_the_nearest(header: str, reason: str) -> None:
    with pytest.raises(AccountingError, match=reason):
        parser_of(f"{header}\n1,ann,1\n".encode())


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


@pytest.mark.storage
def test_jobs_wait_begin_and_go_by_rows_that_are_added(engine: Engine, tmp_path: Path) -> None:
    log, none = tmp_path / "jobs", {"start_epoch_s": None, "end_epoch_s": None}
    waits = {"user": "ann", "name": "cfd", "submitted_epoch_s": T0, "state": "waiting", "processors": 4, **none}
    source = AccountingSource("alpha", file=log, format="table")
    columns = (jobs.c.job_id, jobs.c.state, jobs.c.submitted, jobs.c.processors, jobs.c.requested_memory_bytes)

    def add(*rows: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        with log.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        assert follow_once(engine, source, lambda: T0 + 1000.0).rejected.total() == 0
        with engine.connect() as connection:
            return {row.job_id: tuple(row)[1:] for row in connection.execute(select(*columns))}

    memory = {"requested_memory_gib": 2}
    found = add({"job_id": "1", **waits, **memory}, {"job_id": "2", **waits}, {"job_id": "3", **waits})
    assert found["1"] == ("queued", T0, 4, 2 * 2**30)
    assert [row[0] for row in found.values()] == ["queued"] * 3
    began = {"job_id": "1", "user": "ann", "submitted_epoch_s": T0, "start_epoch_s": T0 + 60, "end_epoch_s": None}
    cancelled = {"job_id": "2", "user": "ann", "submitted_epoch_s": T0, **none, "end_epoch_s": T0 + 70}
    found = add(began, cancelled, {"job_id": "3", **waits, **memory})
    assert found.keys() == {"1", "3"}
    assert found["1"] == ("running", T0, 4, 2 * 2**30), "what the queue said is kept"
    assert found["3"] == ("queued", T0, 4, 2 * 2**30)
    found = add(began | {"end_epoch_s": T0 + 90}, {"job_id": "1", **waits})
    assert found["1"][0] == "ended", "an old row that comes late does not make it wait again"
