"""Large lists of questions do not hold up whoever asks for one job."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import make

from site_run import Site

BATCHES, QUESTIONS, ADVICES = 6, 10_000, 5


def ask(site: Site, token: str, path: str, content: object) -> float:
    """The time at which the whole answer was there."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{site.url}/api/v1/{path}", json.dumps(content).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as response:
        response.read()
    return time.monotonic()


@pytest.mark.exhaustive
def test_advice_is_given_while_large_batches_are_answered(tmp_path: Path) -> None:
    """One worker, so that all meet in it; the order of the answers shows it, not their time."""
    site = make.site(tmp_path / "site")
    with site.serve():
        token = site.token("scheduler")
        job = {"cluster": "alpha", "user": "ada", "application": "cfd_1", "slurm": {"num_tasks": 4, "mem": "4G"}}
        ask(site, token, "advice", job)
        questions = [{"cluster": "alpha", "user": f"user{i % 1000}", "metric": "memory"} for i in range(QUESTIONS)]
        under_way = threading.Barrier(BATCHES + 1)

        def batch() -> float:
            under_way.wait()
            return ask(site, token, "predictions", {"questions": questions})

        with ThreadPoolExecutor(BATCHES) as pool:
            batches = [pool.submit(batch) for _ in range(BATCHES)]
            under_way.wait()
            time.sleep(0.3)
            advices = [ask(site, token, "advice", job) for _ in range(ADVICES)]
            ended = sorted(one.result() for one in batches)
        # The batches are answered one after the other: a fair share for advice is to be done before the second half.
        assert max(advices) < ended[BATCHES // 2], (advices, ended)
