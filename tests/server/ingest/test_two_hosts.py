"""Two hosts that send under one node name, as with a copied ``agent.toml``; and one host that reboots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.make import not_none

from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import Submission
from jobsight_server.queries.nodes import NODES, node_detail, node_list

MakeBatch = Callable[..., Any]
Sent = tuple[str, float]
"""A boot, and the time of the first of three readings in 20 s."""


def deliver(engine: Engine, make_batch: MakeBatch, sent: Sequence[Sent], *, together: bool) -> float:
    """Store the batches in this order, a second apart, or in one transaction; return when the last one arrived."""
    store, now = SampleStore(engine, assumed_speed_bps=1e10, quarantine_bytes=10**6), 10_000.0
    submissions = []
    for number, (boot, first) in enumerate(sent):
        time = [first, first + 10, first + 20]
        batch = make_batch(boot_id=boot, sequence=number, time=time, bytes_in=[int(100 * at) for at in time])
        submissions.append(Submission(batch, number, now := now + 1.0))
    for group in [submissions] if together else [[one] for one in submissions]:
        assert {outcome.status for outcome in store.apply(group)} == {"stored"}
    return now


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "sent",
    [
        [("a", 1000.0), ("b", 1005.0), ("a", 1030.0)],
        [("a", 1000.0), ("b", 1035.0), ("b", 1065.0), ("a", 1070.0), ("b", 1100.0)],
        # One clock is minutes behind, so that the node's newest reading is always of the other.
        [step for i in range(20) for step in (("a", 1300.0 + 30 * i), ("b", 1000.0 + 30 * i))],
    ],
)
def test_boots_that_alternate_are_reported(
    engine: Engine, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture, sent: Sequence[Sent], together: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        now = deliver(engine, make_batch, sent, together=together)
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "two hosts send as node n001 of cluster alpha"  # once an hour
    ]
    with engine.connect() as connection:
        (found,) = node_list(connection, now, NODES.asked()).two_hosts
        assert (found.cluster, found.name, now - found.seen_at <= 1.0) == ("alpha", "n001", True)
        assert node_list(connection, now, NODES.asked(cluster="beta")).two_hosts == []
        assert node_list(connection, now + 3600.0, NODES.asked()).two_hosts == []
        node = node_detail(connection, "alpha", "n001", now - 3600.0, now, now + 3600.0)
    assert not_none(node).two_hosts_at == found.seen_at


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    "sent",
    [
        [("a", 1000.0), ("a", 1030.0), ("b", 1100.0), ("b", 1130.0), ("c", 1200.0), ("c", 1230.0)],
        # Rejected before the reboot, sent again after it.
        [("a", 1000.0), ("a", 1060.0), ("b", 1100.0), ("a", 1030.0), ("b", 1130.0)],
        # The clock was set back by the reboot, until it was corrected.
        [("a", 1000.0), ("a", 1030.0), ("b", 700.0), ("b", 730.0), ("b", 1200.0)],
    ],
)
def test_reboots_of_one_host_are_not(
    engine: Engine, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture, sent: Sequence[Sent], together: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        now = deliver(engine, make_batch, sent, together=together)
    assert caplog.records == []
    with engine.connect() as connection:
        (node,) = node_list(connection, now, NODES.asked()).nodes
        assert node_list(connection, now, NODES.asked()).two_hosts == []
    assert node.two_hosts_at is None
    assert node.boots >= 1
