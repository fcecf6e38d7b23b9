"""A site with 200,000 jobs a day, followed by a recorded sacct: nothing lost, in a small part of one core."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select
from tests import make, recorded_sacct
from tests.recorded_sacct import COLUMNS, PIECE_S

from jobsight_server.accounting.follow_slurm import SlurmFollower
from jobsight_server.ground.seldom import Seldom
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import jobs

BEGIN = 1_760_000_400
EVERY_S = 30
A_DAY = 200_000
LONGEST_S = 1800
HOUR_S = 3600


@dataclass
class RecordedSlurm:
    """The jobs of some hours, of which ``until`` have been submitted at most, and the clock."""

    directory: Path
    hours: int
    now: int = BEGIN

    def write(self) -> None:
        shutil.copy(recorded_sacct.__file__, self.directory / "sacct")
        (self.directory / "sacct").chmod(0o755)
        ended: dict[int, list[str]] = defaultdict(list)
        for number in range(self.count):
            submitted = BEGIN + number * 86400 // A_DAY
            start = submitted + number * 7 % 600
            end = start + 10 + number * 37 % (LONGEST_S - 10)
            ended[end // PIECE_S * PIECE_S] += rows_of(number + 1, submitted, start, end)
        for time_s, rows in ended.items():
            (self.directory / f"{time_s}.jobs").write_text("\n".join([*rows, ""]))
        self.at(self.now)

    @property
    def count(self) -> int:
        return self.hours * A_DAY // 24

    def at(self, now: int) -> None:
        self.now = now
        (self.directory / "now").write_text(f"{now}")


def rows_of(number: int, submitted: int, start: int, end: int) -> list[str]:
    """Return the rows of a job and its two steps."""
    tres, kib = "cpu=4,mem=8000M,node=1", 10_000 + number * 13 % 90_000
    job = {
        "JobIDRaw": f"{number}",
        "JobID": f"{number}",
        "User": f"user{number % 500}",
        "Group": "hpc",
        "ExitCode": "0:0",
    }
    job |= {"Account": "physics", "Partition": "batch", "JobName": f"run_{number % 50}", "State": "COMPLETED"}
    job |= {"Submit": f"{submitted}", "Eligible": f"{submitted}", "Start": f"{start}", "End": f"{end}"}
    job |= {"TimelimitRaw": "720", "ReqMem": "8000M", "ReqTRES": tres, "AllocTRES": tres, "AllocCPUS": "4"}
    job |= {"NNodes": "1", "NodeList": f"n{number % 1000}", "TotalCPU": "00:50.123", "SubmitLine": "sbatch -n4 job.sh"}
    found = [job]
    for step in ("batch", "0"):
        used = {f"TRESUsageIn{kind}": f"cpu=00:00:50,mem={kib}K" for kind in ("Tot", "Min", "Max")}
        found.append({**job, "JobIDRaw": f"{number}.{step}", "User": "", "ReqTRES": "", "NTasks": "1", **used})
    return ["\x1f".join(each.get(column, "") for column in COLUMNS) for each in found]


def states(engine: Engine) -> dict[str, int]:
    """Return the number of runs in each state."""
    return dict(make.rows(engine, select(jobs.c.state, func.count()).group_by(jobs.c.state)))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_two_hundred_thousand_jobs_a_day_take_a_small_part_of_a_core(sqlite_engine: Engine, tmp_path: Path) -> None:
    slurm = RecordedSlurm(tmp_path, hours=2)
    slurm.write()
    source = AccountingSource("lab", format="slurm", sacct=(str(tmp_path / "sacct"),), history_s=1.5 * HOUR_S)
    follower = SlurmFollower(sqlite_engine, source, lambda: float(slurm.now), Seldom(60.0, 100))
    slurm.at(BEGIN + 3 * HOUR_S // 2)
    assert follower.read().unreadable == {}  # the history
    began_s, minutes = time.process_time(), 6
    for _ in range(minutes * 60 // EVERY_S):
        slurm.at(slurm.now + EVERY_S)
        assert follower.read().unreadable == {}
    share = (time.process_time() - began_s) / (minutes * 60)
    print(f"{share:.2%} of a core")
    slurm.at(BEGIN + slurm.hours * HOUR_S + 600 + LONGEST_S)
    assert follower.read().unreadable == {}
    assert states(sqlite_engine) == {"ended": slurm.count}
    assert share < 0.1
