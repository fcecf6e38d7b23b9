"""HTCondor's job event log: attempts and how they ended, damaged lines, read again; exports."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.make import not_none

from jobsight_server.cli import main
from jobsight_server.systems.ranking.condor import LoggedAttempt, read_condor_log

from .conftest import Farm

NEWEST = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
LOG = """\
000 (023.000.000) 2023-11-14 10:00:00Z Job submitted from host: <192.0.2.1:9618?addrs=192.0.2.1-9618>
...
001 (023.000.000) 2023-11-14 10:00:10Z Job executing on host: <192.0.2.5:9618?addrs=x&alias=n5.example.org&noUDP>
\tSlotName: slot1_2@n5.example.org
\tScratchDir: "/var/lib/condor"
...
006 (023.000.000) 2023-11-14 10:05:18Z Image size of job updated: 1024
\t1  -  MemoryUsage of job (MB)
...
003 (023.000.000) 2023-11-14 10:30:00Z Job was checkpointed.
\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage
...
004 (023.000.000) 2023-11-14 11:00:10Z Job was evicted.
\t(0) Job was not checkpointed.
\t\tUsr 0 00:59:00, Sys 0 00:00:05  -  Run Remote Usage
...
001 (023.000.000) 2023-11-14 11:10:00Z Job executing on host: <192.0.2.6:9618?alias=n6.example.org>
...
004 (023.000.000) 2023-11-14 11:20:00Z Job was evicted.
\t(1) Job was checkpointed.
...
001 (023.000.000) 2023-11-14 11:30:00Z Job executing on host: <192.0.2.7:51234>
...
005 (023.000.000) 2023-11-14 12:30:00Z Job terminated.
\t(1) Normal termination (return value 0)
...
001 (024.001.000) 2023-11-14 11:30:00Z Job executing on host: <192.0.2.5:9618?alias=n5.example.org>
...
022 (024.001.000) 2023-11-14 11:40:00Z Job disconnected, attempting to reconnect
    Socket between submit and execute hosts closed unexpectedly
...
024 (024.001.000) 2023-11-14 12:20:00Z Job reconnection failed
    Job disconnected too long: JobLeaseDuration (2400 seconds) expired
