"""Readings not yet acknowledged, on disk, bounded.

    SPOOL/open-SEQUENCE.jsonl     the readings of the batch that is being filled, a line each
    SPOOL/batches/SEQUENCE.gz     closed batches, the very bytes that are sent
    SPOOL/state.json              next sequence number, what was dropped
    SPOOL/refused/SEQUENCE.gz     batches that the server rejected, as they were sent; beside each a .txt says why
    SPOOL/reserve                 space for the readings in memory when the disk is full
    SPOOL/agent.socket            where job hooks reach the agent (see `control`)
    SPOOL/marks/                  readings that job hooks left (see `hooks`)
    SPOOL/last-error              what keeps batches from being sent, for `jobsight-agent status` when no agent runs
    SPOOL/damaged/                files that make no sense, set aside

A line is in the kernel when ``note`` returns, so a killed agent loses no reading; a crash of the machine may cost the
last seconds. A batch is offered for sending only after the state says that its sequence number is used.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from jobsight_agent.reading import Reading, from_record, to_record

LAST_ERROR = "last-error"
REFUSED_SHARE = 0.2  # of the spool's limit, for rejected batches
DIRECTORY_MODE = 0o750
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class SpoolError(Exception):
    """The spool cannot be used; the message says why and what to do."""


class Spool:
    """The spool of one agent; a second one cannot use the same directory.

    Bounded by ``max_bytes`` and ``max_age_s``: the oldest batches are dropped and counted in ``dropped``, which
    outlives the agent.
    """

    def __init__(
        self,
        directory: Path,
        max_bytes: int,
        max_age_s: float,
        clock: Callable[[], float],
        reserve_bytes: int = 64 * 1024,
    ) -> None:
        self.directory = directory
        self.marks = directory / "marks"
        self.damaged = 0
        self._batches = directory / "batches"
        self._max_bytes, self._max_age_s, self._clock = max_bytes, max_age_s, clock
        try:
            for folder in (self._batches, self.marks):
                folder.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise SpoolError(f"spool {directory}: {error}; give a directory that the agent may write") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SpoolError(f"spool {directory}: another agent uses it; give each agent its own --spool") from None
        self._aside = Aside(directory / "refused", int(max_bytes * REFUSED_SHARE))
        self._reserve = Reserve(directory / "reserve", reserve_bytes)
        self.dropped = 0
        self._next = 0
        self._stateless = not self._load_state()
        self._sizes = {number: file.stat().st_size for number, file in _numbered(self._batches, "", ".gz")}
        self._discard_unfinished()
        # Closed, but the disk was too full to record it: the number is used nevertheless.
        self._next = max(self._next, max(self._sizes, default=-1) + 1)
        if self._stateless:
            # Start beyond any earlier sequence number, even if the directory was lost.
            self._next = max(int(clock() * 1e6), self._next)
        self._journal: int | None = None

    @property
    def next_sequence(self) -> int:
        """The number that the next batch gets."""
        return self._next

    @property
    def waiting(self) -> int:
        """Closed batches that are not acknowledged."""
        return len(self._sizes)

    @property
    def refused(self) -> int:
        """Batches that the server rejected, set aside."""
        return len(self._aside)

    def leftover(self) -> list[Reading]:
        """The readings that an earlier agent recorded and did not close, oldest first; to be closed now."""
        readings = []
        for _, file in _numbered(self.directory, "open-", ".jsonl"):
            for line in file.read_bytes().split(b"\n"):
                if line:
                    try:
                        readings.append(from_record(json.loads(line)))
                    except (ValueError, RecursionError):  # the last line may be truncated
                        self.damaged += 1
        return readings

    def note(self, reading: Reading) -> None:
        """Record a reading of the batch being filled."""
        if self._journal is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._journal = os.open(self.directory / f"open-{self._next}.jsonl", flags, 0o640)
        # A line break also comes first: a line truncated by a full disk must not spoil the next one.
        os.write(self._journal, b"\n" + _ENCODER.encode(to_record(reading)).encode() + b"\n")

    def note_error(self, error: str | None) -> None:
        """Keep the sender's last error for when no agent runs; None removes it. Not worth an error of its own."""
        with contextlib.suppress(OSError):
            if error is None:
                (self.directory / LAST_ERROR).unlink(missing_ok=True)
            else:
                (self.directory / LAST_ERROR).write_text(f"{error}\n", encoding="utf-8", errors="backslashreplace")

    def close_batches(self, bodies: Sequence[bytes], *, last: bool = False) -> None:
        """Close what was recorded as these batches, numbered from ``next_sequence`` on; then drop the excess.

        On a full disk the reserve is spent: if these are the ``last`` ones, or if nothing else waits, so that they
        are sent at once and give the room back.

        Raises:
            OSError: they cannot be written; nothing has changed.
        """
        closed = range(self._next, self._next + len(bodies))
        try:
            self._write_batches(closed, bodies)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            if not (full and (last or not self._sizes) and self._reserve.spend()):
                raise
            self._write_batches(closed, bodies)
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None
        for _, file in _numbered(self.directory, "open-", ".jsonl"):
            file.unlink()
        self._sizes.update({number: len(body) for number, body in zip(closed, bodies, strict=True)})
        self._drop_excess()
        if not last:
            self._reserve.take()

    def _write_batches(self, numbers: range, bodies: Sequence[bytes]) -> None:
        for number, body in zip(numbers, bodies, strict=True):
            _write(self._batches / f"{number}.gz", body)
        before, self._next = self._next, numbers.stop
        try:
            self._save_state()
        except OSError:
            self._next = before
            raise

    def oldest(self, after: int = -1) -> tuple[int, bytes] | None:
        """The oldest batch with a number above ``after``: its number and its bytes. A file that cannot be read is set
        aside and counted."""
        while candidates := [number for number in self._sizes if number > after]:
            number = min(candidates)
            file = self._batches / f"{number}.gz"
            try:
                body = file.read_bytes()
            except OSError:
                body = b""
            if body[:2] == b"\x1f\x8b":
                return number, body
            self.damaged += 1
            folder = self.directory / "damaged"
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):
                file.replace(folder / file.name)
            self._sizes.pop(number, None)
        return None

    def remove(self, number: int) -> None:
        """The batch was acknowledged."""
        (self._batches / f"{number}.gz").unlink(missing_ok=True)
        self._sizes.pop(number, None)
        self._reserve.take()

    def set_aside(self, number: int, reason: str) -> None:
        """The server rejected the batch: sets it aside, and drops the oldest of these if there are too many."""
        excess = self._aside.keep(number, self._batches / f"{number}.gz", reason)
        self._sizes.pop(number, None)
        if excess:
            self.dropped += excess
            with contextlib.suppress(OSError):  # a full disk: it is saved with the next batch
                self._save_state()

    def resend(self) -> int:
        """Put the rejected batches back in the queue and return how many."""
        given = self._aside.give_back(self._batches)
        self._sizes.update(given)
        return len(given)

    def release(self) -> None:
        """Let another agent use the directory."""
        if self._journal is not None:
            os.close(self._journal)
        os.close(self._lock)

    def _drop_excess(self) -> None:
        oldest_allowed, dropped = self._clock() - self._max_age_s, 0
        total = sum(self._sizes.values())
        for number in sorted(self._sizes):
            file = self._batches / f"{number}.gz"
            too_much = total > self._max_bytes and len(self._sizes) > 1
            if not too_much and file.exists() and file.stat().st_mtime >= oldest_allowed:
                break
            total -= self._sizes[number]
            self.remove(number)
            dropped += 1
        if dropped:
            self.dropped += dropped
            self._save_state()

    def _load_state(self) -> bool:
        """Whether there is a state to resume from."""
        file = self.directory / "state.json"
        try:
            state = json.loads(file.read_bytes())
            self._next, self.dropped = max(0, int(state["next_sequence"])), max(0, int(state["dropped"]))
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.damaged += 1
            return False
        return True

    def _save_state(self) -> None:
        state = {"next_sequence": self._next, "dropped": self.dropped}
        _write(self.directory / "state.json", json.dumps(state).encode())

    def _discard_unfinished(self) -> None:
        """A journal closed before the crash is settled; batches of one that was not are made again."""
        for number, file in _numbered(self.directory, "open-", ".jsonl"):
            if number < self._next:
                file.unlink()
                continue
            for unfinished in [n for n in self._sizes if n >= number]:
                self.remove(unfinished)


