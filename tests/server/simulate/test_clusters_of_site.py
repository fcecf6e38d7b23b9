"""``jobsight simulate --clusters`` on a database: whether spreading a site's own jobs pays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import insert, select
from tests import make
from tests.make import Jobsight

from jobsight_scheduler.coallocation.compared import Variation, variation
from jobsight_server.replay.clusters import site_jobs
from jobsight_server.storage import schema
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade


def site(folder: Path, *, jobs: int = 2000, spread: float = 2.0, measured: float = 0.9) -> str:
    """A database of two clusters of at most 32 processors, whose users' applications differ by ``spread`` (log)."""
    engine = open_engine(f"sqlite:///{folder / 'site.db'}")
    upgrade(engine)
    rng = np.random.default_rng(4)
    typical = 1e7 * np.exp(spread * rng.standard_normal((8, 3)))
    runs, found, free = [], [], {"north": 0.0, "south": 0.0}
    for number in range(jobs):
        cluster, user, kind = ("north", "south")[number % 2], int(rng.integers(8)), int(rng.integers(3))
        start = free[cluster]
        end = free[cluster] = start + float(rng.uniform(60.0, 7200.0))
        name, processors = ("cfd.sh", "md", "qcd.x")[kind], int(rng.choice([2, 8, 20, 32]))
        times = {"start": start, "end": end, "submitted": max(0.0, start - 3000.0), "requested_walltime_s": 7200.0}
        run = {"id": number + 1, "cluster": cluster, "user": f"u{user}", "name": name, "processors": processors}
        runs.append(make.job_row(f"{number}.s", **run, **times))
        bandwidth = float(typical[user, kind] * np.exp(0.1 * rng.standard_normal()))
        for metric, value in (("bandwidth", bandwidth), ("cpu", 25e6 / (25e6 + bandwidth))):
            if rng.random() < measured:
                key = {"run_id": number + 1, "metric": metric, "learn_seq": number + 1, "source": "samples"}
                found.append(key | {"value": value, "attribution": "exclusive"})
    with engine.begin() as connection:
        connection.execute(insert(schema.jobs), runs)
        if found:
            connection.execute(insert(schema.profiles), found)
    engine.dispose()
    return str(folder / "site.db")


def test_a_site_whose_applications_differ_should_know_them(tmp_path: Path, jobsight: Jobsight) -> None:
    options = ("--uplink", "100M", "--clusters", "4x32", "--load", "0.8")
    found = jobsight("simulate", site(tmp_path), *options, "--json").json
    assert (found["jobs"], found["dropped"]) == (2000, 0)
    assert found["measured"] == pytest.approx(1800, abs=60)
    varies = found["variation"]
    assert varies["over_applications"] == pytest.approx(np.exp(2.0), rel=0.4)
    assert varies["over_jobs"] == pytest.approx(np.exp(0.1), rel=0.03)
    assert varies["busy_correlation"] < -0.99
    rows = {row["placement"]: row for row in found["rows"]}
    assert list(rows)[:2] == ["none", "naive"]
    assert list(rows)[3:] == ["application means", "the truth"]
    assert rows["none"]["turnaround_percent"] == [0.0, 0.0, 0.0]
    mean, low, high = rows["application means"]["turnaround_percent"]
    assert low < mean < high
    assert rows["naive"]["saturated"] > rows["application means"]["saturated"]
    assert rows["application means"]["mean_turnaround_s"] < rows["naive"]["mean_turnaround_s"]


def test_the_sites_own_clusters_and_words_for_people(tmp_path: Path, jobsight: Jobsight) -> None:
    database = site(tmp_path, jobs=300, spread=0.0)
    found = jobsight("simulate", f"sqlite:///{database}", "--clusters", "own", "--json").json
    assert found["clusters"] == [32, 32]
    assert found["variation"]["over_applications"] < 1.2
    assert found["verdict"].startswith(("Spreading jobs gains nothing", "Bandwidth need not be known"))
    shown = jobsight("simulate", database, "--clusters", "own", "--uplink", "1G,100M", "--half", "5M").out
    assert "clusters of 32, 32 processors with uplinks of 1000, 100 Mb/s" in " ".join(shown.split())
    assert "jobs of 5 Mb/s per processor communicate for half of their time" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80
    engine = open_engine(f"sqlite:///{database}")
    with engine.begin() as connection:  # the size of a node with an agent is known
        make.node(connection, "n1", cluster="north", cpus=64)
        runs = connection.execute(
            select(schema.jobs.c.id, schema.jobs.c.processors).where(schema.jobs.c.cluster == "north")
        )
        held = [{"run_id": run, "node": "n1", "processors": processors} for run, processors in runs]
        connection.execute(insert(schema.job_nodes), held)
    engine.dispose()
    found = jobsight("simulate", f"sqlite:///{database}", "--clusters", "own", "--json").json
    assert found["clusters"] == [64, 32], "as on the page of waiting times"


def test_jobs_that_were_not_measured_are_known_as_such(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{site(tmp_path, jobs=200, measured=0.5)}", "read")
    with engine.connect() as connection:
        found = site_jobs(connection, Part())
    assert 60 < np.isnan(found.bandwidth_bps).sum() < 140
    assert {question.user for question in found.questions} == {f"{user}" for user in range(1, 17)}
    assert (np.diff(found.trace["submit_s"]) >= 0.0).all()
    unknown = variation(found.questions, np.full(200, np.nan), found.busy)
    assert unknown == Variation(0.0, None, None, None)
    one = variation(found.questions[:1], np.array([5e6]), np.array([0.5]))
    assert (one.median_bps, one.over_applications, one.over_jobs) == (5e6, None, None)


def test_what_it_refuses(tmp_path: Path, jobsight: Jobsight) -> None:
    (tmp_path / "bare").mkdir()
    bare, database, trace = site(tmp_path / "bare", jobs=9, measured=0.0), site(tmp_path, jobs=9), tmp_path / "t.swf"
    trace.write_text("1 0 -1 50 4 -1 -1 4 60 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    for options, message in (
        ([str(trace), "--clusters", "own"], "--clusters own: only a database knows the site's own clusters"),
        ([bare, "--clusters", "own"], "none of the 9 finished jobs has a measured bandwidth: are agents running?"),
        ([database, "--clusters", "64"], "one cluster: there is nothing to spread jobs over"),
    ):
        assert message in jobsight("simulate", *options, status=1).err
