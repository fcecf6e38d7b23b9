"""An agent in a container that sees the node's files below ``host_root``, and steps of the node's clock."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.tree import Node
from tests.make import not_none

from jobsight_agent.batch import AgentCost, in_batches, to_columns, to_wire
from jobsight_agent.counters import NodeReader
from jobsight_agent.reading import from_record, to_record
from jobsight_server.ingest.wire import decode

COST = AgentCost("0", 0.0, 0, 0, 0, {}, 0, 0, 0)


def statistics(node: Node, name: str, received: object, sent: object) -> None:
    node.write(f"sys/class/net/{name}/statistics/rx_bytes", f"{received}\n")
    node.write(f"sys/class/net/{name}/statistics/tx_bytes", f"{sent}\n")


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(("eth0", "eno1", "ens5f0", "ib0", "enP1p0s2")),
        st.tuples(*[st.integers(0, 2**64 - 1)] * 2),
        min_size=1,
    ),
    st.sampled_from(("the container's", "none", "gone", "half")),
)
def test_the_hosts_cards_are_read_whatever_network_the_process_is_in(
    tmp_path_factory: pytest.TempPathFactory, cards: dict[str, tuple[int, int]], shown: str
) -> None:
    """``/proc/net`` is that of the process: it may have a card of the same name."""
    node = Node(tmp_path_factory.mktemp("host"))
    for name, counts in cards.items():
        node.device(name, 1, 2)
        statistics(node, name, *counts)
    if shown == "gone":
        shutil.rmtree(node.root / "proc/net")
    elif shown == "none":
        node.devices = {}
        node.network()
    elif shown == "half":
        node.write("proc/net/dev", "Inter-|")
    reading = node.read()
    found = zip(reading.interfaces, reading.bytes_in, reading.bytes_out, strict=True)
    assert {port.name: counts for port, *counts in found} == {name: [*counts] for name, counts in cards.items()}
    assert reading.missed == ()


READ = """
from jobsight_agent.counters import NodeReader
reading = NodeReader(cgroups=()).read()
print([reading.bytes_in, reading.missed])
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_a_process_in_a_network_of_its_own_reads_the_nodes(tmp_path: Path) -> None:
    """By the kernel itself: ``/proc/net`` changes with the network namespace, ``/sys`` as mounted before does not."""
    before = NodeReader(cgroups=()).read()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "agent")}
    command = ["unshare", "-rn", sys.executable, "-c", READ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    if "unshare" in done.stderr:
        pytest.skip(f"no network namespace of our own here: {done.stderr.strip()}")
    after = NodeReader(cgroups=()).read()
    found, missed = ast.literal_eval(done.stdout)
    assert missed == ()
    for low, inside, high in zip(before.bytes_in, found, after.bytes_in, strict=True):
        assert (low or 0) <= inside <= (high or 0)


@pytest.mark.parametrize("text", ["", "-1", "x", "18446744073709551616", "1 2"])
def test_statistics_without_a_number_are_missed_and_not_replaced(tmp_path: Path, text: str) -> None:
    node = Node(tmp_path)
    node.device("eth0", 5, 6)
    statistics(node, "eth0", text, 7)
    reading = node.read()
    assert (reading.bytes_in, reading.bytes_out, reading.missed) == ((None,), (None,), ("network",))


def test_a_card_that_is_gone_is_not_a_namesake_of_the_containers(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.device("eth0", 5, 6)
    statistics(node, "eth0", 1000, 2000)
    reader = NodeReader(tmp_path)
    assert reader.read().bytes_in == (1000,)
    shutil.rmtree(tmp_path / "sys/class/net/eth0")
    assert set(reader.read().bytes_in) <= {None}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0.5, 600.0), st.sampled_from((0.0, 0.0, 0.0, 3600.0, -3600.0, 0.3, -0.3, 86400.0))),
             min_size=1, max_size=12),
)  # fmt: skip
def test_the_time_since_the_boot_shows_every_step_of_the_clock(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[float, float]]
) -> None:
    """From the reading through the spool and the wire: what passed is known, however the clock was set."""
    node = Node(tmp_path_factory.mktemp("clock"))
    node.device("eth0", 5, 6)
    now = [1_700_000_000.0, 5000.0]
    reader = NodeReader(node.root, clock=lambda: now[0], boottime=lambda: now[1])
    readings = [reader.read()]
    for elapsed, step in steps:
        now = [now[0] + elapsed + step, now[1] + elapsed]
        readings.append(from_record(json.loads(json.dumps(to_record(reader.read())))))
    sent = []
    for number, group in enumerate(in_batches(readings)):
        wire = to_wire(to_columns(group), cluster="a", node="n", sequence=number, sent_at=None, cost=COST)
        batch = decode(json.dumps(wire).encode())
        sent += not_none(batch.boottime_s)
    assert sent == [reading.boottime_s for reading in readings]
    passed = [later - earlier for earlier, later in pairwise(sent) if later is not None and earlier is not None]
    assert passed == pytest.approx([elapsed for elapsed, _ in steps], abs=1e-5)
