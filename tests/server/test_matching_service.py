"""The matching experiment through HTTP, in small: whole servers, real requests."""

from __future__ import annotations

import pytest

from jobsight_server.experiments.matching_service import READINGS, SIZES, measure_service


@pytest.mark.slow
def test_a_small_run_of_the_experiment() -> None:
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
