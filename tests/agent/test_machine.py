"""What the agent says of its machine: facts from files, the benchmark, the owner's presence, and their wire format."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.make import not_none

from jobsight_agent.batch import AgentCost, machine_to_wire, to_columns, to_wire
from jobsight_agent.config import ConfigError, load_config
from jobsight_agent.machine import (
    NodeDescription,
    OwnerPresence,
    OwnerWatch,
    benchmark_flops,
    clock_hz,
    machine_id,
    processor_facts,
    read_facts,
)
from jobsight_agent.reading import Mark, Reading
from jobsight_server.ingest.wire import WireError, decode

GOLDEN = Path(__file__).parents[1] / "golden"
FACTS = NodeDescription(
    id="5e884898da28047151d0e56f8dc62927",
    system="linux-x86_64",
    cores=8,
    clock_hz=3.1e9,
    benchmark_flops=62e6,
    storage_bytes=960_000_000_000,
)
CPUINFO = """\
processor : 0
physical id : 0
core id : 0
cpu MHz : 1200.000

processor : 1
physical id : 0
core id : 0
cpu MHz : 2900.5

processor : 2
physical id : 1
core id : 0
cpu MHz : broken
"""


def reading(at: float, busy_s: float | None = 0.0, mark: Mark | None = None, boot: str = "b") -> Reading:
    return Reading(at, boot, 4, None, (), (), (), None, busy_s, mark)


def test_the_golden_description_is_made_here_and_read_by_the_server() -> None:
    golden = json.loads((GOLDEN / "batch-machine.json").read_text())
    assert machine_to_wire(FACTS, OwnerPresence(1, 0.75, True), 86400.5) == golden["machine"]
    cost = AgentCost("0.1.0", 0.05, 20971520, 4, 0, {"memory": 1}, 0, 0, 0)
    batch = to_wire(
        to_columns([reading(1.0)]),
        cluster="a",
        node="n",
        sequence=1,
        sent_at=None,
        cost=cost,
        machine=golden["machine"],
    )
    for sent in (golden, batch):
        machine = decode(json.dumps(sent).encode()).machine
        assert msgspec.to_builtins(machine) == golden["machine"]


def test_a_batch_without_a_description_is_as_before() -> None:
    golden = json.loads((GOLDEN / "batch.json").read_text())
    assert "machine" not in golden
    assert decode(json.dumps(golden).encode()).machine is None
    unknown = decode(
        json.dumps({**golden, "machine": machine_to_wire(NodeDescription(), OwnerPresence(), None)}).encode()
    )
    assert {getattr(not_none(unknown.machine), name) for name in ("id", "cores", "logins", "owner_present")} == {None}
    assert decode(json.dumps({**golden, "machine": {"later": 1}}).encode()).machine is not None


@pytest.mark.parametrize(
    "field",
    [
        {"cores": 0}, {"cores": 10**30}, {"benchmark_flops": -1.0}, {"benchmark_flops": 1e30}, {"clock_hz": "fast"},
        {"storage_bytes": -1}, {"uptime_s": -1}, {"uptime_s": 1e300}, {"system": "x" * 65}, {"system": "a\x00b"},
        {"id": ""}, {"logins": -1}, {"foreign_load": -0.5}, {"owner_present": "yes"},
    ],
)  # fmt: skip
def test_a_description_that_makes_no_sense_is_rejected(field: dict[str, object]) -> None:
    golden = json.loads((GOLDEN / "batch.json").read_text())
    with pytest.raises(WireError):
        decode(json.dumps({**golden, "machine": field}).encode())


def test_facts_come_from_the_files_under_the_root(tmp_path: Path) -> None:
    for name, text in (
        ("proc/cpuinfo", CPUINFO),
        ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3600000\n"),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    facts = read_facts(tmp_path, str(tmp_path), flops=5.0)
    assert (facts.cores, facts.clock_hz, facts.benchmark_flops) == (2, 3.6e9, 5.0)
    assert len(not_none(facts.id)) == 32
    assert facts.id != "0123456789abcdef0123456789abcdef"  # it must not leave the machine
    assert not_none(facts.storage_bytes) > 10**6
    empty = read_facts(tmp_path / "none", str(tmp_path / "none"))
    assert replace(empty, system=None) == NodeDescription()


def test_what_makes_no_sense_is_unknown() -> None:
    assert processor_facts(CPUINFO) == (2, 2900.5)
    assert processor_facts("\x00\n:::\n") == (None, None)
    assert clock_hz("", None) is None
    assert clock_hz("nan", 2900.5) == 2900.5e6
    assert clock_hz("1e300", None) is None
    assert [machine_id(text) for text in ("", "uninitialized", "x" * 32, "a" * 31)] == [None] * 4


def test_the_benchmark_is_short_and_of_the_right_size() -> None:
    begun = time.process_time()
    flops = benchmark_flops()
    assert time.process_time() - begun < 0.2
    assert 1e5 < flops < 1e11
    ticks = iter(range(100))
    assert benchmark_flops(clock=lambda: next(ticks) * 0.01) == pytest.approx(4000 / 0.01)  # 2,000 products and sums


def test_an_owner_shows_by_logins_or_load_but_not_by_jobs() -> None:
    users = [0]
    watch = OwnerWatch(("logins", "load"), 0.5, lambda: users[0])
    watch.see(reading(0.0, 100.0))
    watch.see(reading(60.0, 106.0))
    assert watch.now() == OwnerPresence(0, 0.1, False)
    watch.see(reading(120.0, 166.0))
    assert watch.now() == OwnerPresence(0, 1.0, True)
    users[0] = 2
    watch.see(reading(180.0, 166.0))
    assert watch.now() == OwnerPresence(2, 0.0, True)
    users[0] = 0
    watch.see(reading(190.0, 166.0, Mark("7", "start")))
    watch.see(reading(240.0, 400.0))
    assert watch.now() == OwnerPresence(0, None, False)  # the job is busy, no one else
    watch.see(reading(250.0, 440.0, Mark("7", "end")))
    watch.see(reading(300.0, 441.0))
    assert watch.now().foreign_load is None  # in part the job's
    watch.see(reading(360.0, 441.0))
    assert watch.now() == OwnerPresence(0, 0.0, False)


def test_a_boot_or_a_missing_counter_is_no_load() -> None:
    watch = OwnerWatch(("load",), 0.5)
    watch.see(reading(0.0, 100.0))
    watch.see(reading(60.0, 5.0, boot="c"))
    assert watch.now() == OwnerPresence()
    watch.see(reading(120.0, None))
    assert watch.now() == OwnerPresence()
    assert OwnerWatch((), 0.5, lambda: 3).now() == OwnerPresence()


def test_only_known_signs_are_options() -> None:
    assert load_config(None, {"owner": "logins,load"}).owner == ("logins", "load")
    with pytest.raises(ConfigError):
        load_config(None, {"owner": "mouse"})
