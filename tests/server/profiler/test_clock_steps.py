"""A node's clock that is set while a job runs: from batches to the profile."""

from __future__ import annotations

from typing import Any

import pytest

from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import Batch, BatchMark, Submission
from jobsight_server.learning.finished import profile_finished
from jobsight_server.storage.readings.sent import BatchInterface

RATE_BPS, CPUS, LIFE_S = 8e6, 4, 600


def submissions(step_s: float, marked: bool) -> list[Submission]:
    """Batches of three readings; the node is busy from 100 to 700 s after the first, and its clock is set at 400."""
    found = []
    for number, begin in enumerate(range(0, 900, 30)):
        boottimes = [float(begin + offset) for offset in (0, 10, 20)]
        clocks = [10_000.0 + at + (step_s if at >= 400 else 0.0) for at in boottimes]
        busy = [min(max(at - 100.0, 0.0), LIFE_S) for at in boottimes]
        events = {100.0: "start", 700.0: "end"}
        batch = Batch(
            format=1, cluster="alpha", node="n1", boot_id="b", sequence=number, cpus=CPUS,
            interfaces=[BatchInterface("eth0", "ethernet", 64, 1e10)], time=clocks,
            bytes_in=[[round(at * RATE_BPS / 8) for at in busy]], bytes_out=[[0, 0, 0]],
            memory_used_bytes=[2**30] * 3, cpu_busy_s=[CPUS * at for at in busy],
            marks=[BatchMark(index, "7", events[at]) for index, at in enumerate(boottimes) if at in events and marked],
            boottime_s=boottimes,
        )  # type: ignore[arg-type]  # fmt: skip
        found.append(Submission(batch, number, clocks[-1]))
    return found


@pytest.mark.parametrize("marked", [True, False], ids=["with hooks", "without hooks"])
@pytest.mark.parametrize("step_s", [0.0, 0.5, 300.0, 600.0, 3600.0, 86400.0, -300.0, -3600.0])
@pytest.mark.parametrize("together", [1, 5, 30])
def test_a_clock_that_is_set_halves_nothing(sqlite_site: Any, step_s: float, marked: bool, together: int) -> None:
    """Bandwidth and CPU are unchanged, unknown or marked; never a wrong value that counts as exact."""
    site = sqlite_site
    store = SampleStore(site.engine, assumed_speed_bps=1e10, quarantine_bytes=10**6)
    batches = submissions(step_s, marked)
    for begin in range(0, len(batches), together):
        store.apply(batches[begin : begin + together])
    # The scheduler's clock is right: the node's was wrong until it was set.
    start = 10_100.0 + step_s
    run = site.run("7", start, start + LIFE_S, {"n1": CPUS})
    profile_finished(site.engine, 0.0, lambda: 1e6)
    found = site.profile(run)
    for metric, true in (("bandwidth", RATE_BPS / CPUS), ("cpu", 1.0)):
        value = found[metric].value
        assert value is None or found[metric].lower_bound or value == pytest.approx(true, rel=0.05), (metric, found)
    if abs(step_s) < 1.0:
        assert found["bandwidth"].value == pytest.approx(RATE_BPS / CPUS, rel=0.05)