...
001 (025.000.000) 2023-11-14 13:00:00Z Job executing on host: <192.0.2.6:9618?alias=n6.example.org>
...
005 (025.000.000) 2023-11-14 13:05:00Z Job terminated.
\t(0) Abnormal termination (signal 9)
...
009 (026.000.000) 2023-11-14 13:06:00Z Job was aborted.
\tvia condor_rm (by user ada)
...
"""
LINES = LOG.encode().splitlines(keepends=True)


def recent(log: str) -> str:
    """The same, a day old."""
    return log.replace("2023-11-14", time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400.0)))


def attempts(host: str, days_ago: float, evicted: int, completed: int = 0) -> str:
    """Attempts of a quarter of an hour, one an hour, over this many days."""
    events = []
    for number in range(evicted + completed):
        start = time.time() - 86_400.0 * days_ago - 3600.0 * (number + 1)
        job = f"({sum(host.encode()):03}{number:03}.000.000)"
        end = "004", "Job was evicted.", "(0) Job was not checkpointed."
        if number >= evicted:
            end = "005", "Job terminated.", "(1) Normal termination (return value 0)"
        at = [time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(moment)) for moment in (start, start + 900.0)]
        events.append(
            f"001 {job} {at[0]} Job executing on host: <192.0.2.5:9618?alias={host}>\n...\n"
            f"{end[0]} {job} {at[1]} {end[1]}\n\t{end[2]}\n...\n"
        )
    return "".join(events)


def test_attempts_and_how_they_left_their_machines() -> None:
    found = read_condor_log(LINES, NEWEST)
    day = 1_699_920_000.0
    assert found.attempts == [
        LoggedAttempt("23.0", "n5", day + 36010, day + 39610, "evicted"),
        LoggedAttempt("23.0", "n6", day + 40200, day + 40800, "checkpointed"),
        LoggedAttempt("23.0", "192.0.2.7", day + 41400, day + 45000, "success"),
        LoggedAttempt("24.1", "n5", day + 41400, day + 44400, "evicted"),
        LoggedAttempt("25.0", "n6", day + 46800, day + 47100, "failed"),
    ]
    assert (found.checkpoints, dict(found.skipped)) == (1, {})


def test_stamps_without_a_year_are_of_the_last_one() -> None:
    lines = [
        b"001 (1.0.0) 12/31 23:00:00 Job executing on host: <192.0.2.5:1?alias=n5>\n",
        b"...\n",
        b"005 (1.0.0) 01/01 01:00:00 Job terminated.\n",
        b"\t(1) Normal termination (return value 0)\n",
        b"...\n",
    ]
    (attempt,) = read_condor_log(lines, 1_704_100_000.0).attempts  # 2024-01-01 09:06 UTC
    assert attempt.end - attempt.start == 7200.0
    assert 1_704_000_000 < attempt.start < 1_704_110_000


@pytest.mark.parametrize("seed", range(20))
def test_damaged_lines_are_counted_and_cost_no_more_than_their_events(seed: int) -> None:
    rng = random.Random(seed)
    lines = list(LINES)
    for _ in range(3):
        place = rng.randrange(len(lines))
        choice = rng.randrange(4)
        if choice == 0:
            lines[place] = bytes(rng.randrange(256) for _ in range(40)) + b"\n"
        elif choice == 1:
            del lines[place]
        elif choice == 2:
            lines.insert(
                place, rng.choice((b"x" * 70_000 + b"\n", b"\0\0\0\n", b"...\n", b"004 (9.0.0) 99/99 99:99:99 Job\n"))
            )
        else:
            lines = lines[: max(place, 1)]
            break
    found = read_condor_log(lines, NEWEST)
    whole = {(attempt.job_id, attempt.host, attempt.outcome) for attempt in read_condor_log(LINES, NEWEST).attempts}
    shared = sum((attempt.job_id, attempt.host, attempt.outcome) in whole for attempt in found.attempts)
    assert shared >= len(found.attempts) - 3
    assert all(attempt.end >= attempt.start for attempt in found.attempts)


def test_a_log_counts_once_and_its_machines_are_ranked(
    sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    farm = Farm(sqlite_engine)
    file = tmp_path / "job.log"
    file.write_text(recent(LOG) + "005 (027.000.000) 2023-11-14 13:05:00Z Job term")
    url = str(sqlite_engine.url)
    command = ["ranks", "--database", url, "--read-condor", str(file), "--cluster", "pool"]
    assert main(command) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "5 attempts on 3 machines" in said
    assert "5 counted, 0 known before" in said
    assert "skipped: 1 x truncated event" in said
    assert main(command) == 0
    assert "0 counted, 5 known before" in re.sub(r"\s+", " ", capsys.readouterr().err)
    assert [farm.row(name, "pool").score for name in ("n5", "n6", "192.0.2.7")] == [-2.0, -2.0, 1.0]
    assert farm.outcomes_of("n6", "pool") == ["checkpointed", "failed"]
    assert main(["ranks", "--database", url, "--format", "slurm"]) == 0
    weights = [re.fullmatch(r"NodeName=(\S+) Weight=(\d+)", line) for line in capsys.readouterr().out.splitlines()]
    assert not_none(weights[0])[1] == "192.0.2.7", "the default rank sees evictions and failures too"
    assert int(weights[0][2]) < min(int(match[2]) for match in weights[1:] if match)


def test_what_cannot_be_read_is_said(sqlite_engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(sqlite_engine.url)
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 500)
    assert main(["ranks", "--database", url, "--read-condor", str(tmp_path / "noise"), "--cluster", "p"]) == 1
    assert main(["ranks", "--database", url, "--read-condor", str(tmp_path / "none"), "--cluster", "p"]) == 1
    assert main(["ranks", "--database", url, "--read-condor", str(tmp_path / "noise")]) == 1
    assert "--cluster" in capsys.readouterr().err
