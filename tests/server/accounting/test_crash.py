from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade

# Prints a line within each of its transactions and waits for one, so that it can be killed in one.
_CHILD = """
import sys
from pathlib import Path
from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.engine import open_engine

def clock():
    print("in a transaction", flush=True)
    sys.stdin.readline()
    return 1.0

follow_once(open_engine(sys.argv[1]), AccountingSource("c", Path(sys.argv[2])), clock)
print("done", flush=True)
"""


@pytest.fixture
def days(directory: Path, make_log: Callable[[int], Any], noon: int) -> Path:
    """Four days of 1,000 lines: starts, ends, requeues, deletions and rubbish."""
    rng = random.Random(3)
    for day in range(4):
        log = make_log(-18_000)
        for number in range(500):
            job, start = f"{day * 450 + number}.s", noon + day * 86400 + number
            log.start(job, start)
            other = rng.choice("EEEERDx")
            if other == "E":
                log.end(job, start, start + 120)
            elif other == "x":
                log.lines.append("rubbish\n")
            else:
                log.write(start + 50, other, job)
        (directory / f"2023111{day}").write_bytes(log.data)
    return directory


@pytest.fixture
def expected(days: Path, tmp_path: Path, dump: Callable[[Engine], Any]) -> Any:
    """The database after a reading that nothing disturbed."""
    engine = open_engine(f"sqlite:///{tmp_path / 'undisturbed.db'}")
    upgrade(engine)
    assert follow_once(engine, AccountingSource("c", days), lambda: 1.0).lines == 4_000
    found = _by_content(dump(engine))
    engine.dispose()
    return found


def _by_content(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Without row numbers, which depend on how often it was tried."""
    jobs = {row["id"]: (row["job_id"], row["start"]) for row in found["jobs"]}
    places = [{**row, "run_id": jobs[row["run_id"]]} for row in found["job_nodes"]]
    plain = {
        name: [{key: value for key, value in row.items() if key != "id"} for row in found[name]]
        for name in ("jobs", "event_counts", "accounting_rejects", "accounting_files")
    }
    return {name: sorted(rows, key=repr) for name, rows in {**plain, "job_nodes": places}.items()}


@pytest.mark.slow
def test_killed_at_random_it_loses_and_doubles_nothing(
    database_url: str, engine: Engine, days: Path, expected: Any, dump: Callable[[Engine], Any]
) -> None:
    rng = random.Random(11)
    kills = 0
    for _ in range(40):
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, database_url, str(days)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        transactions = rng.randrange(1, 4)
        over = False
        while transactions and not over:
            over = child.stdout.readline() == "done\n"
            transactions -= 1
            if not over and (transactions or rng.random() < 0.5):  # half of them die in a transaction, half after it
                child.stdin.write("\n")
                child.stdin.flush()
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
        child.stdin.close()
        child.stdout.close()
        if over:
            break
        kills += 1
    assert kills >= 3
    follow_once(engine, AccountingSource("c", days), lambda: 1.0)
    assert _by_content(dump(engine)) == expected
