"""Ranks: machines that lose jobs sink within a round, unknown ones are never first, terms by hand, cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.server.systems.ranking.conftest import HOUR_S, START, Farm

from jobsight_server.systems.ranking.board import MachineBoard


def week(farm: Farm, *names: str) -> None:
    for name in names:
        farm.report(name, START - 7 * 24 * HOUR_S, START - 1)
        farm.job([name], start=START - 20 * HOUR_S, end=START - 15 * HOUR_S)


@pytest.mark.storage
@pytest.mark.parametrize("method", ["survival", "grv"])
def test_a_machine_that_reboots_and_loses_its_job_sinks_within_a_round(farm: Farm, method: Any) -> None:
    week(farm, "n1", "n2", "n3")
    farm.round()
    assert farm.order(method=method) == ["n1", "n2", "n3"]
    run = farm.job(["n1"], start=START - 3600, end=None)
    farm.now += 600
    for name in ("n2", "n3"):
        farm.report(name, START, farm.now - 1)
    farm.report("n1", START + 500, farm.now - 1, boot="boot-2")
    farm.finish(run, START + 300, "requeued", None)
    farm.round()
    assert farm.order(method=method) == ["n2", "n3", "n1"]
    row = farm.row("n1")
    assert (row.score, row.evictions, row.sessions) == (0.0, 1, 1)


def test_free_processors_and_clusters_filter(farm: Farm) -> None:
    farm.report("n1", START - 3600, START - 1)
    farm.report("n2", START - 3600, START - 1)
    farm.report("n3", START - 3600, START - 1, cluster="beta")
    farm.job(["n2"], start=START - 600, end=None)
    farm.round()
    assert sorted(farm.order()) == ["n1", "n3"]
    assert farm.order(cluster="beta") == ["n3"]
    assert farm.order(processors=17) == []
    assert farm.order(everywhere=True)[-1] == "n2"


def test_the_board_follows_every_change_like_a_new_one(farm: Farm) -> None:
    board = MachineBoard()

    def compare() -> None:
        with farm.engine.connect() as connection:
            kept, fresh = board.columns(connection), MachineBoard().columns(connection)
        assert kept.names == fresh.names
        for name, values in fresh.numbers.items():
            np.testing.assert_array_equal(kept.numbers[name], values, err_msg=name)
        np.testing.assert_array_equal(kept.survival.age_events, fresh.survival.age_events)

    compare()
    week(farm, "n1", "n2")
    farm.round()
    compare()
    farm.report("n3", START, START + 2, cores=7)
    farm.job(["n1"], start=START - 100, end=None)
    farm.round()
    compare()
    farm.report("n2", START + 10, START + 12, boot="boot-2", cluster="alpha")
    farm.round()
    compare()


def test_a_machine_that_stays_is_known_as_soon_as_its_backlog_is_in(farm: Farm) -> None:
    """Also where a round had nothing to learn shortly before."""
    farm.round()
    farm.report("steady", START - 3 * 24 * HOUR_S, START - 1)
    farm.report("restless", START - 3 * 24 * HOUR_S, START - 2 * 24 * HOUR_S)
    for number in range(5):
        farm.report("restless", START - (40 - number) * HOUR_S, START - (39.5 - number) * HOUR_S, boot=f"b{number}")
    farm.report("restless", START - 30 * HOUR_S, START - 1, boot="last")
    farm.round()
    ranks = farm.ranks()
    assert ranks.stays.known.all()
    assert farm.order() == ["steady", "restless"]
