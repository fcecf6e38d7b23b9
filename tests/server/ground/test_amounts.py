"""Amounts of memory and time as written by hand, by TORQUE and by Slurm."""

from __future__ import annotations

import pytest

from jobsight_server.ground.amounts import memory_bytes, time_s

GIB = 2.0**30


FOUR_GIB = ("4gb", "4G", "4GiB", "4 GB", "4096mb", "4194304kb", "4294967296", "4294967296b")


def test_memory_is_read_as_schedulers_write_it() -> None:
    assert [memory_bytes(text) for text in FOUR_GIB] == [4 * GIB] * len(FOUR_GIB)
    assert [memory_bytes(text) for text in ("1.5T", "1e9", "1E")] == [1536 * GIB, 1e9, 2.0**60]


def test_a_time_is_read_as_schedulers_write_it() -> None:
    assert [time_s(text) for text in ("3600", "01:00:00", "1e3", "90.5", "30:00")] == [3600, 3600, 1000, 90.5, 1800]
    assert [time_s(text) for text in ("2-12:00:00", "2-12", "2:12:00:00")] == [216_000] * 3
    assert [time_s(text) for text in ("100:00:00", "2-12:30")] == [360_000, 217_800]


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
