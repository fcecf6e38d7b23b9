"""A job that is submitted again at once gets its own request."""

from __future__ import annotations

import os

from jobsight_server.decision.lately import TOGETHER_S, UNKNOWN_S, Lately

JOB = ("alpha", "ann", "cfd")


def test_a_loop_is_lowered_and_a_resubmission_is_not() -> None:
    found = Lately()
    assert not found.is_unproven(*JOB, 0.0, 1000.0)
    found.add(*JOB, 1000.0)
    found.add(*JOB, 1000.0 + TOGETHER_S)
    assert not found.is_unproven(*JOB, 0.0, 1000.0 + TOGETHER_S)
    assert found.is_unproven(*JOB, 0.0, 1020.0)
    assert not found.is_unproven("alpha", "bob", "cfd", 0.0, 1020.0)
    assert not found.is_unproven(*JOB, 1010.0, 1020.0), "a run that ended since is known"
    assert not found.is_unproven(*JOB, 0.0, 1000.0 + UNKNOWN_S)


def test_workers_that_are_forked_share_it() -> None:
    found = Lately()
    if (child := os.fork()) == 0:
        found.add(*JOB, 1000.0)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert found.is_unproven(*JOB, 0.0, 1020.0)
