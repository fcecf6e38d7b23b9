"""Sessions of machines from the batches of their agents: boots, silence, owners, clocks, reinstallations."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import event, select, text
from tests import make
from tests.server.systems.ranking.conftest import HOUR_S, START, Farm

from jobsight_server.serve.app import create_app
from jobsight_server.settings.declared import Settings
from jobsight_server.systems.matching.reports import take_reports
from jobsight_server.systems.matching.resource_state import ResourceReport
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.ranking.periodic import update_machines
from jobsight_server.systems.ranking.tables import machine_outcomes, machine_sessions, machines
from jobsight_server.web.kit.system_parts import part


def test_one_long_batch_is_no_silence_and_an_agent_that_pauses_is_one(farm: Farm) -> None:
    farm.report("n1", START - 9 * HOUR_S, START - 5 * HOUR_S)
    farm.report("n1", START - 5 * HOUR_S + 60, START - 4 * HOUR_S)
    farm.report("n1", START - 2 * HOUR_S, START - 10)
    farm.round()
    assert farm.sessions("n1") == [(START - 9 * HOUR_S, START - 4 * HOUR_S, "silence")]
    assert farm.row("n1").since == START - 2 * HOUR_S


def test_silence_is_judged_by_when_something_was_received(farm: Farm) -> None:
    """A backlog of a week, delivered now, does not make the machine silent; nothing for ten minutes does."""
    farm.report("n1", START - 7 * 24 * HOUR_S, START - 6 * 24 * HOUR_S)
    farm.round()
    assert farm.sessions("n1") == []
    farm.round(after_s=500)
    assert farm.sessions("n1") == []
    farm.round(after_s=200)
    assert farm.sessions("n1") == [(START - 7 * 24 * HOUR_S, START - 6 * 24 * HOUR_S, "silence")]
    assert farm.row("n1").since is None
    assert farm.order() == []


@pytest.mark.parametrize("late", [False, True])
def test_batches_that_cross_on_the_way_are_taken_in_order_but_not_waited_for_forever(farm: Farm, late: bool) -> None:
    """The second half of a long batch arrives first, in another round. Too late, the first changes nothing."""
    farm.report("n1", START - 8 * HOUR_S, START - 6 * HOUR_S, sequence=1)
    farm.round()
    farm.report("n1", START - 3 * HOUR_S, START - 60, sequence=3)
    farm.round()
    assert farm.row("n1").sequence == 1
    if late:
        farm.round(after_s=95)
        assert farm.row("n1").sequence == 3
    farm.report("n1", START - 6 * HOUR_S + 60, START - 3 * HOUR_S - 60, sequence=2)
    farm.round()
    farm.round()
    assert farm.sessions("n1") == ([(START - 8 * HOUR_S, START - 6 * HOUR_S, "silence")] if late else [])
    assert farm.row("n1").sequence == 3
    assert late or farm.row("n1").since == START - 8 * HOUR_S


@pytest.mark.storage
def test_rounds_repeated_and_interrupted_change_nothing(farm: Farm) -> None:
    farm.up("n1", 3)
    farm.report("n1", START + 30, START + 60, boot="boot-2")
    farm.job(["n1"], start=START - 7200, end=START - 3600)
    farm.round(after_s=70)

    def everything() -> list[list[tuple[object, ...]]]:
        tables = (machines, machine_sessions, machine_outcomes)
        with farm.engine.connect() as connection:
            return [[tuple(row) for row in connection.execute(select(table))] for table in tables]

    once = everything()
    for _ in range(3):
        update_machines(farm.engine, farm.settings, lambda: farm.now)
    with farm.engine.begin() as connection:  # as if only the position had been lost
        connection.execute(text("UPDATE reliability_state SET batches_until = 0, jobs_until = 0"))
    update_machines(farm.engine, farm.settings, lambda: farm.now)
    assert everything() == once


def test_a_round_without_news_writes_only_how_far_it_looked(farm: Farm) -> None:
    farm.up("n1", 3)
    for _ in range(2):
        farm.round(after_s=70)
    written: list[str] = []
    event.listen(farm.engine, "before_cursor_execute", lambda *given: written.append(given[2]))
    farm.round()
    changes = [statement for statement in written if statement.startswith(("UPDATE", "INSERT", "DELETE"))]
    assert len(changes) == 2, "the positions in batches and in jobs"
    assert all(change.startswith("UPDATE reliability_state") for change in changes)


def test_any_cut_of_the_same_reports_gives_the_same_sessions(farm: Farm) -> None:
    """Three machines by the same batches: a round after all of them, after each, after some."""
    rng = random.Random(4)
    spans: list[tuple[float, float, str]] = []
    time, boot = START - 40 * HOUR_S, 1
    for _ in range(25):
        length = rng.choice((60.0, 1800.0, 4000.0))
        spans.append((time, time + length, f"boot-{boot}"))
        time += length + rng.choice((30.0, 300.0, 2000.0))
        boot += rng.random() < 0.2
    for span in spans:
        farm.report("each", *span)
        farm.round(after_s=1)
        farm.report("some", *span)
        if rng.random() < 0.3:
            farm.round(after_s=1)
    for span in spans:
        farm.report("all", *span)
    farm.round()
    assert farm.sessions("each") == farm.sessions("some") == farm.sessions("all") != []


@pytest.mark.storage
def test_a_name_used_again_after_a_reinstallation_is_another_machine(farm: Farm) -> None:
    farm.up("n1", 30, id="a" * 32)
    for number in range(5):
        farm.job(["n1"], start=START - 9000 + number, end=START - 5000 + number)
    farm.round()
    before = farm.row("n1")
    assert (before.successes, before.score) == (5, 5.0)
    farm.report("n1", farm.now + 100, farm.now + 200, boot="boot-2", id="b" * 32)
    farm.round(after_s=300)
    after = farm.row("n1")
    assert (after.successes, after.score, after.events, after.seconds) == (0, 0.0, 0.0, 0.0)
    assert [ending for _, _, ending in farm.sessions("n1")] == ["reinstall"]
    assert not farm.ranks().stays.known[0]


@pytest.mark.storage
def test_reports_of_resources_carry_owners_to_their_machines(farm: Farm) -> None:
    farm.report("pc1", START - 3600, START - 1)
    farm.report("pc2", START - 3600, START - 1, cluster="beta")
    farm.round()
    reports = [
        ResourceReport("alpha/pc1", "compute", owner_present=True),
        ResourceReport("pc2", "compute", owner_present=True),  # the only one of this name
        ResourceReport("rack/7", "compute", attributes={"cluster": "alpha", "node": "pc3"}, owner_present=False),
        ResourceReport("pc4", "compute", owner_present=True),
    ]
    assert take_reports(farm.engine, reports, "test", farm.now, 60.0).created == 4
    farm.round()
    assert farm.order() == ["pc3"]
    assert farm.row("pc4", "default").since is None
    assert [ending for _, _, ending in farm.sessions("pc1")] == ["owner"]
    assert farm.row("pc2", "beta").since is None


@pytest.mark.storage
def test_a_batch_may_ask_for_the_reliability_of_nodes(farm: Farm) -> None:
    """One node was up for 30 hours, another was booted again every other hour, and a third is new."""
    farm.up("n1", 30)
    for hour in range(29, 0, -2):
        farm.report("n2", farm.now - hour * HOUR_S, farm.now - (hour - 0.9) * HOUR_S, f"boot-{hour}")
    farm.report("n2", farm.now - 60, farm.now, "boot-0")
    farm.round()
    farm.report("n3", farm.now - 60, farm.now)
    app = create_app(Settings(), farm.engine, farm.engine, lambda: farm.now)
    with app.app_context():
        jobs = [make.to_match(f"on {count}", where="reliability > 0.8", count=count) for count in (1, 2)]
        answer = part(Matcher).match(jobs)
    assert [one.resources for one in answer.matches] == [{"c": ("alpha/n1",)}]
    removed = "c: needs 2 distinct compute; of 3, reliability > 0.8 removes 2; 1 left"
    assert [one.reason for one in answer.unmatched] == [removed]