def _numbered(folder: Path, prefix: str, suffix: str) -> list[tuple[int, Path]]:
    """The files of ``folder`` named by a sequence number, in order; others are not ours."""
    found = []
    for file in folder.iterdir():
        digits = file.name.removeprefix(prefix).removesuffix(suffix)
        if digits.isdecimal() and file.name == f"{prefix}{digits}{suffix}":
            found.append((int(digits), file))
    return sorted(found)


def _write(file: Path, content: bytes) -> None:
    """The whole file or none of it."""
    fresh = file.with_name(file.name + ".new")
    try:
        fresh.write_bytes(content)
        fresh.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()  # half a file would fill the disk for nothing
        raise


class Reserve:
    """A file of ``size`` bytes; deleting it frees as much."""

    def __init__(self, file: Path, size: int) -> None:
        self._file, self._size = file, size
        self._held = False
        self.take()

    def take(self) -> None:
        """Reserve the space again if there is any; do nothing if it is reserved already."""
        if self._held:
            return
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError:
            return
        try:
            os.posix_fallocate(descriptor, 0, self._size)
            self._held = True
        except OSError:
            with contextlib.suppress(OSError):
                self._file.unlink()
        finally:
            os.close(descriptor)

    def spend(self) -> bool:
        """Frees the space; returns whether there was any."""
        if not self._held:
            return False
        self._held = False
        try:
            self._file.unlink()
        except OSError:
            return False
        return True


