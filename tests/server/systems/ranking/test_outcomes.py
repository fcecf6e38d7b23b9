"""How jobs leave machines: each once, charged to the machine at fault."""

from __future__ import annotations

import pytest
from tests.server.systems.ranking.conftest import START, Farm


def fleet(farm: Farm, *names: str, hours: float = 3) -> None:
    for name in names:
        farm.report(name, farm.now - hours * 3600, farm.now - 1)
    farm.round()


def test_success_and_requeue_move_the_score_by_one(farm: Farm) -> None:
    fleet(farm, "n1", "n2")
    for _ in range(3):
        farm.job(["n1"], start=START - 4000, end=START - 3000)
    farm.job(["n1"], start=START - 2000, end=START - 1000, state="requeued", exit_status=None)
    farm.job(["n1"], start=START - 2000, end=START - 1000, state="deleted", exit_status=None)
    farm.job(["n2"], start=START - 2000, end=None)
    farm.round()
    row = farm.row("n1")
    assert (row.score, row.successes, row.evictions, row.failures) == (2.0, 3, 1, 0)
    assert farm.row("n2").busy_processors == 16
    assert farm.order() == ["n1"]


@pytest.mark.storage
def test_of_several_machines_the_one_that_went_away_has_the_eviction(farm: Farm) -> None:
    """While it is off this is unknown; the others are not charged meanwhile."""
    fleet(farm, "n1", "n2", "n3")
    farm.now = START + 600
    run = farm.job(["n1", "n2", "n3"], start=START - 3000, end=None)
    for name in ("n1", "n3"):
        farm.report(name, START + 1, START + 599)
    farm.report("n2", START + 1, START + 290)
    farm.round()
    farm.finish(run, START + 300.0, "requeued", None)
    farm.round()
    assert [farm.row(name).score for name in ("n1", "n2", "n3")] == [0.0, 0.0, 0.0]
    farm.now = START + 900
    farm.report("n2", START + 800, START + 899, boot="boot-2")
    farm.round()
    assert [farm.row(name).score for name in ("n1", "n2", "n3")] == [0.0, -1.0, 0.0]
    assert farm.outcomes_of("n2") == ["requeued"]
    farm.round()
    assert farm.row("n2").evictions == 1


@pytest.mark.storage
def test_where_no_machine_went_away_each_has_the_requeue(farm: Farm) -> None:
    fleet(farm, "n1", "n2")
    run = farm.job(["n1", "n2"], start=START - 3000, end=None)
    farm.now = START + 400
    farm.finish(run, START + 300.0, "requeued", None)
    for name in ("n1", "n2"):
        farm.report(name, START + 1, START + 399)
    farm.round()
    assert [farm.row(name).score for name in ("n1", "n2")] == [-1.0, -1.0]


def test_failures_that_follow_a_user_count_against_no_machine(farm: Farm) -> None:
    names = ("n1", "n2", "n3", "n4")
    fleet(farm, *names, hours=24)
    for number in range(10):
        for name in names:
            farm.job(
                [name], start=START - 9000 - number * 4000, end=START - 6000 - number * 4000, user=f"u{number % 5}"
            )
    farm.round()
    before = farm.scores()
    for number in range(12):
        farm.job([names[number % 4]], start=farm.now - 60, end=farm.now - 50, exit_status=1, user="bob", name="broken")
        for name in names:
            farm.report(name, farm.now - 4, farm.now - 1)
        farm.round()
    assert farm.outcomes_of("n1")[-2:] == ["user-failed", "user-failed"]
    after = farm.scores()
    assert all(after[name] > 0.97 * before[name] for name in names)


STATUSES = {271: 0.0, -11: 0.0, 0: 1.0, None: 0.0, 265: -1.0, -3: -1.0, 137: -1.0}
RAN_OUT = [(-27, "memory", 0.0), (137, "time", 0.0)]  # what it asked for: not the machine's fault


@pytest.mark.parametrize(("status", "failure", "score"), [*((one, None, STATUSES[one]) for one in STATUSES), *RAN_OUT])
def test_what_an_exit_status_says_of_the_machine(
    farm: Farm, status: int | None, failure: str | None, score: float
) -> None:
    fleet(farm, "n1")
    farm.job(["n1"], start=START - 4000, end=START - 3000, exit_status=status, failure=failure)
    farm.round()
    assert farm.row("n1").score == score


def test_a_machine_that_only_the_log_names_has_a_rank_but_is_not_first(farm: Farm) -> None:
    fleet(farm, "n1", hours=30)
    farm.job(["n1"], start=START - 7200, end=START - 5400)
    farm.job(["ghost"], start=START - 7200, end=START - 5400)
    farm.round()
    assert farm.order() == ["n1", "ghost"]
    assert farm.order(method="grv") in (["n1", "ghost"], ["ghost", "n1"])
    assert farm.row("ghost").successes == 1


def test_a_run_that_never_ended_in_the_log_does_not_hold_a_machine_that_booted_since(farm: Farm) -> None:
    farm.report("n1", START - 9000, START - 5000)
    farm.report("n1", START - 4000, START - 1, boot="boot-2")
    farm.job(["n1"], start=START - 6000, end=None)
    farm.round()
    assert farm.row("n1").busy_processors == 0
    farm.job(["n1"], start=START - 3000, end=None)
    farm.round()
    assert farm.row("n1").busy_processors == 16
