"""Large lists of questions do not hold up a question about one job."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import make
from tests.make import RunningSite

BATCHES, QUESTIONS, ADVICES = 6, 10_000, 5


def timed(site: RunningSite, path: str, content: object) -> float:
    """Return the time at which the whole answer was there."""
    site.ask("POST", path, content)
    return time.monotonic()


@pytest.mark.exhaustive
def test_advice_is_given_while_large_batches_are_answered(tmp_path: Path) -> None:
    """One worker, so that all meet in it; the order of the answers shows it, not their time."""
    site = make.site(tmp_path / "site")
    with site.serve():
        job = {"cluster": "alpha", "user": "ada", "application": "cfd_1", "slurm": {"num_tasks": 4, "mem": "4G"}}
        timed(site, "advice", job)
        questions = [{"cluster": "alpha", "user": f"user{i % 1000}", "metric": "memory"} for i in range(QUESTIONS)]
        under_way = threading.Barrier(BATCHES + 1)

        def batch() -> float:
            under_way.wait()
            return timed(site, "predictions", {"questions": questions})

        with ThreadPoolExecutor(BATCHES) as pool:
            batches = [pool.submit(batch) for _ in range(BATCHES)]
            under_way.wait()
            time.sleep(0.3)
            advices = [timed(site, "advice", job) for _ in range(ADVICES)]
            ended = sorted(one.result() for one in batches)
        # The batches are answered one after the other: a fair share for advice is to be done before the second half.
        assert max(advices) < ended[BATCHES // 2], (advices, ended)
