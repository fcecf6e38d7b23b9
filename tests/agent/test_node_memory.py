"""Memory in use on a node: with a pool of huge pages, and with ZFS's cache."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.tree import Node

GIB = 2**30
SIZES_KB = (64, 2048, 32768, 1048576, 16777216)


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("node"))


def meminfo(total: int, available: int, *lines: str) -> str:
    head = (f"MemTotal: {total // 1024} kB", "MemFree: 1 kB", f"MemAvailable: {available // 1024} kB")
    return "\n".join([*head, *lines, ""])


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(SIZES_KB),
    st.integers(1, 2000),
    st.data(),
    st.integers(0, 40 * GIB),
    st.integers(0, 20 * GIB),
    st.sampled_from(("default size only", "sysfs", "no total of all sizes")),
)
def test_huge_pages_count_once_they_are_taken(
    tmp_path_factory: pytest.TempPathFactory, size_kb: int, pages: int, data: st.DataObject, used: int, spare: int,
    shown: str,
) -> None:  # fmt: skip
    """The pool takes memory from the available once; taking a page of it changes neither this nor MemAvailable."""
    node = Node(tmp_path_factory.mktemp("huge"))
    taken, reserved = data.draw(st.integers(0, pages)), data.draw(st.integers(0, 5))
    used, spare = used // 1024 * 1024, spare // 1024 * 1024
    pool = pages * size_kb * 1024
    lines = [
        f"HugePages_Total:   {pages}", f"HugePages_Free:    {pages - taken}", f"HugePages_Rsvd:    {reserved}",
        "HugePages_Surp:    0", f"Hugepagesize:   {size_kb} kB",
    ]  # fmt: skip
    if shown != "no total of all sizes":
        lines.append(f"Hugetlb:   {pool // 1024} kB")
    if shown == "sysfs":
        for other in SIZES_KB:
            folder = f"sys/kernel/mm/hugepages/hugepages-{other}kB"
            node.write(f"{folder}/free_hugepages", f"{pages - taken if other == size_kb else 0}\n")
    node.write("proc/meminfo", meminfo(used + pool + spare, spare, *lines))
    reading = node.read()
    assert (reading.memory_used_bytes, reading.missed) == (used + taken * size_kb * 1024, ())
    assert 0 <= (reading.memory_used_bytes or 0) <= (reading.memory_total_bytes or 0)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.sampled_from(SIZES_KB), st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1))
def test_pages_of_other_sizes_than_the_default_count_too(
    tmp_path_factory: pytest.TempPathFactory, pools: dict[int, tuple[int, int]]
) -> None:
    """``HugePages_Total`` is of the default size; ``pools`` are (taken, free) of each."""
    node = Node(tmp_path_factory.mktemp("huge"))
    for size_kb, (_, free) in pools.items():
        node.write(f"sys/kernel/mm/hugepages/hugepages-{size_kb}kB/free_hugepages", f"{free}\n")
    taken = sum(size_kb * 1024 * count for size_kb, (count, _) in pools.items())
    pool = sum(size_kb * 1024 * sum(counts) for size_kb, counts in pools.items())
    default = pools.get(2048, (0, 0))
    lines = [f"HugePages_Total: {sum(default)}", f"HugePages_Free: {default[1]}", "Hugepagesize: 2048 kB"]
    node.write("proc/meminfo", meminfo(8 * GIB + pool, 6 * GIB, *lines, f"Hugetlb: {pool // 1024} kB"))
    assert node.read().memory_used_bytes == 2 * GIB + taken


@pytest.mark.parametrize(
    "lines",
    [
        ["HugePages_Total: 5", "HugePages_Free: 6", "Hugepagesize: 2048 kB"],
        ["HugePages_Total: 5", "HugePages_Free: 4"],
        ["HugePages_Total: many", "HugePages_Free: 4", "Hugepagesize: 2048 kB"],
        ["HugePages_Total: 5", "HugePages_Free: -4", "Hugepagesize: 2048 kB"],
    ],
)
def test_a_pool_that_makes_no_sense_costs_the_value(node: Node, lines: list[str]) -> None:
    node.write("proc/meminfo", meminfo(64 * GIB, 30 * GIB, *lines))
    assert (node.read().memory_used_bytes, node.read().missed) == (None, ("memory",))


def test_a_kernel_without_huge_pages_misses_nothing(node: Node) -> None:
    node.write("proc/meminfo", meminfo(64 * GIB, 30 * GIB))
    assert (node.read().memory_used_bytes, node.read().missed) == (34 * GIB, ())


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 30 * GIB),
    st.integers(0, 4 * GIB),
    st.integers(0, 20 * GIB),
    st.permutations(["c_min", "size", "c_max", "hits", "p", "arc_meta_min"]),
)
def test_the_cache_of_zfs_above_its_minimum_is_free(
    tmp_path_factory: pytest.TempPathFactory, size: int, minimum: int, used: int, order: list[str]
) -> None:
    node = Node(tmp_path_factory.mktemp("zfs"))
    used = used // 1024 * 1024
    cache = -(-size // 1024) * 1024  # in whole kB, as meminfo is
    node.write("proc/meminfo", meminfo(64 * GIB, 64 * GIB - used - cache))
    values = {"size": size, "c_min": minimum}
    rows = [f"{name:<32}4    {values.get(name, 12345)}" for name in order]
    node.write("proc/spl/kstat/zfs/arcstats", "\n".join(["13 1 0x01 123 33456 1 1", "name  type data", *rows, ""]))
    reading = node.read()
    assert (reading.memory_used_bytes, reading.missed) == (used + cache - max(0, size - minimum), ())


@pytest.mark.parametrize(
    "text", ["", "name type data\n", "size 4 5\n", "c_min 4 5\n", "size 4\n", "csize 4 9\nc_min 4 1\n"]
)
def test_statistics_of_zfs_without_its_size_free_nothing(node: Node, text: str) -> None:
    before = node.read().memory_used_bytes
    node.write("proc/spl/kstat/zfs/arcstats", text)
    assert (node.read().memory_used_bytes, node.read().missed) == (before, ())


STEAL = [0, 8, 123456, 2**31, 2**53, 10**15, 1844674407370955, 2**63, 2**64 - 1, 18446744073709551615]


@pytest.mark.parametrize("steal", STEAL)
@pytest.mark.parametrize("busy", [(1, 2, 3, 4, 5), (8500000, 300000, 950000, 0, 63000), (0, 0, 0, 0, 0)])
@pytest.mark.parametrize("tail", ["0 0", "12 5"])
def test_stolen_time_never_counts_as_use(node: Node, steal: int, busy: tuple[int, ...], tail: str) -> None:
    """A machine that was moved while it ran may show any amount of it."""
    user, nice, system, irq, softirq = busy
    node.write("proc/stat", f"cpu  {user} {nice} {system} 328000000 3000000 {irq} {softirq} {steal} {tail}\ncpu0 1\n")
    reading = node.read()
    assert (reading.cpu_busy_s, reading.missed) == (sum(busy) / 100, ())
