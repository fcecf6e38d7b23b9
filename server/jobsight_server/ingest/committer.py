"""Group commit: many requests wait for one transaction of one writing thread."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.ground.errors import FencedError
from jobsight_server.ground.outage import CONTENT_ERRORS, outage
from jobsight_server.ground.seldom import Seldom
from jobsight_server.ingest.store import Refusal, SampleStore
from jobsight_server.ingest.wire import BatchOutcome, RefusedBatchError, Submission, UnavailableError, WireError

log = logging.getLogger(__name__)

# A transaction blocks the database's other writers; with this many batches it takes well under a second.
_LARGEST_GROUP = 128
# Where several senders wait, a few more are waited for: a transaction costs as much as some ten batches in it.
_GROUP, _LINGER_S = 16, 0.002
_TICK_S = 1.0  # how long chores wait while nothing arrives
_CHORES_S = 0.25  # and while batches arrive: looks after every group were a tenth of the writer's busy time
_LOGGED_S, _MOST_LOGGED = 60.0, 20  # batches that cannot be stored, by kind of fault; lines within that time
_LARGEST_REFUSED_BYTES = 8 * 2**20  # bodies on their way into quarantine

READY_WITHIN_S = 5.0
"""Age of the oldest batch that is not stored, from which on the writer is not ready."""

# Work between groups: returns whether there is more to do at once.
Chore = Callable[[], bool]
Found = BatchOutcome | RefusedBatchError


class _Item(NamedTuple):
    """What waits in the queue, since ``at`` on the monotonic clock; without ``work``, only for what is before it."""

    work: Submission | Refusal | None
    done: Callable[[Found], object]
    at: float


class GroupCommitter:
    """Queue and thread in front of a ``SampleStore``.

    ``submit`` and ``refuse`` take a function ``done``, which the thread calls with the outcome once the batch, or the
    refused body, is durable, or with the error. The next group writes counts without a body. While the database does
    not accept batches, ``trouble`` says why; the last failed batch is retried every second, so ``trouble`` also applies
    to the next batch.
    ``on_fault`` is called if a fault of this program ends the thread.
    """

    def __init__(
        self,
        store: SampleStore,
        capacity: int = 1024,
        chores: Sequence[Chore] = (),
        on_fault: Callable[[], None] = lambda: None,
    ) -> None:
        self.trouble: str | None = None
        self._store = store
        self._chores = chores
        self._on_fault = on_fault
        self._waiting: queue.Queue[_Item] = queue.Queue()
        self._capacity = capacity
        self._lock = threading.Lock()
        self._refused_bytes = 0
        self._rejected: Counter[str] = Counter()
        self._failed: Submission | None = None
        self._chores_at = 0.0
        self._committing_since: float | None = None
        self._many = False  # whether the last group had several batches
        self._open = True
        self._logged = Seldom(_LOGGED_S, _MOST_LOGGED)
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, submission: Submission, done: Callable[[Found], object]) -> None:
        """Submit a batch.

        Raises:
            UnavailableError: the queue is full.
        """
        if self._waiting.qsize() >= self._capacity:
            raise UnavailableError(f"{self._capacity} batches are waiting to be written; try again later", "overloaded")
        self._put(submission, done)

    def refuse(self, refusal: Refusal, done: Callable[[Found], object] = lambda found: None) -> None:
        """Submit a rejected batch, to be kept in quarantine or, without a body, only counted.

        Counting is done at once; its example follows when there is room, and nothing waits for it.

        Raises:
            UnavailableError: too many bodies are waiting to be written.
        """
        if refusal.body is None:
            with self._lock:
                self._rejected[refusal.label] += 1
            if refusal.example and self._open and self._waiting.qsize() < self._capacity:
                self._waiting.put(_Item(refusal, lambda found: None, time.monotonic()))
            done(BatchOutcome("rejected"))
            return
        size = len(refusal.body)
        with self._lock:
            full = self._refused_bytes + size > max(_LARGEST_REFUSED_BYTES, size)
            if full or self._waiting.qsize() >= self._capacity:
                message = "too many rejected batches are waiting to be written; try again later"
                raise UnavailableError(message, "overloaded")
            self._refused_bytes += size

        def let_go(found: Found) -> None:
            with self._lock:
                self._refused_bytes -= size
            done(found)

        self._put(refusal, let_go)

    @property
    def unready(self) -> str | None:
        """Return why batches are not stored: the trouble, or that the oldest has waited for long; None if they are."""
        with self._waiting.mutex:
            since = self._committing_since or (self._waiting.queue[0].at if self._waiting.queue else None)
        waits_s = 0.0 if since is None else time.monotonic() - since
        late = f"the oldest batch has waited for {waits_s:.0f} s" if waits_s >= READY_WITHIN_S else None
        return self.trouble or late

    def report(self, trouble: str) -> None:
        """Report that the database failed elsewhere in this process; valid until something is written."""
        if self.trouble is None:
            log.error("batches are not stored: %s", trouble)
            self.trouble = trouble

    def flush(self) -> None:
        """Wait until everything submitted before has been written, or has failed."""
        flushed = threading.Event()
        self._put(None, lambda found: flushed.set())
        flushed.wait()

    def close(self) -> None:
        """Write the waiting batches and end the thread."""
        self._open = False
        self._waiting.put(_Item(None, lambda found: None, time.monotonic()))
        self._thread.join()

    def _put(self, work: Submission | Refusal | None, done: Callable[[Found], object]) -> None:
        if not self._open:
            raise UnavailableError("the writer is shutting down; try again later")
        self._waiting.put(_Item(work, done, time.monotonic()))

    def _run(self) -> None:
        try:
            more = True
            while self._open or self._waiting.qsize():
                more = self._round(more)
        finally:
            # Also if a fault of this program ends the thread: no request must wait in vain.
            if self._open:
                self._on_fault()
            self._open = False
            self.trouble = "the writer has ended"
            for item in self._gather(0.0, self._waiting.qsize()):
                item.done(UnavailableError("the writer is shutting down; try again later"))

    def _round(self, more: bool) -> bool:
        """Commit a group, and do chores if there is ``more`` to do or it is time; return whether there is more."""
        items = self._gather(0.0 if more else _TICK_S, _LARGEST_GROUP)
        work = [item for item in items if item.work is not None]
        self._many = len(work) > 1
        if self.trouble and not work and self._failed is not None:
            work = [_Item(self._failed, lambda found: None, time.monotonic())]
        self._committing_since = work[0].at if work else None
        self._commit(work)
        self._committing_since = None
        flushed = [item.done for item in items if item.work is None]
        if more or flushed or not work or time.monotonic() >= self._chores_at:
            more = self._open and not self.trouble and self._do_chores()
            self._chores_at = time.monotonic() + _CHORES_S
        for done in flushed:
            done(BatchOutcome("flushed"))
        return more

    def _gather(self, patience_s: float, at_most: int) -> list[_Item]:
        items: list[_Item] = []
        try:
            if patience_s:
                items.append(self._waiting.get(timeout=patience_s))
            if self._many and self._waiting.qsize() < _GROUP:
                time.sleep(_LINGER_S)
            while len(items) < at_most:
                items.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return items

    def _do_chores(self) -> bool:
        try:
            return any(chore() for chore in self._chores)
        except (FencedError, SQLAlchemyError) as error:
            self._in_trouble(error)
            return False

    def _commit(self, items: Sequence[_Item]) -> None:
        """Commit the group; if one batch may be at fault, each gets its own transaction."""
        try:
            self._apply(items)
        except (FencedError, *CONTENT_ERRORS, SQLAlchemyError) as error:
            reason = self._in_trouble(error)
            if reason is None and len(items) > 1:
                for item in items:
                    self._commit([item])
                return
            for work, done, _ in items:
                batch = work.batch if isinstance(work, Submission) else None
                if reason is None:
                    if self._logged.lets(type(error).__name__, time.monotonic()):
                        shown = type(error).__name__, _in_a_line(error), self._logged.others()
                        log.error("a batch cannot be stored: %s: %s%s", *shown)
                    done(WireError("a value in it cannot be stored", "cannot be stored", batch))
                    continue
                if isinstance(work, Submission):
                    self._failed = work
                done(UnavailableError(reason))

    def _apply(self, items: Sequence[_Item]) -> None:
        with self._lock:
            rejected = self._rejected.copy()
        if not (items or rejected or self.trouble):
            return
        outcomes = self._store.apply([item.work for item in items if item.work is not None], rejected)
        with self._lock:
            self._rejected -= rejected
        if self.trouble:
            log.info("batches are stored again")
        self.trouble, self._failed = None, None
        for item, outcome in zip(items, outcomes, strict=True):
            item.done(outcome)

    def _in_trouble(self, error: Exception) -> str | None:
        if isinstance(error, FencedError):
            reason: str | None = "another server has taken over the database"
        else:
            reason = outage(error)
        if reason is not None:
            if reason != self.trouble:
                log.error("batches are not stored: %s: %s", reason, _in_a_line(error))
            self.trouble = reason
        return reason


def _in_a_line(error: Exception) -> str:
    """Return the driver's message without SQL and values, for the log."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:500]
