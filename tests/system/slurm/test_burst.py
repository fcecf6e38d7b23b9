"""A real Slurm with 3,000 jobs in a burst, followed with the default settings: what that costs beside slurmctld."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator

import psutil
import pytest
from tests.system.slurm.cluster import SlurmCluster, missing
from tests.system.slurm.live import LiveJobsight

from site_run import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.alone,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

JOBS = 3000
SUBMIT = "i=0; while [ $i -lt {jobs} ]; do sbatch -Q --job-name=burst --mem=100M --time=5 {script}; i=$((i+1)); done"


@pytest.fixture(scope="module")
def patient(live: LiveJobsight) -> Iterator[LiveJobsight]:
    """Jobsight that asks as seldom as by default."""
    settings = live.directory / "jobsight.toml"
    settings.write_text(settings.read_text().replace("interval_s = 1\n", "").replace("follow_interval_s = 0.5\n", ""))
    with live.following():
        yield live


def test_following_a_burst_takes_no_more_processor_time_than_slurmctld(patient: LiveJobsight) -> None:
    cluster, user = patient.cluster, patient.cluster.users[0]
    server = patient.site.process
    assert server is not None
    before = controller_s(cluster), spent_s(server.pid)
    script = cluster.script(user, "sleep 1")
    cluster.run("sh", "-c", SUBMIT.format(jobs=JOBS, script=script), user=user, timeout=900)
    wait_until(lambda: ended(patient) == JOBS, 1200, lambda: f"{ended(patient)} of {JOBS}", 5)
    controller = controller_s(cluster) - before[0]
    spent = {name: seconds - before[1].get(name, 0.0) for name, seconds in spent_s(server.pid).items()}
    commands = spent.pop("commands")
    print(
        f"slurmctld {controller:.1f} s, sacct and squeue {commands:.1f} s, Jobsight {sum(spent.values()):.1f} s {spent}"
    )
    assert 0.0 < sum(spent.values()) <= controller


def controller_s(cluster: SlurmCluster) -> float:
    """Return the processor time of slurmctld."""
    (pid,) = (process.pid for name, process in cluster._daemons.items() if name == "slurmctld")
    spent = psutil.Process(pid).cpu_times()
    return float(spent.user + spent.system)


def spent_s(pid: int) -> dict[str, float]:
    """Return the processor time of the server's processes, and of the commands that they ran and that have ended."""
    root, found = psutil.Process(pid), defaultdict[str, float](float)
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # a command that has just ended
            spent, name = process.cpu_times(), process.name()
            if name.startswith(("python", "jobsight")):
                found[name] += spent.user + spent.system
                found["commands"] += spent.children_user + spent.children_system
    return found


def ended(live: LiveJobsight) -> int:
    """Return how many jobs have ended, and are profiled, as the server knows them."""
    with sqlite3.connect(live.site.database.removeprefix("sqlite:///")) as database:
        (found,) = database.execute("SELECT count(*) FROM jobs WHERE state = 'ended' AND profiled").fetchone()
    return int(found)
