"""The spool: nothing noted is lost by a kill, numbers are never used twice, bounds hold and drops are counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.make import not_none

from jobsight_agent.reading import Interface, Mark, Reading
from jobsight_agent.spool import Reserve, Spool, SpoolError

BODY = gzip.compress(b"{}")


def reading(time: float) -> Reading:
    port = Interface("eth0", "ethernet", 64, 10**9)
    return Reading(time, "boot", 4, 2**30, (port,), (5,), (None,), 2**20, 1.5, Mark("1.s", "start"), ("network",))


def spool(directory: Path, now: float = 1000.0, max_bytes: int = 10**6, max_age_s: float = 10**12) -> Spool:
    return Spool(directory, max_bytes, max_age_s, clock=lambda: now)


def test_what_was_noted_survives_a_kill(tmp_path: Path) -> None:
    first = spool(tmp_path)
    first.note(reading(1.0))
    first.note(reading(2.0))
    first.release()  # as a kill does: nothing was closed
    second = spool(tmp_path)
    assert second.leftover() == [reading(1.0), reading(2.0)]
    number = second.next_sequence
    second.close_batches([BODY])
    assert second.leftover() == []
    assert second.oldest() == (number, BODY)


def test_a_line_cut_by_a_crash_costs_that_reading_only(tmp_path: Path) -> None:
    first = spool(tmp_path)
    first.note(reading(1.0))
    first.release()
    journal = next(tmp_path.glob("open-*.jsonl"))
    journal.write_bytes(journal.read_bytes() + b'[2.0, "bo')
    second = spool(tmp_path)
    assert second.leftover() == [reading(1.0)]
    assert second.damaged == 1


def test_sequence_numbers_go_on_and_are_never_used_twice(tmp_path: Path) -> None:
    first = spool(tmp_path, now=2000.0)
    assert first.next_sequence == 2_000_000_000
    first.close_batches([BODY, BODY])
    first.remove(2_000_000_000)
    first.remove(2_000_000_001)
    first.release()
    second = spool(tmp_path, now=1.0)  # all was acknowledged, and the clock was set back
    assert second.next_sequence == 2_000_000_002
    second.release()
    for file in tmp_path.iterdir():  # the directory is lost
        if file.is_file():
            file.unlink()
    assert spool(tmp_path, now=2001.0).next_sequence == 2_001_000_000


def test_batches_of_a_journal_that_was_not_closed_are_rebuilt(tmp_path: Path) -> None:
    first = spool(tmp_path)
    first.close_batches([BODY])
    done = first.next_sequence
    first.note(reading(3.0))
    first.release()
    (tmp_path / "batches" / f"{done}.gz").write_bytes(BODY)  # a crash between the batch and the state
    second = spool(tmp_path)
    assert second.leftover() == [reading(3.0)]
    assert second.next_sequence == done
    assert second.waiting == 1


def test_the_oldest_is_dropped_and_counted_for_ever(tmp_path: Path) -> None:
    first = spool(tmp_path, max_bytes=3 * len(BODY))
    start = first.next_sequence
    for _ in range(5):
        first.close_batches([BODY])
    assert (first.waiting, first.dropped) == (3, 2)
    oldest = not_none(first.oldest())
    assert oldest[0] == start + 2
    first.release()
    assert spool(tmp_path).dropped == 2


def test_what_is_too_old_is_dropped(tmp_path: Path) -> None:
    first = spool(tmp_path)
    first.close_batches([BODY])
    first.release()
    later = Spool(tmp_path, 10**6, 3600.0, clock=lambda: 4e9)
    later.close_batches([BODY])
    assert later.dropped == 2  # by the file's own time, even what was just written is long past in the year 2096


def test_a_damaged_batch_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    first = spool(tmp_path)
    start = first.next_sequence
    first.close_batches([BODY, BODY])
    (tmp_path / "batches" / f"{start}.gz").write_bytes(b"rubbish")
    assert first.oldest() == (start + 1, BODY)
    assert first.damaged == 1
    assert (tmp_path / "damaged" / f"{start}.gz").read_bytes() == b"rubbish"


def test_a_damaged_state_does_not_stop_the_agent(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    assert spool(tmp_path, now=7.0).next_sequence == 7_000_000


def test_one_agent_per_spool(tmp_path: Path) -> None:
    first = spool(tmp_path)
    with pytest.raises(SpoolError, match="another agent uses it"):
        spool(tmp_path)
    first.release()
    spool(tmp_path).release()


def test_a_spool_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="give a directory that the agent may write"):
        spool(tmp_path / "file")


def test_the_reserve_is_room_on_the_disk(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", 100_000)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 100_000
    assert reserve.spend()
    assert not (tmp_path / "reserve").exists()
    assert not reserve.spend()
    reserve.take()
    assert reserve.spend()


def test_without_room_for_a_reserve_there_is_none(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "missing" / "reserve", 100)
    assert not reserve.spend()
    too_large = Reserve(tmp_path / "reserve", 2**60)
    assert not too_large.spend()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_no_half_file_and_takes_no_number(tmp_path: Path) -> None:
    one = spool(tmp_path)
    number = one.next_sequence
    (tmp_path / "state.json.new").mkdir()  # the batch can be written, the state cannot
    with pytest.raises(OSError, match="state"):
        one.close_batches([BODY])
    assert (one.next_sequence, one.waiting) == (number, 0)
    (tmp_path / "state.json.new").rmdir()
    one.close_batches([BODY])
    assert one.oldest() == (number, BODY)
    assert not list(tmp_path.rglob("*.new"))
    one.release()


def test_a_later_batch_can_be_asked_for(tmp_path: Path) -> None:
    one = spool(tmp_path)
    number = one.next_sequence
    one.close_batches([BODY, BODY])
    assert one.oldest(after=number) == (number + 1, BODY)
    assert one.oldest(after=number + 1) is None
    one.release()
