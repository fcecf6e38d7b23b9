"""Group commit: many requests wait for one transaction of one writing thread."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.ingest.store import Refusal, SampleStore
from jobsight_server.ingest.wire import BatchOutcome, RefusedBatchError, Submission, UnavailableError
from jobsight_server.storage.lock import FencedError
from jobsight_server.storage.outage import CONTENT_ERRORS, outage

log = logging.getLogger(__name__)

# A transaction blocks the database's other writers; with this many batches it takes well under a second.
_LARGEST_GROUP = 128
# Where several senders wait, a few more are waited for: a transaction costs as much as some ten batches in it.
_GROUP, _LINGER_S = 16, 0.002
_TICK_S = 1.0  # how long chores wait while nothing arrives
_CHORES_S = 0.25  # and while batches arrive: looks after every group were a tenth of the writer's busy time
_LARGEST_REFUSED_BYTES = 8 * 2**20  # bodies on their way into quarantine

_Work = Submission | Refusal
_Item = tuple[_Work, Future[BatchOutcome]] | threading.Event | None
# Work between groups: returns whether there is more to do at once.
Chore = Callable[[], bool]


class GroupCommitter:
    """Queue and thread in front of a ``SampleStore``.

    ``submit`` and ``refuse`` return a future that is done when the batch, or the refused body, is durable. The next
    group writes counts without a body. While the database does not accept batches, ``trouble`` says why; the last
    failed batch is retried every second, so ``trouble`` also applies to the next batch.
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
        self._many = False  # whether the last group had several batches
        self._open = True
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, submission: Submission) -> Future[BatchOutcome]:
        """Submit a batch. The future raises ``RefusedBatchError``.

        Raises:
            UnavailableError: the queue is full.
        """
        if self._waiting.qsize() >= self._capacity:
            raise UnavailableError(f"{self._capacity} batches are waiting to be written; try again later", "overloaded")
        return self._put(submission)

    def refuse(self, refusal: Refusal) -> Future[BatchOutcome]:
        """Submit a rejected batch, to be kept in quarantine or, without a body, only counted.

        Counting is done at once; its example follows when there is room, and nothing waits for it.

        Raises:
            UnavailableError: too many bodies are waiting to be written.
        """
        if refusal.body is None:
            with self._lock:
                self._rejected[refusal.label] += 1
            if refusal.example and self._open and self._waiting.qsize() < self._capacity:
                self._waiting.put((refusal, Future()))
            done: Future[BatchOutcome] = Future()
            done.set_result(BatchOutcome("rejected"))
            return done
        size = len(refusal.body)
        with self._lock:
            full = self._refused_bytes + size > max(_LARGEST_REFUSED_BYTES, size)
            if full or self._waiting.qsize() >= self._capacity:
                message = "too many rejected batches are waiting to be written; try again later"
                raise UnavailableError(message, "overloaded")
            self._refused_bytes += size
        future = self._put(refusal)
        future.add_done_callback(lambda _: self._let_go(size))
        return future

    def report(self, trouble: str) -> None:
        """Report that the database failed elsewhere in this process; valid until something is written."""
        self.trouble = self.trouble or trouble

    def flush(self) -> None:
        """Wait until everything submitted before has been written, or has failed."""
        written = threading.Event()
        self._waiting.put(written)
        written.wait()

    def close(self) -> None:
        """Write the waiting batches and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _put(self, work: _Work) -> Future[BatchOutcome]:
        if not self._open:
            raise UnavailableError("the writer is shutting down; try again later")
        future: Future[BatchOutcome] = Future()
        self._waiting.put((work, future))
        return future

    def _let_go(self, size: int) -> None:
        with self._lock:
            self._refused_bytes -= size

    def _run(self) -> None:
        try:
            more = True
            while self._open:
                more = self._round(more)
        finally:
            # Also if a fault of this program ends the thread: no request must wait in vain.
            if self._open:
                self._on_fault()
            self._open = False
            self.trouble = "the writer has ended"
            for item in self._gather(0.0, self._waiting.qsize()):
                if isinstance(item, tuple):
                    item[1].set_exception(UnavailableError("the writer is shutting down; try again later"))
                elif item is not None:
                    item.set()

    def _round(self, more: bool) -> bool:
        """Commit a group, and do chores if there is ``more`` to do or it is time; return whether there is more."""
        items = self._gather(0.0 if more else _TICK_S, _LARGEST_GROUP)
        work = [item for item in items if isinstance(item, tuple)]
        self._many = len(work) > 1
        if self.trouble and not work and self._failed is not None:
            work = [(self._failed, Future())]
        self._commit(work)
        self._open = None not in items
        flushed = [item for item in items if isinstance(item, threading.Event)]
        if more or flushed or not work or time.monotonic() >= self._chores_at:
            more = self._open and not self.trouble and self._do_chores()
            self._chores_at = time.monotonic() + _CHORES_S
        for event in flushed:
            event.set()
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

    def _commit(self, work: Sequence[tuple[_Work, Future[BatchOutcome]]]) -> None:
        """Commit the group; if one batch may be at fault, each gets its own transaction."""
        try:
            self._apply(work)
            return
        except (FencedError, *CONTENT_ERRORS, SQLAlchemyError) as error:
            if self._failed_by_database(error, work):
                return
        for pair in work:
            try:
                self._apply([pair])
            except (FencedError, *CONTENT_ERRORS, SQLAlchemyError) as error:
                if not self._failed_by_database(error, [pair]):
                    log.error("a batch cannot be stored: %s: %s", type(error).__name__, _in_a_line(error))
                    batch = pair[0].batch if isinstance(pair[0], Submission) else None
                    refused = RefusedBatchError(422, "a value in it cannot be stored", "cannot be stored", batch)
                    pair[1].set_exception(refused)

    def _apply(self, work: Sequence[tuple[_Work, Future[BatchOutcome]]]) -> None:
        with self._lock:
            rejected, self._rejected = self._rejected, Counter()
        if not (work or rejected or self.trouble):
            return
        submissions = [(work, future) for work, future in work if isinstance(work, Submission)]
        refusals = [(work, future) for work, future in work if isinstance(work, Refusal)]
        written = False
        try:
            outcomes = self._store.apply([s for s, _ in submissions], [r for r, _ in refusals], rejected)
            written = True
        finally:
            if not written:
                with self._lock:
                    self._rejected += rejected
        if self.trouble:
            log.info("batches are stored again")
        self.trouble, self._failed = None, None
        for (_, future), outcome in zip(submissions, outcomes, strict=True):
            future.set_result(outcome)
        for _, future in refusals:
            future.set_result(BatchOutcome("quarantined"))

    def _failed_by_database(self, error: Exception, work: Sequence[tuple[_Work, Future[BatchOutcome]]]) -> bool:
        """Fail all of ``work`` if the database is at fault, not the batches."""
        reason = self._in_trouble(error)
        if reason is None:
            return False
        for item, future in work:
            if isinstance(item, Submission):
                self._failed = item
            future.set_exception(UnavailableError(reason))
        return True

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
