"""RDMA ports on captured trees: InfiniBand, Omni-Path, and devices that count otherwise or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.agent.tree import Node

from jobsight_agent.counters import NodeReader
from jobsight_agent.ports import Port, find_ports, read_port
from jobsight_agent.reading import Interface, from_record, to_record


def make(root: Path, name: str, files: dict[str, str]) -> Path:
    device, number = name.split("/")
    folder = root / "class/infiniband" / device / "ports" / number
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text + "\n")
    return folder


def counters(data_in: int, data_out: int, folder: str = "counters", suffix: str = "") -> dict[str, str]:
    return {f"{folder}/port_rcv_data{suffix}": str(data_in), f"{folder}/port_xmit_data{suffix}": str(data_out)}


def interface(root: Path) -> Interface:
    ((port,), _) = find_ports(root)
    return port.interface


@pytest.mark.parametrize(
    ("rate", "speed_bps"),
    [
        ("100 Gb/sec (4X EDR)", 10**11),
        ("2.5 Gb/sec (1X SDR)", 25 * 10**8),
        ("400 Gb/sec (4X NDR)", 4 * 10**11),
        ("0 Gb/sec", None),
        ("nan Gb/sec", None),
        ("inf Gb/sec", None),
        ("100 Mb/sec", None),
        ("100", None),
        ("", None),
        ("fast Gb/sec", None),
        ("é Gb/sec", None),
    ],
)
def test_the_rate_of_a_port(tmp_path: Path, rate: str, speed_bps: int | None) -> None:
    make(tmp_path, "mlx5_0/1", {**counters(1, 2), "rate": rate})
    assert interface(tmp_path) == Interface("mlx5_0/1", "infiniband", 32, speed_bps)


@pytest.mark.parametrize(
    ("name", "files", "kind", "width"),
    [
        ("mthca0/1", counters(1, 2), "infiniband", 32),
        ("mlx5_0/1", {**counters(1, 2), "counters/unicast_rcv_packets": "5"}, "infiniband", 64),
        ("mlx4_0/2", {**counters(1, 2), **counters(1, 2, "counters_ext", "_64")}, "infiniband", 64),
        ("qib0/1", {**counters(1, 2), **counters(1, 2, "counters_ext")}, "infiniband", 64),
        ("mlx5_0/1", counters(1, 2**32), "infiniband", 64),
        ("hfi1_0/1", counters(1, 2), "opa", 64),
    ],
)
def test_the_width_of_a_port(tmp_path: Path, name: str, files: dict[str, str], kind: str, width: int) -> None:
    make(tmp_path, name, files)
    assert interface(tmp_path) == Interface(name, kind, width, None)


def test_wide_counters_are_read_where_there_are_both(tmp_path: Path) -> None:
    make(tmp_path, "mlx4_0/1", {**counters(2**32 - 1, 2**32 - 1), **counters(2**33, 2**34, "counters_ext", "_64")})
    ((port,), _) = find_ports(tmp_path)
    assert read_port(port, port.data_in) == (2**35, False)
    assert read_port(port, port.data_out) == (2**36, False)


def test_every_port_of_every_card_in_order(tmp_path: Path) -> None:
    for name in ("mlx5_1/1", "mlx5_0/2", "mlx5_0/1"):
        make(tmp_path, name, counters(1, 2))
    make(tmp_path, "mlx5_2/1", {"rate": "100 Gb/sec"})  # shows no counters
    ports, uncounted = find_ports(tmp_path)
    assert [port.interface.name for port in ports] == ["mlx5_0/1", "mlx5_0/2", "mlx5_1/1"]
    assert uncounted == ("mlx5_2/1",)


def test_a_port_with_half_of_its_counters_is_not_dropped_in_silence(tmp_path: Path) -> None:
    make(tmp_path, "mlx5_0/1", {"counters/port_xmit_data": "5"})
    ((port,), _) = find_ports(tmp_path)
    assert read_port(port, port.data_out) == (20, False)
    with pytest.raises(FileNotFoundError):
        read_port(port, port.data_in)


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("0", 32, (0, False)),
        ("1", 64, (4, False)),
        ("4294967294", 32, (17179869176, False)),
        ("4294967295", 32, (None, True)),
        ("4294967295", 64, (17179869180, False)),
        ("4294967296", 32, (17179869184, False)),  # it is wider than was thought
        ("4611686018427387903", 64, (18446744073709551612, False)),
        ("18446744073709551615", 64, (None, True)),
    ],
)
def test_words_are_four_bytes(tmp_path: Path, text: str, width: int, expected: tuple[int | None, bool]) -> None:
    file = tmp_path / "port_rcv_data"
    file.write_text(text + "\n")
    assert read_port(Port(Interface("m/1", "infiniband", width, None), (), ()), (str(file),)) == expected


@pytest.mark.parametrize(
    "text", ["", "\n", "-1", "0x10", "1.5", "1_000", "4611686018427387904", "18446744073709551616", "9" * 70]
)
def test_what_is_no_counter(tmp_path: Path, text: str) -> None:
    file = tmp_path / "port_rcv_data"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"count|more bytes"):
        read_port(Port(Interface("m/1", "infiniband", 64, None), (), ()), (str(file),))


NO_NUMBERS = ["N/A (no PMA)", "", "\n", "-1", "0x10", "n/a", "Invalid argument", "1.5"]
BYTES = {
    "EFA, bnxt_re": ({"rx_bytes": 5}, {"tx_bytes": 7}),
    "ionic": ({"rx_rdma_ucast_bytes": 4, "rx_rdma_mcast_bytes": 1}, {"tx_rdma_ucast_bytes": 7}),
    "erdma": ({"hw_rx_bytes_cnt": 5}, {"hw_tx_bytes_cnt": 7}),
    "irdma, i40iw": ({"ip4InOctets": 3, "ip6InOctets": 2}, {"ip4OutOctets": 6, "ip6OutOctets": 1}),
}


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize("name", ["irdma0/1", "i40iw0/1", "ionic_0/1", "rocep24s0/2"])
@pytest.mark.parametrize("state", [None, "4: ACTIVE", "1: DOWN"])
def test_a_port_that_never_gave_a_number_is_no_port(tmp_path: Path, name: str, text: str, state: str | None) -> None:
    node = Node(tmp_path)
    node.device("ens5", 1000, 2000)
    make(tmp_path / "sys", name, {f"counters/port_{way}_data": text for way in ("rcv", "xmit")})
    if state is not None:
        make(tmp_path / "sys", name, {"state": state})
    reading = node.read()
    assert [port.name for port in reading.interfaces] == ["ens5"]
    assert (reading.bytes_in, reading.bytes_out, reading.missed) == ((1000,), (2000,), ())
    assert reading.uncounted == (() if state == "1: DOWN" else (name,))
    assert NodeReader(tmp_path, exclude=[name]).read().uncounted == ()


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_port_that_gave_numbers_stays_without_them(tmp_path: Path, text: str) -> None:
    now = [0.0]
    folder = make(tmp_path / "sys", "mlx5_0/1", counters(1, 2))
    reader = NodeReader(tmp_path, monotonic=lambda: now[0])
    assert reader.read().bytes_in == (4,)
    for way in ("rcv", "xmit"):
        (folder / f"counters/port_{way}_data").write_text(text)
    for now[0] in (1.0, 100.0, 200.0):
        reading = reader.read()
        assert (reading.bytes_in, reading.uncounted) == ((None,), ())
        assert set(reading.missed) >= {"infiniband"}
    make(tmp_path / "sys", "mlx5_0/1", counters(11, 12))
    assert reader.read().bytes_in == (44,)


@pytest.mark.parametrize("driver", BYTES)
@pytest.mark.parametrize("data", [None, "0", *NO_NUMBERS[:4]])
@pytest.mark.parametrize("device", [False, True], ids=["at the port", "at the device"])
@pytest.mark.parametrize("factor", [1, 2**40])
def test_bytes_are_read_where_a_device_counts_them(
    tmp_path: Path, driver: str, data: str | None, device: bool, factor: int
) -> None:
    """Data counters give no number, or stay at 0."""
    received, sent = BYTES[driver]
    files = {} if data is None else {f"counters/port_{way}_data": data for way in ("rcv", "xmit")}
    folder = make(tmp_path / "sys", "rdmap0/1", {**files, "rate": "100 Gb/sec (4X EDR)"})
    counted = folder.parents[1] if device else folder
    (counted / "hw_counters").mkdir()
    for name, count in {**received, **sent, "lifespan": 10, "rx_drops": 99}.items():
        (counted / "hw_counters" / name).write_text(f"{count * factor}\n")
    reading = NodeReader(tmp_path).read()
    assert reading.interfaces == (Interface("rdmap0/1", "infiniband", 64, 10**11),)
    assert (reading.bytes_in, reading.bytes_out) == ((5 * factor,), (7 * factor,))
    assert (reading.uncounted, "infiniband" in reading.missed) == ((), False)


def test_data_counters_that_rise_come_first(tmp_path: Path) -> None:
    folder = make(tmp_path / "sys", "mlx5_0/1", counters(10, 20))
    make(tmp_path / "sys", "mlx5_0/1", {"hw_counters/rx_bytes": "5", "hw_counters/tx_bytes": "6"})
    assert NodeReader(tmp_path).read().bytes_in == (40,)
    now = [0.0]
    for way in ("rcv", "xmit"):
        (folder / f"counters/port_{way}_data").write_text("0")
        (folder / f"hw_counters/{way[0]}x_bytes").unlink(missing_ok=True)
    make(tmp_path / "sys", "mlx5_0/1", {"hw_counters/rx_bytes": "0", "hw_counters/tx_bytes": "0"})
    reader = NodeReader(tmp_path, monotonic=lambda: now[0])
    assert reader.read().bytes_in == (0,)
    make(tmp_path / "sys", "mlx5_0/1", {"hw_counters/rx_bytes": "8", "hw_counters/tx_bytes": "9"})
    now[0] = 61.0
    assert reader.read().bytes_in == (8,)


@pytest.mark.parametrize("number", range(1, 5))
def test_several_devices_are_counted_or_named_each(tmp_path: Path, number: int) -> None:
    for each in range(number):
        make(tmp_path / "sys", f"mlx5_{each}/1", counters(each + 1, 2))
        make(tmp_path / "sys", f"qedr{each}/1", {"rate": "25 Gb/sec (1X EDR)"})
        make(tmp_path / "sys", f"rxe{each}/1", {"state": "4: ACTIVE"})
        (tmp_path / f"sys/class/infiniband/rxe{each}/parent").write_text("eth0\n")  # its card counts what it sends
    reading = NodeReader(tmp_path).read()
    assert reading.bytes_in == tuple(4 * (each + 1) for each in range(number))
    assert reading.uncounted == tuple(f"qedr{each}/1" for each in range(number))
    assert from_record(json.loads(json.dumps(to_record(reading)))) == reading
