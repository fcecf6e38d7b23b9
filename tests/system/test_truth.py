"""An emulated site through the whole of Jobsight, held against what each of its jobs really used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import make

from jobsight_server.storage.engine import open_engine
from site_run import wait_until
from truth import judge


@pytest.mark.slow
@pytest.mark.exhaustive
def test_bandwidth_and_memory_are_within_one_per_cent_of_the_truth(tmp_path: Path) -> None:
    settings = ("--follow-interval-s", "0.2", "--profile-grace-s", "60")
    site = make.site(tmp_path / "site", *settings, clusters=("alpha", "beta"))
    with site.serve():
        with site.replay("--nodes", "16", "--clusters", "2", "--weeks", "0.6", "--seed", "7") as process:
            output, _ = process.communicate()
        summary = json.loads(output)
        truth = site.truth()
        wait_until(lambda: site.settled(len(truth)), 240, lambda: str(site.api("overview")["jobs"]))
        overview = site.api("overview")
    verdict = judge(open_engine(site.database, "read"), truth, 60)

    assert process.returncode == 0
    assert summary["delivered"]
    assert min(summary[name] for name in ("reboots", "wraps", "readings_lost_on_purpose")) > 0
    assert overview["ingest"]["samples"] == summary["readings_made"]
    assert overview["ingest"]["batches"]["duplicate"] == summary["batches_duplicated_on_purpose"]
    assert overview["rejected_total"] == 0
    assert verdict.judged > 50
    assert not verdict.missing_runs
    assert not verdict.unexplained
    for metric in ("bandwidth", "memory"):
        assert verdict.share(metric) >= 0.99, verdict.worst[:5]
        # A value may be missing for a reason, but not mostly: a profiler that gives none would pass the line above.
        assert verdict.valued[metric] >= 0.95 * verdict.judged, verdict.reasons
