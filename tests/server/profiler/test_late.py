"""Runs whose samples arrive after they were profiled: filled once, learned once, and learned again exactly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, update
from tests import make
from tests.make import not_none

from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import AgentReport, Batch, Submission
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.learning.late import profile_late
from jobsight_server.storage.readings.sent import BatchInterface
from jobsight_server.storage.schema import jobs, late_batches, profiles

MIB = 2**20
GRACE = 600.0


def rows(since: int, until: int, rate: int = 1000) -> list[Any]:
    """A reading a minute: bytes at ``rate``, 300 MiB more than idle from 60 to 1200."""
    return [
        (float(t), rate * t, 0, 2.0 * t, (800 if 60 < t < 1200 else 500) * MIB, 0.0)
        for t in range(since, until + 1, 60)
    ]


def go(site: Any, now: float, **more: Any) -> tuple[int, int]:
    clock = lambda: now  # noqa: E731
    options = LearningOptions(**more)
    return profile_finished(site.engine, GRACE, clock, options), profile_late(site.engine, GRACE, clock, options)


def cut_off(site: Any) -> tuple[int, int]:
    """A run on a node that fell silent at 300 and whose run ended at 1200; profiled without its samples at 2000."""
    node = site.node("n1", [])
    site.arrive(node, 1, rows(-60, 300))
    run = site.run("1.s", 60, 1200, {"n1": 2}, submitted=0.0, recorded_at=1210.0)
    site.run("2.s", 100, 900, used_memory_bytes=5 * MIB, processors=1, submitted=0.0, recorded_at=910.0)
    assert go(site, 1600.0)[0] == 1
    assert go(site, 2000.0) == (1, 0)
    assert [site.profile(run)[metric].value for metric in ("bandwidth", "memory", "cpu")] == [None] * 3
    return node, run


def test_samples_that_arrive_late_give_the_values_and_are_learned_once(site: Any) -> None:
    node, run = cut_off(site)
    assert go(site, 3000.0) == (0, 0)
    first = site.profile(run)
    site.arrive(node, 2, rows(360, 900), received_at=3000.0)
    # Half of its samples: the peak may be in the others.
    assert go(site, 3040.0) == (0, 0)
    site.arrive(node, 3, rows(960, 1500), received_at=3050.0)
    assert go(site, 3051.0) == (0, 3)
    found = site.profile(run)
    assert found["bandwidth"].value == pytest.approx(1000 * 8 / 2)
    assert found["memory"].value == pytest.approx(150 * MIB)
    assert found["cpu"].value == pytest.approx(1.0)
    assert {row.reason for row in found.values()} == {None}
    assert found["runtime"] == first["runtime"]
    assert found["bandwidth"].learn_seq > max(row.learn_seq for row in first.values())
    assert site.learned_counts() == {
        ("u1", "runtime"): 2,
        ("u1", "bandwidth"): 1,
        ("u1", "memory"): 2,
        ("u1", "cpu"): 1,
    }
    learned, stored = site.model(), site.dump(profiles)
    for now in (3200.0, 3700.0, 5000.0):
        assert go(site, now) == (0, 0)
    assert (site.model(), site.dump(profiles)) == (learned, stored)
    rebuild(site.engine)
    assert (site.model(), site.dump(profiles)) == (learned, stored)
    counted = make.counts(site.engine)
    assert {label: n for (name, label), n in counted.items() if name == "profiles_late"} == {
        "bandwidth": 1,
        "memory": 1,
        "cpu": 1,
    }


def test_a_node_that_never_completes_them_gives_what_there_is_after_the_grace(site: Any) -> None:
    node, run = cut_off(site)
    site.arrive(node, 2, rows(360, 1140), received_at=3000.0)  # and then it died
    assert go(site, 3100.0) == (0, 0)
    assert go(site, 3599.0) == (0, 0)
    assert go(site, 3601.0) == (0, 3)
    assert site.profile(run)["bandwidth"].value == pytest.approx(4000)


def sent(sequence: int, since: int, until: int) -> Submission:
    """A batch of the node that ``rows`` describes, received a second after its last reading."""
    given = rows(since, until)
    batch = Batch(
        format=1,
        cluster="alpha",
        node="n1",
        boot_id="boot",
        sequence=sequence,
        cpus=16,
        interfaces=[BatchInterface("eth0", "ethernet", 64, 1e9)],
        time=[row[0] + 1e6 for row in given],
        bytes_in=[[row[1] for row in given]],
        bytes_out=[[0] * len(given)],
        memory_used_bytes=[row[4] for row in given],
        cpu_busy_s=[row[3] for row in given],
        marks=[],
        agent=AgentReport(),
    )
    return Submission(batch, sequence, 1e6 + until + 1.0)


@pytest.mark.storage
def test_a_batch_counts_from_its_commit_on_however_long_that_took(site: Any) -> None:
    """The profiler looks in vain just before the commit, long after the batch was received."""
    now = [1e6 + 301.0]
    store = SampleStore(site.engine, 1e10, 10**6, clock=lambda: now[0])
    store.apply([sent(1, 0, 300)])
    run = site.run("1.s", 1e6 + 60, 1e6 + 1200, {"n1": 2}, submitted=0.0, recorded_at=1e6 + 1210)
    assert go(site, 1e6 + 2000) == (1, 0)
    assert site.profile(run)["bandwidth"].value is None
    looked = []

    def look(_connection: Any) -> None:
        looked.append(profile_late(site.engine, GRACE, lambda: 1e6 + 90_000.0))

    now[0] = 1e6 + 2100.0
    event.listen(site.engine, "commit", look)
    store.apply([sent(2, 360, 1500)])
    event.remove(site.engine, "commit", look)
    assert looked == [0]
    assert go(site, 1e6 + 90_001.0) == (0, 3)
    assert site.profile(run)["bandwidth"].value == pytest.approx(4000)
    assert go(site, 1e6 + 90_002.0) == (0, 0)
    assert site.dump(late_batches) == []


def test_what_arrives_in_time_is_not_named_as_late(site: Any) -> None:
    now = [1e6 + 301.0]
    store = SampleStore(site.engine, 1e10, 10**6, clock=lambda: now[0])
    store.apply([sent(1, 60, 300)])
    assert site.dump(late_batches) == []
    now[0] += 600.0
    store.apply([sent(1, 60, 300), sent(2, 360, 600)])  # the first one is known
    assert [row[1:] for row in site.dump(late_batches)] == [(1, 1e6 + 360, 1e6 + 600, now[0], False)]


@pytest.mark.storage
def test_a_value_that_was_learned_stays_as_it_was_learned(site: Any) -> None:
    node, _ = cut_off(site)
    site.arrive(node, 2, rows(360, 1500), received_at=3000.0)
    assert go(site, 3100.0) == (0, 3)
    before = site.dump(profiles)
    site.arrive(node, 3, [(1530.0, 10**9, 0, 1e6, 900 * MIB, 0.0)], received_at=4000.0)
    assert go(site, 5000.0) == (0, 0)
    assert site.dump(profiles) == before


def test_a_clock_that_was_set_back_loses_nothing(site: Any) -> None:
    node, run = cut_off(site)
    assert go(site, 90_000.0) == (0, 0)
    assert go(site, 4000.0) == (0, 0)
    site.arrive(node, 2, rows(360, 1500), received_at=4010.0)
    assert go(site, 4100.0) == (0, 3)
    assert site.profile(run)["bandwidth"].value is not None


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("database_url", "seed"),
    [("sqlite", 1), ("sqlite", 2), ("sqlite", 3), ("postgresql", 1)],
    indirect=["database_url"],
)
def test_over_random_histories_learning_again_gives_the_same_rows(site: Any, seed: int) -> None:
    """Nodes fall silent and catch up, jobs come and end meanwhile: every row is reproduced, late values included."""
    rng = random.Random(seed)
    on = [site.node(f"n{i}", rows(-60, 0)) for i in range(4)]
    sent, sequence = dict.fromkeys(on, 0), dict.fromkeys(on, 0)
    planned = []
    for number in range(120):
        start = float(rng.randrange(60, 20_000, 20))
        given = {"user": rng.choice("ab"), "name": rng.choice([None, "x", "y_1"]), "processors": 2}
        used = {"used_memory_bytes": rng.choice([None, None, rng.randrange(MIB, 500 * MIB)])}
        end = start + rng.choice([200.0, 700.0, 1500.0])
        planned.append(
            (
                f"{number}.s",
                start,
                end,
                rng.randrange(4),
                {**given, **used, "submitted": start - rng.choice([0, 30, 3000])},
            )
        )
    ids: dict[str, int] = {}
    ended: set[str] = set()
    late_values = 0
    for now in range(0, 30_000, 500):
        for job_id, start, end, node, given in planned:
            if job_id not in ids and start <= now:
                ids[job_id] = site.run(job_id, start, None, {f"n{node}": 2}, **given)
            if job_id in ids and job_id not in ended and end <= now:
                ended.add(job_id)
                with site.engine.begin() as connection:
                    changed = {"end": end, "state": "ended", "recorded_at": float(now)}
                    connection.execute(update(jobs).where(jobs.c.id == ids[job_id]).values(changed))
        for node in on:
            if rng.random() < 0.35 or now > 28_000:
                until = now - now % 60
                if until >= sent[node] + 60:
                    sequence[node] += 1
                    site.arrive(node, sequence[node], rows(sent[node] + 60, until, rng.choice([1000])), float(now))
                    sent[node] = until
        limit = rng.choice([3, 200])
        profile_finished(site.engine, GRACE, lambda now=now: float(now), LearningOptions(limit=limit))
        late_values += profile_late(site.engine, GRACE, lambda now=now: now + 40.0, LearningOptions(limit=limit))
        if now == 15_000:
            learned = site.model()
            rebuild(site.engine)
            assert site.model() == learned
    assert late_values > 20
    assert len({row[2] for row in site.dump(profiles)}) > 120  # learn_seq: some runs have more than one
    learned, stored = site.model(), site.dump(profiles)
    rebuild(site.engine)
    assert site.model() == learned
    assert site.dump(profiles) == stored


CHILD = """
import sys
from jobsight_server.learning.finished import LearningOptions
from jobsight_server.learning.late import profile_late
from jobsight_server.storage.engine import open_engine
engine = open_engine(sys.argv[1])
print("go", flush=True)
profile_late(engine, 600.0, lambda: 3100.0, LearningOptions(limit=1))
"""


@pytest.mark.exhaustive
def test_a_kill_at_any_point_learns_nothing_twice(sqlite_site: Any, tmp_path: Path) -> None:
    site = sqlite_site
    count = 60
    nodes = [site.node(f"n{i}", rows(-60, 0)) for i in range(count)]
    for i in range(count):
        site.run(f"{i}.s", 60 + i, 1000 + i, {f"n{i}": 1}, user=f"u{i % 3}", submitted=0.0)
    assert profile_finished(site.engine, 0.0, lambda: 1e9) == count
    for node in nodes:
        site.arrive(node, 2, rows(60, 1500), received_at=3000.0)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = 0
    for delay_s in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.0):
        command = [sys.executable, "-c", CHILD, f"sqlite:///{tmp_path / 'jobsight.db'}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
            assert not_none(child.stdout).readline() == b"go\n"
            time.sleep(delay_s)
            child.send_signal(signal.SIGKILL)
            killed += child.wait() == -signal.SIGKILL
        filled = [row for row in site.dump(profiles) if row[1] == "memory" and row[3] is not None]
        assert sum(n for (_, metric), n in site.learned_counts().items() if metric == "memory") == len(filled)
    assert killed > 0
    profile_late(site.engine, GRACE, lambda: 3100.0)
    assert site.learned_counts() == {
        (user, metric): count // 3
        for user in ("u0", "u1", "u2")
        for metric in ("runtime", "bandwidth", "memory", "cpu")
    }
    learned = site.model()
    rebuild(site.engine)
    assert site.model() == learned