class Aside:
    """Batches that the server rejected, set aside: perhaps the server was wrong, or its clock.

    At most ``max_bytes``; the oldest are deleted for newer ones.
    """

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        self._sizes = {int(file.stem): file.stat().st_size for file in _rejected(directory)}

    def __len__(self) -> int:
        return len(self._sizes)

    def keep(self, number: int, file: Path, reason: str) -> int:
        """Move the batch in ``file`` here and return how many were deleted for it.

        Raises:
            OSError: it cannot be moved.
        """
        self.directory.mkdir(mode=0o750, exist_ok=True)
        size = file.stat().st_size
        file.replace(self.directory / f"{number}.gz")
        self._sizes[number] = size
        with contextlib.suppress(OSError):  # on a full disk the batch matters, not the reason
            (self.directory / f"{number}.txt").write_text(reason + "\n")
        excess = 0
        while sum(self._sizes.values()) > self._max_bytes and len(self._sizes) > 1:
            oldest = min(self._sizes)
            (self.directory / f"{oldest}.gz").unlink(missing_ok=True)
            self._forget(oldest)
            excess += 1
        return excess

    def give_back(self, folder: Path) -> dict[int, int]:
        """Move all batches that can be moved to ``folder``, as if closed now: their numbers and sizes."""
        given: dict[int, int] = {}
        for number, size in sorted(self._sizes.items()):
            file = self.directory / f"{number}.gz"
            try:
                os.utime(file)
                file.replace(folder / file.name)
            except FileNotFoundError:  # removed by hand
                self._forget(number)
                continue
            except OSError:
                continue
            self._forget(number)
            given[number] = size
        return given

    def _forget(self, number: int) -> None:
        (self.directory / f"{number}.txt").unlink(missing_ok=True)
        del self._sizes[number]


def _rejected(directory: Path) -> list[Path]:
    try:
        return [file for file in directory.iterdir() if file.suffix == ".gz" and file.stem.isdecimal()]
    except OSError:
        return []
