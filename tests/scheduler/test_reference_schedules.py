"""Real traces job by job against the schedules that a published simulator (pyss) computed."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.traces import trace

from jobsight_papers.schedules.chosen import choose_policy
from jobsight_scheduler.simulator.event_loop import Simulation
from jobsight_scheduler.workload.canonical import canonical, questions_of
from jobsight_scheduler.workload.swf import read_swf

REFERENCES = "../reference-schedules"


def reference(name: str) -> NDArray[np.float64]:
    """Submission and start of each job, in order of job numbers, shape (2, jobs)."""
    with gzip.open(trace(f"{REFERENCES}/{name}.csv.gz"), "rt") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: int(row["job"]))
    return np.array([[float(row["submit_s"]), float(row["start_s"])] for row in rows]).T


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("log", "processors", "policy", "absent"),
    [
        # The reference is of the whole log; the cleaned log that is published beside it lacks its first 14 jobs.
        ("KTH-SP2-1996-2.1-cln", 100, "fcfs", 14),
        ("KTH-SP2-1996-2.1-cln", 100, "easy", 14),
        ("KTH-SP2-1996-2.1-cln", 100, "conservative", 14),
        ("SDSC-SP2-1998-4.2-cln", 128, "easy", 0),
        # What a user ran before matters to EASY++, the first 14 jobs as well.
        ("KTH-SP2-full", 100, "easy++", 0),
    ],
)
def test_a_published_simulator_gives_the_same_schedule(log: str, processors: int, policy: str, absent: int) -> None:
    submits, starts = reference(f"{log[: log.index('-SP2') + 4]}-{policy}")
    read = read_swf(trace(f"{REFERENCES if log.endswith('full') else '.'}/{log}.swf.gz"))
    workload = canonical(read, processors)
    simulation = Simulation(workload, processors, choose_policy(policy).make, questions_of(read, workload.row))
    while not simulation.advance(1_000_000):
        pass
    first = submits[absent]
    assert len(workload) == len(submits) - absent
    np.testing.assert_array_equal(workload.submit_s + first, submits[absent:])
    np.testing.assert_array_equal(simulation.start_s + first, starts[absent:])
