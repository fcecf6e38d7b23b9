"""The matching experiment through HTTP, in small: whole servers, real requests."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from jobsight_server.experiments.matching_service import READINGS, SIZES, measure_service
from jobsight_server.plots.matching_service import draw_service
from jobsight_server.reports.matching_service import service_account, show_service


@pytest.mark.slow
def test_a_small_run_of_the_experiment(tmp_path: Path) -> None:
    found = measure_service(batches=1, rates=(500,))
    assert [(entry.size, entry.reading) for entry in found.batches] == [(s, r) for s in SIZES for r in READINGS]
    for entry in found.batches:
        assert 0 < entry.matched <= entry.size
        assert entry.query_s + entry.solve_s + entry.store_s <= entry.client_s
    for size in SIZES:
        by_reading = {entry.reading: entry for entry in found.batches if entry.size == size}
        # The state is the same however it is read, so a proven optimum is, too; only the cache needs few statements.
        optima = {entry.matched for entry in by_reading.values() if entry.is_optimal}
        assert len(optima) <= 1
        assert by_reading["dependency"].queries > 2 * size > by_reading["cached"].queries
    [run] = found.arrivals
    assert run.jobs == 83
    assert 0 < run.matched <= run.jobs
    account = service_account(found)
    first = account["means"][0]
    assert first["client_s"] == pytest.approx(first["query_s"] + first["solve_s"] + first["rest_s"])
    assert first["jobs_per_minute"] == pytest.approx(600 / first["client_s"])
    console = Console(width=100, record=True, file=io.StringIO())
    show_service(account, console)
    assert "dependency" in console.export_text()
    draw_service(account, tmp_path)
    bars = ElementTree.parse(tmp_path / "service.svg").getroot()
    assert bars.tag.endswith("svg")
