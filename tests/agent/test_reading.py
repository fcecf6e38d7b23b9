"""A reading's way through the disk: what was written comes back, and what was not is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobsight_agent.batch import AgentCost, pack, to_columns, to_wire
from jobsight_agent.reading import (
    EVENTS,
    KINDS,
    METRICS,
    MOST_INTERFACES,
    Interface,
    Mark,
    Reading,
    from_record,
    to_record,
)
from jobsight_server.ingest.wire import decode, unpack

PORTS = (Interface("eth0", "ethernet", 64, 10**9), Interface("mlx5_0/1", "infiniband", 32, None))
MARKED = Reading(1.7e9, "boot", 16, 2**36, PORTS, (5, None), (6, 12), 2**30, 1.5, Mark("1.s", "end"), ("infiniband",))
RECORD = json.loads(json.dumps(to_record(MARKED)))
NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=64)
REFUSAL = "not a|not one of|counters for|speed of|interfaces"
PLACES = {
    "time": 0, "boot_id": 1, "cpus": 2, "total": 3, "interfaces": 4, "in": 5, "out": 6, "used": 7, "busy": 8, "mark": 9,
    "missed": 10,
}  # fmt: skip


def with_(place: str, value: Any) -> list[Any]:
    record = json.loads(json.dumps(RECORD))
    record[PLACES[place]] = value
    return list(record)


@st.composite
def any_reading(draw: st.DrawFn) -> Reading:
    ports = draw(
        st.lists(
            st.builds(Interface, NAMES, st.sampled_from(KINDS), st.sampled_from((32, 64)), st.none() | st.just(10**9)),
            max_size=3,
            unique_by=lambda port: port.name,
        ).map(tuple)
    )
    counters = st.tuples(*(st.none() | st.integers(0, port.most_bytes) for port in ports))
    amounts = st.none() | st.integers(0, 2**63 - 1)
    return Reading(
        draw(st.floats(0, 8e9, exclude_min=True, exclude_max=True)), draw(NAMES), draw(st.integers(1, 2**31 - 1)),
        draw(amounts), ports, draw(counters), draw(counters), draw(amounts),
        draw(st.none() | st.floats(0, 1e15, exclude_max=True)),
        draw(st.none() | st.builds(Mark, NAMES, st.sampled_from(EVENTS))),
        draw(st.lists(st.sampled_from(METRICS), max_size=4).map(tuple)),
    )  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(any_reading())
def test_every_reading_comes_back_as_it_was(reading: Reading) -> None:
    assert from_record(to_record(reading)) == reading
    assert from_record(json.loads(json.dumps(to_record(reading)))) == reading


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("time", float("nan")), ("time", float("inf")), ("time", -1.0), ("time", 0), ("time", 8e9),
        ("time", "1700000000"), ("time", True), ("time", None), ("time", 10**400),
        ("boot_id", ""), ("boot_id", "x" * 65), ("boot_id", "a\0b"), ("boot_id", 5), ("boot_id", "\ud800"),
        ("cpus", 0), ("cpus", 1.5), ("cpus", True), ("cpus", 2**31), ("cpus", None),
        ("total", -1), ("total", 2**63), ("total", 1.0), ("used", 2**63), ("used", "5"),
        ("busy", -0.1), ("busy", float("nan")), ("busy", 1e15), ("busy", "1"),
        ("in", [5]), ("in", [5, 6, 7]), ("in", "ab"), ("in", {"0": 1, "1": 2}), ("in", None),
        ("in", [2**64, None]), ("in", [-1, None]), ("in", [True, None]), ("in", [5.0, None]),
        ("out", [1, 2**34]),  # does not fit 32 bits of words of 4 bytes
        ("mark", "as"), ("mark", ["1.s"]), ("mark", ["1.s", "start", 0]), ("mark", ["1.s", "begin"]),
        ("mark", ["", "start"]), ("mark", ["a\nb", "start"]), ("mark", ["\udcff", "start"]), ("mark", {}),
        ("mark", ["x" * 256, "start"]), ("mark", [["1.s"], "start"]), ("mark", ["1.s", ["start"]]),
        ("missed", "cpu"), ("missed", ["weather"]), ("missed", [["cpu"]]), ("missed", None),
        ("interfaces", []), ("interfaces", "ab"), ("interfaces", None), ("interfaces", [["eth0"]] * 2),
        ("interfaces", [["eth0", "ethernet", 64, 1]] * 2),
        ("interfaces", [["eth0", "ethernet", 48, 1], ["eth1", "ethernet", 64, 1]]),
        ("interfaces", [["eth0", "token-ring", 64, 1], ["eth1", "ethernet", 64, 1]]),
        ("interfaces", [["eth0", "ethernet", 64, 0], ["eth1", "ethernet", 64, 1]]),
        ("interfaces", [["eth0", "ethernet", 64, -1], ["eth1", "ethernet", 64, 1]]),
        ("interfaces", [["e" * 65, "ethernet", 64, 1], ["eth1", "ethernet", 64, 1]]),
        ("interfaces", [["eth0", "ethernet", 64, 1, 1], ["eth1", "ethernet", 64, 1]]),
    ],
)  # fmt: skip
def test_what_the_server_would_refuse_is_no_reading(place: str, value: object) -> None:
    with pytest.raises(ValueError, match=REFUSAL):
        from_record(with_(place, value))


def test_more_interfaces_than_a_batch_may_have_are_refused() -> None:
    for count, fits in ((MOST_INTERFACES, True), (MOST_INTERFACES + 1, False)):
        record = with_("interfaces", [[f"eth{n}", "ethernet", 64, None] for n in range(count)])
        record[PLACES["in"]] = record[PLACES["out"]] = [1] * count
        if fits:
            assert len(from_record(record).interfaces) == count
        else:
            with pytest.raises(ValueError, match="65 interfaces"):
                from_record(record)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=300)
    | st.sampled_from([*KINDS, *EVENTS, *METRICS, 32, 64, 2**64, 2**63, "\ud800", "\0"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)  # fmt: skip
COST = AgentCost("0.1.0", 0.05, 20971520, 4, 0, {}, 0, 0, 0)


def check(record: Any) -> None:
    """Refused with a ValueError, or a reading that survives the disk and that the server takes."""
    try:
        reading = from_record(record)
    except ValueError:
        return
    assert from_record(json.loads(json.dumps(to_record(reading)))) == reading
    batch = to_wire(to_columns([reading]), cluster="alpha", node="n001", sequence=1, sent_at=None, cost=COST)
    decode(unpack(pack(batch, 1), "gzip", 10**7))


@settings(deadline=None, max_examples=400)
@given(st.integers(0, 10), JSON)
def test_a_damaged_field_is_refused_or_can_be_sent(position: int, wrong: object) -> None:
    record = json.loads(json.dumps(RECORD))
    record[position] = wrong
    check(record)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from((4, 5, 6, 9, 10)), st.integers(0, 3), st.integers(0, 3), JSON)
def test_a_field_damaged_within_is_refused_or_can_be_sent(position: int, i: int, j: int, wrong: object) -> None:
    record = json.loads(json.dumps(RECORD))
    inner = record[position]
    if position == 4:
        inner[i % len(inner)][j] = wrong
    else:
        inner[i % len(inner)] = wrong
    check(record)


@settings(deadline=None, max_examples=200)
@given(JSON)
def test_whatever_json_holds_is_refused_or_can_be_sent(record: object) -> None:
    check(record)
