"""Unacknowledged readings on disk, with bounds on size and age.

    SPOOL/open-SEQUENCE.jsonl     the readings of the open batch, a line each
    SPOOL/batches/SEQUENCE.gz     closed batches, exactly as sent
    SPOOL/state.json              next sequence number, count of dropped batches
    SPOOL/refused/SEQUENCE.gz     batches that the server rejected, as sent, each with a .txt that says why
    SPOOL/reserve                 space for readings in memory when the disk is full
    SPOOL/agent.socket            where job hooks reach the agent (see `control`)
    SPOOL/marks/                  readings that job hooks left (see `hooks`)
    SPOOL/last-error              last error of sending, for `jobsight-agent status` when no agent runs
    SPOOL/damaged/                unreadable files, set aside

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
    """The spool of one agent, locked against a second one.

    Beyond ``max_bytes`` and ``max_age_s`` the oldest batches are dropped and counted in ``dropped``, which outlives
    the agent.
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
        # Closed, but the disk was too full to record it: the number is used.
        self._next = max(self._next, max(self._sizes, default=-1) + 1)
        if self._stateless:
            # Start beyond any earlier sequence number, even if the directory was lost.
            self._next = max(int(clock() * 1e6), self._next)
        self._journal: int | None = None

    @property
    def next_sequence(self) -> int:
        """The next batch's number."""
        return self._next

    @property
    def waiting(self) -> int:
        """Number of closed batches not yet acknowledged."""
        return len(self._sizes)

    @property
    def refused(self) -> int:
        """Number of rejected batches, set aside."""
        return len(self._aside)

    def leftover(self) -> list[Reading]:
        """Return the readings that an earlier agent recorded but did not close, oldest first; close them now."""
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
        """Record a reading of the open batch."""
        if self._journal is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._journal = os.open(self.directory / f"open-{self._next}.jsonl", flags, 0o640)
        # A line break comes first too: a line truncated by a full disk must not spoil the next one.
        os.write(self._journal, b"\n" + _ENCODER.encode(to_record(reading)).encode() + b"\n")

    def note_error(self, error: str | None) -> None:
        """Keep the sender's last error for when no agent runs; None removes it. Ignores errors."""
        with contextlib.suppress(OSError):
            if error is None:
                (self.directory / LAST_ERROR).unlink(missing_ok=True)
            else:
                _write(self.directory / LAST_ERROR, f"{error}\n".encode(errors="backslashreplace"))

    def close_batches(self, bodies: Sequence[bytes], *, last: bool = False) -> None:
        """Close the recorded readings as these batches, numbered from ``next_sequence``; then drop the excess.

        On a full disk, spends the reserve if these are the ``last`` ones, or if nothing else waits: then they are sent
        at once and free the space.

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
        """Return number and bytes of the oldest batch above ``after``. An unreadable file is set aside and counted."""
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
        """Remove an acknowledged batch."""
        (self._batches / f"{number}.gz").unlink(missing_ok=True)
        self._sizes.pop(number, None)
        self._reserve.take()

    def set_aside(self, number: int, reason: str) -> None:
        """Set a rejected batch aside; drop the oldest of these if there are too many."""
        excess = self._aside.keep(number, self._batches / f"{number}.gz", reason)
        self._sizes.pop(number, None)
        if excess:
            self.dropped += excess
            with contextlib.suppress(OSError):  # disk full: saved with the next batch
                self._save_state()

    def resend(self) -> int:
        """Queue the rejected batches again; return how many."""
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
        """Load the state; return whether there is one."""
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
        """Delete journals closed before a crash, and batches of one that was not: they are made again."""
        for number, file in _numbered(self.directory, "open-", ".jsonl"):
            if number < self._next:
                file.unlink()
                continue
            for unfinished in [n for n in self._sizes if n >= number]:
                self.remove(unfinished)


def _numbered(folder: Path, prefix: str, suffix: str) -> list[tuple[int, Path]]:
    """List the files of ``folder`` named by a sequence number, in order."""
    found = []
    for file in folder.iterdir():
        digits = file.name.removeprefix(prefix).removesuffix(suffix)
        if digits.isdecimal() and file.name == f"{prefix}{digits}{suffix}":
            found.append((int(digits), file))
    return sorted(found)


def _write(file: Path, content: bytes) -> None:
    """Write the whole file or none of it."""
    fresh = file.with_name(file.name + ".new")
    try:
        fresh.write_bytes(content)
        fresh.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()  # half a file would fill the disk for nothing
        raise


class Reserve:
    """A file of ``size`` bytes, deleted when the disk is full."""

    def __init__(self, file: Path, size: int) -> None:
        self._file, self._size = file, size
        self._held = False
        self.take()

    def take(self) -> None:
        """Reserve the space, if there is any and it is not reserved yet."""
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
        """Free the space; return whether there was any."""
        if not self._held:
            return False
        self._held = False
        try:
            self._file.unlink()
        except OSError:
            return False
        return True


class Aside:
    """Rejected batches, set aside in case the server or its clock was wrong.

    At most ``max_bytes``; the oldest are deleted first.
    """

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        files = _numbered(directory, "", ".gz") if directory.is_dir() else []
        self._sizes = {number: file.stat().st_size for number, file in files}

    def __len__(self) -> int:
        return len(self._sizes)

    def keep(self, number: int, file: Path, reason: str) -> int:
        """Move the batch in ``file`` here; return how many were deleted for it.

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
        """Move all batches to ``folder``, as if closed now; return numbers and sizes of those moved."""
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
