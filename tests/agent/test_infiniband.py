"""InfiniBand and Omni-Path ports on captured trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobsight_agent.interfaces import find_ports, read_words
from jobsight_agent.reading import Interface


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
    (port,) = find_ports(root)
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
    (port,) = find_ports(tmp_path)
    assert read_words(port.data_in, 64) == (2**35, False)
    assert read_words(port.data_out, 64) == (2**36, False)


def test_every_port_of_every_card_in_order(tmp_path: Path) -> None:
    for name in ("mlx5_1/1", "mlx5_0/2", "mlx5_0/1"):
        make(tmp_path, name, counters(1, 2))
    make(tmp_path, "mlx5_2/1", {"rate": "100 Gb/sec"})  # shows no counters
    assert [port.interface.name for port in find_ports(tmp_path)] == ["mlx5_0/1", "mlx5_0/2", "mlx5_1/1"]


def test_no_infiniband(tmp_path: Path) -> None:
    assert find_ports(tmp_path) == ()
    (tmp_path / "class").mkdir()
    (tmp_path / "class/infiniband").write_text("")
    assert find_ports(tmp_path) == ()


def test_a_port_with_half_of_its_counters_is_not_dropped_in_silence(tmp_path: Path) -> None:
    make(tmp_path, "mlx5_0/1", {"counters/port_xmit_data": "5"})
    (port,) = find_ports(tmp_path)
    assert read_words(port.data_out, 32) == (20, False)
    with pytest.raises(FileNotFoundError):
        read_words(port.data_in, 32)


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
    assert read_words(str(file), width) == expected


@pytest.mark.parametrize(
    "text", ["", "\n", "-1", "0x10", "1.5", "1_000", "4611686018427387904", "18446744073709551616", "9" * 70]
)
def test_what_is_no_counter(tmp_path: Path, text: str) -> None:
    file = tmp_path / "port_rcv_data"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"count|more bytes"):
        read_words(str(file), 64)
