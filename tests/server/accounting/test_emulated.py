"""A site's log against the runs that it was written from: the writer shares no code with the reader."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from sqlalchemy import Engine, text

from jobsight_emulator.accounting import DayFiles, make_entries, used_cpu_s
from jobsight_emulator.placement import EmulatedRun, place_jobs
from jobsight_emulator.plan import WEEK_S, Faults, SitePlan
from jobsight_emulator.site import make_site
from jobsight_emulator.workload import make_jobs
from jobsight_server.accounting.read_logs import follow_once
from jobsight_server.settings import AccountingSource

END = 1_700_000_040
PLAN = SitePlan(16, 2, END - 2 * WEEK_S, END, seed=3, faults=Faults(outage_every_s=86_400))


def _state(run: EmulatedRun) -> str:
    if run.end is None:
        return "running"
    return "requeued" if run.requeued else "ended"


def test_every_run_of_an_emulated_site_is_read_as_it_was(sqlite_engine: Engine, tmp_path: Path) -> None:
    states = set()
    for cluster in make_site(PLAN):
        jobs = make_jobs(PLAN, cluster)
        runs = place_jobs(PLAN, cluster, jobs)
        log = DayFiles.create(tmp_path / cluster.name, cluster.utc_offset_s)
        for entry in make_entries(cluster, jobs, runs):
            log.append(entry)
        log.close()
        report = follow_once(sqlite_engine, AccountingSource(cluster.name, tmp_path / cluster.name), lambda: 1.0)
        assert (report.rejected.total(), report.unreadable) == (0, {})

        nodes: dict[int, dict[str, int]] = defaultdict(dict)
        with sqlite_engine.connect() as connection:
            for run_id, node, processors in connection.execute(text("SELECT * FROM job_nodes")):
                nodes[run_id][node] = processors
            query = text("SELECT * FROM jobs WHERE cluster = :cluster")
            rows = connection.execute(query, {"cluster": cluster.name}).all()
        found = {
            (row.job_id, row.start): (
                row.state,
                row.end,
                row.user,
                row.name,
                row.account,
                row.used_cpu_s,
                nodes[row.id],
            )
            for row in rows
        }
        assert len(found) == len(runs) > 100
        for run in runs:
            used = float(int(used_cpu_s(run))) if _state(run) == "ended" else None
            places = {cluster.nodes[place.node].name: len(place.slots) for place in run.places}
            user = run.job.user
            expected = (_state(run), run.end, user.name, run.job.name, user.account, used, places)
            assert found[run.job.id, float(run.start)] == expected
            states.add(_state(run))
    assert states == {"running", "requeued", "ended"}
