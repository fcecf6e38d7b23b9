"""Amounts of memory and of time as they are written by hand, and by TORQUE and Slurm."""

from __future__ import annotations

import pytest

from jobsight_server.accounting.amounts import memory_bytes, time_s

GIB = 2.0**30


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4gb", 4 * GIB),
        ("4G", 4 * GIB),
        ("4GiB", 4 * GIB),
        ("4 GB", 4 * GIB),
        ("4096mb", 4 * GIB),
        ("4194304kb", 4 * GIB),
        ("1.5T", 1536 * GIB),
        ("4294967296", 4 * GIB),
        ("4294967296b", 4 * GIB),
        ("1e9", 1e9),
        ("1E", 2.0**60),
    ],
)
def test_memory_is_read_as_schedulers_write_it(text: str, value: float) -> None:
    assert memory_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3600", 3600),
        ("1e3", 1000),
        ("90.5", 90.5),
        ("30:00", 1800),
        ("01:00:00", 3600),
        ("100:00:00", 360_000),
        ("2-12:00:00", 216_000),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("2:12:00:00", 216_000),
    ],
)
def test_a_time_is_read_as_schedulers_write_it(text: str, value: float) -> None:
    assert time_s(text) == value


@pytest.mark.parametrize(
    "text", ["", "4 gigs", "gb", "-4gb", "4g4", "nan", "inf", "0x10", "4,5gb", "9" * 40, "4\n", "٤gb"]
)
def test_what_is_no_memory_is_named_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an amount of memory; give bytes such as .* 4096mb, 4gb or 4G"):
        memory_bytes(text)


@pytest.mark.parametrize("text", ["", "1h", "1:", ":30", "1:2:3:4:5", "2-", "2-1:2:3:4", "-5", "nan", "1_000", "1\n"])
def test_what_is_no_time_is_named_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time; give seconds such as 3600, or .* 01:00:00 or 2-12:00:00"):
        time_s(text)
