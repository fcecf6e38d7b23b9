"""Reading a node out of captured trees of /proc and /sys."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.agent.tree import Node

from jobsight_agent.counters import NodeReader
from jobsight_agent.interfaces import find_interfaces, kernel_width_bits
from jobsight_agent.reading import MOST_INTERFACES, Interface, Reading, from_record, to_record


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_plain_node(node: Node) -> None:
    node.device("lo", 7, 7, card=False, type="772")
    node.device("eth0", 2**40, 123, speed="10000")
    assert node.read() == Reading(
        time=1700000000.123457,
        boot_id="0b8e6f5c-3f3a-4e0e-9a51-6f9f1d2c7a10",
        cpus=2,
        memory_total_bytes=16384 * 1024,
        interfaces=(Interface("eth0", "ethernet", kernel_width_bits(), 10**10),),
        bytes_in=(2**40,),
        bytes_out=(123,),
        memory_used_bytes=(16384 - 4096) * 1024,
        # user + nice + system + irq + softirq; guest is user time, and steal that of another machine
        cpu_busy_s=(1000 + 200 + 300 + 60 + 70) / os.sysconf("SC_CLK_TCK"),
        boottime_s=5000.5,
    )


def test_a_byte_is_counted_once_whatever_is_stacked_on_the_card(node: Node) -> None:
    node.device("eth0", 1, 1, speed="1000")
    node.device("eth1", 2, 2, speed="-1")
    for virtual in ("bond0", "br0", "eth0.7", "veth12ab", "docker0", "ifb0", "tun0", "vlan9", "lo"):
        node.device(virtual, 9, 9, card=False)
    node.device("eth3", 3, 3, phys_port_name="pf0vf4")  # a representor
    node.device("eth2", 4, 4, phys_port_name="p1")
    node.device("vf0", 5, 5)  # enslaved to a paravirtual card that counts it too
    (node.root / "sys/class/net/vf0/master").symlink_to("../eth2")
    (node.root / "sys/class/net/eth0/master").symlink_to("../bond0")
    reading = node.read()
    assert [(port.name, port.speed_bps) for port in reading.interfaces] == [
        ("eth0", 10**9),
        ("eth1", None),
        ("eth2", None),
    ]
    assert reading.bytes_in == (1, 2, 4)


def test_configured_widths_and_exclusions_apply(node: Node) -> None:
    node.device("eth0", 1, 1)
    node.device("eth1", 2, 2)
    node.port("mlx5_0/1", 3, 3)
    reading = NodeReader(node.root, exclude=["eth1"], widths={"eth0": 32, "mlx5_0/1": 64}).read()
    assert [(port.name, port.width_bits) for port in reading.interfaces] == [("eth0", 32), ("mlx5_0/1", 64)]


def test_a_port_that_sticks_has_no_value(node: Node) -> None:
    node.port("mlx4_0/1", 2**32 - 1, 7, rate="100 Gb/sec (4X EDR)")
    reading = node.read()
    assert reading.interfaces == (Interface("mlx4_0/1", "infiniband", 32, 10**11),)
    assert (reading.bytes_in, reading.bytes_out, reading.missed) == ((None,), (28,), ("infiniband_stuck",))


def test_a_32_bit_port_that_shows_more_is_taken_as_64(node: Node) -> None:
    node.port("mlx5_0/1", 2**32 - 9, 1)
    reader = NodeReader(node.root)
    assert reader.read().interfaces[0].width_bits == 32
    node.port("mlx5_0/1", 2**32 + 9, 2)
    reader.read()
    assert reader.read().interfaces[0].width_bits == 64


@pytest.mark.parametrize(
    ("path", "missed"),
    [
        ("proc/stat", "cpu"),
        ("proc/meminfo", "memory"),
        ("proc/net/dev", "network"),
        ("proc/sys/kernel/random/boot_id", "boot_id"),
        ("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "infiniband"),
    ],
)
@pytest.mark.parametrize("content", [None, b"", b"rubbish\n", b"\xff\xfe\x00\n", b"cpu  -1 x\nMemTotal: many kB\n"])
def test_a_file_that_cannot_be_read_costs_one_metric(node: Node, path: str, missed: str, content: bytes | None) -> None:
    node.device("eth0", 1, 2)
    node.port("mlx5_0/1", 3, 4)
    reader = NodeReader(node.root)
    whole = reader.read()
    reader = NodeReader(node.root)
    (node.root / path).unlink()
    if content is not None:
        (node.root / path).write_bytes(content)
    reading = reader.read()
    if missed == "boot_id":
        assert reading.boot_id == ("rubbish" if content == b"rubbish\n" else "unknown")
        assert reading.missed == (() if content == b"rubbish\n" else ("boot_id",))
        return
    assert reading.missed == (missed,)
    lost = {
        "cpu": {"cpu_busy_s"},
        "memory": {"memory_used_bytes", "memory_total_bytes"},
        "network": {"bytes_in", "bytes_out"},
        "infiniband": {"bytes_in"},
    }[missed]
    for name in ("bytes_in", "bytes_out", "memory_used_bytes", "cpu_busy_s", "cpus", "boot_id", "interfaces"):
        if name not in lost:
            assert getattr(reading, name) == getattr(whole, name), name
    if missed == "network":
        assert (reading.bytes_in, reading.bytes_out) == ((None, 12), (None, 16))
    if missed == "infiniband":
        assert reading.bytes_in == (1, None)


def test_a_card_that_goes_away_and_one_that_comes(node: Node) -> None:
    now = [0.0]
    node.device("eth0", 1, 1)
    reader = NodeReader(node.root, monotonic=lambda: now[0])
    assert reader.read().bytes_in == (1,)
    node.device("eth1", 2, 2)
    appeared = reader.read()  # at the next reading, not within a minute
    assert [port.name for port in appeared.interfaces] == ["eth0", "eth1"]
    assert (appeared.bytes_in, appeared.missed) == ((1, 2), ())
    node.port("mlx5_0/1", 3, 4)
    assert [port.name for port in reader.read().interfaces] == ["eth0", "eth1", "mlx5_0/1"]
    (node.root / "sys/class/net/eth0/device").unlink()
    del node.devices["eth0"]
    node.network()
    gone = reader.read()
    assert (gone.bytes_in, gone.missed) == ((None, 2, 12), ("network",))
    assert [port.name for port in reader.read().interfaces] == ["eth1", "mlx5_0/1"]
    for name in ("eth0", "eth1"):
        shutil.rmtree(node.root / "sys/class/net" / name)
    gone = reader.read()
    assert ([port.name for port in gone.interfaces], gone.missed) == (["mlx5_0/1"], ("network",))
    assert reader.read().missed == ()


def test_what_a_listing_does_not_show_is_looked_at_within_a_minute(node: Node) -> None:
    now = [0.0]
    node.device("eth0", 1, 1, speed="-1")
    reader = NodeReader(node.root, monotonic=lambda: now[0])
    assert reader.read().interfaces[0].speed_bps is None
    node.write("sys/class/net/eth0/speed", "1000")
    now[0] = 59.0
    assert reader.read().interfaces[0].speed_bps is None
    now[0] = 61.0
    assert reader.read().interfaces[0].speed_bps == 10**9


def test_no_more_interfaces_than_a_batch_may_have(node: Node) -> None:
    for number in range(MOST_INTERFACES + 3):
        node.device(f"eth{number}", 1, 1)
    reading = NodeReader(node.root).read()
    assert len(reading.interfaces) == MOST_INTERFACES
    assert reading.missed == ("interfaces",)


MANY = """
for number in $(seq 60); do ip link add "sw$number" type bridge || exit 77; done
exec "$0" -c '
import sys; from pathlib import Path; from jobsight_agent.counters import NodeReader
reading = NodeReader(Path(sys.argv[1])).read()
print(len(reading.interfaces), reading.missed)' "$1"
"""


@pytest.mark.skipif(not shutil.which("ip") or not shutil.which("unshare"), reason="needs ip and unshare")
def test_a_table_longer_than_a_page_is_read_to_its_end(tmp_path: Path) -> None:
    """The kernel hands /proc/net/dev over a page at a time, however much is asked for."""
    (tmp_path / "proc").symlink_to("/proc")
    for number in range(1, 61):
        (tmp_path / f"sys/class/net/sw{number}/device").mkdir(parents=True)
    command = ["unshare", "-rn", "sh", "-c", MANY, sys.executable, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "agent")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no network namespace of our own here: {done.stderr.strip()}")
    assert (done.stdout, done.stderr) == ("60 ()\n", "")


@pytest.mark.parametrize(
    ("path", "content", "missed"),
    [
        ("proc/stat", "cpu  1 2 3 4 5 6 7 8", "cpu"),  # the last number may be cut
        ("proc/stat", "cpu  1 2 3 4 5 6 -7 8 0 0\n", "cpu"),
        ("proc/stat", "cpu  1 2 3 4 5 6 1_0 8 0 0\n", "cpu"),
        ("proc/stat", f"cpu  {'9' * 400} 2 3 4 5 6 7 8 0 0\n", "cpu"),
        ("proc/stat", "cpu0 1 2 3 4 5 6 7 8 0 0\n", "cpu"),
        ("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 5", "memory"),
        ("proc/meminfo", "MemTotal: 100 kB\nMemFree: 50 kB\n", "memory"),
        ("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 101 kB\n", "memory"),
        ("proc/meminfo", f"MemTotal: {2**60} kB\nMemAvailable: 5 kB\n", "memory"),
        ("proc/net/dev", "a\nb\neth0: 1 2 3 4 5 6 7 8 9", "network"),
        ("proc/net/dev", "a\nb\neth0: -1 2 3 4 5 6 7 8 9 10\n", "network"),
        ("proc/net/dev", f"a\nb\neth0: {2**64} 2 3 4 5 6 7 8 9 10\n", "network"),
        ("proc/sys/kernel/random/boot_id", "x" * 65, "boot_id"),
        ("sys/class/infiniband/m/ports/1/counters/port_rcv_data", "-1", "infiniband"),
        ("sys/class/infiniband/m/ports/1/counters/port_rcv_data", str(2**62), "infiniband"),
    ],
)
def test_a_value_that_no_kernel_writes_is_missed_and_not_sent(node: Node, path: str, content: str, missed: str) -> None:
    """A negative count, or one too large, would cost the whole batch at the server."""
    node.device("eth0", 1, 2)
    node.port("m/1", 3, 4)
    node.write(path, content)
    reading = node.read()
    assert reading.missed == (missed,)
    assert from_record(to_record(reading)) == reading


def test_a_narrow_card_that_counts_further_is_taken_as_wide(node: Node) -> None:
    """The server refuses a batch with a counter that its width cannot hold."""
    node.device("eth0", 2**32 - 1, 2)
    now = [0.0]
    reader = NodeReader(node.root, widths={"eth0": 32}, monotonic=lambda: now[0])
    assert reader.read().interfaces[0].width_bits == 32
    node.devices["eth0"] = (2**32, 2)
    node.network()
    assert reader.read().interfaces[0].width_bits == 64
    now[0] = 100.0  # it looked for interfaces again, and was given 32 again
    assert reader.read().interfaces[0].width_bits == 64


def test_a_name_that_cannot_be_sent_is_counted_and_costs_only_itself(node: Node) -> None:
    node.device("eth0", 1, 2)
    strange = os.fsdecode(b"e\xff")
    (node.root / "sys/class/net" / strange / "device").mkdir(parents=True)
    reading = node.read()
    assert [port.name for port in reading.interfaces] == ["eth0"]
    assert reading.missed == ("interfaces",)


def test_a_boot_id_that_comes_late(node: Node) -> None:
    file = node.root / "proc/sys/kernel/random/boot_id"
    content = file.read_text()
    file.unlink()
    reader = NodeReader(node.root)
    assert reader.read().boot_id == "unknown"
    file.write_text(content)
    assert reader.read().boot_id == content.strip()


def test_files_are_kept_open_and_let_go(node: Node) -> None:
    node.device("eth0", 1, 2)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(50):
        NodeReader(node.root).read()
    reader = NodeReader(node.root)
    for _ in range(50):
        reader.read()
    assert len(os.listdir("/proc/self/fd")) <= before + 4  # noqa: PTH208
    reader.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert reader.read().missed == ()


def test_this_machine_agrees_with_psutil() -> None:
    """An independent reader of the same counters; what moves between the two lies between two of ours."""
    reader = NodeReader(cgroups=())  # the jobs of whichever machine this is are not ours to read
    before = reader.read()
    times, memory = psutil.cpu_times(), psutil.virtual_memory()
    traffic = psutil.net_io_counters(pernic=True, nowrap=False)
    after = reader.read()
    assert before.missed == after.missed == ()
    busy_s = sum(getattr(times, mode) for mode in ("user", "nice", "system", "irq", "softirq"))
    assert (before.cpu_busy_s or 0) <= busy_s + 0.02 <= (after.cpu_busy_s or 0) + 0.04
    assert before.memory_total_bytes == memory.total
    assert before.memory_used_bytes == pytest.approx(memory.total - memory.available, rel=0.05)
    assert before.cpus == psutil.cpu_count()
    for port, low, high in zip(before.interfaces, before.bytes_in, after.bytes_in, strict=True):
        if port.name in traffic:
            assert (low or 0) <= traffic[port.name].bytes_recv <= (high or 0)
    assert before.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_no_sysfs_at_all(tmp_path: Path) -> None:
    assert find_interfaces(tmp_path) == ()
    reading = NodeReader(tmp_path).read()
    assert (reading.interfaces, reading.cpu_busy_s) == ((), None)
    assert set(reading.missed) == {"cpu", "memory", "boot_id"}
