"""Group commit: many requests wait for one transaction of one writing thread."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.ingest.refusals import Refusal
from jobsight_server.ingest.store import Outcome, SampleStore, Submission

log = logging.getLogger(__name__)

# A transaction holds the other writers of the database up; this many batches keep it well below a second.
_LARGEST_GROUP = 128


_Item = tuple[Submission, Future[Outcome]] | Refusal | threading.Event | None


class OverloadedError(Exception):
    """More batches wait than the server is willing to hold; the agent tries again later."""


class GroupCommitter:
    """Queue and thread in front of a ``SampleStore``.

    ``submit`` returns a future that is done when the batch is durable. Refusals need no answer: they are written
    with the next group, and kept for the one after where a transaction fails.
    """

    def __init__(self, store: SampleStore, capacity: int = 1024) -> None:
        self._store = store
        self._waiting: queue.Queue[_Item] = queue.Queue()
        self._capacity = capacity
        self._kept_refusals: list[Refusal] = []
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, submission: Submission) -> Future[Outcome]:
        """Hands a batch over.

        Raises:
            OverloadedError: the queue is full.
        """
        if self._waiting.qsize() >= self._capacity:
            raise OverloadedError(f"{self._capacity} batches are waiting to be written; try again later")
        future: Future[Outcome] = Future()
        self._waiting.put((submission, future))
        return future

    def refuse(self, refusal: Refusal) -> None:
        """Hands over what is to be counted or quarantined. Under a flood only the count is kept."""
        if refusal.body is not None and self._waiting.qsize() >= self._capacity:
            raise OverloadedError("too many refused batches are waiting to be written; try again later")
        self._waiting.put(refusal)

    def flush(self) -> None:
        """Returns when all that was handed over before is written, or has failed to be."""
        written = threading.Event()
        self._waiting.put(written)
        written.wait()

    def close(self) -> None:
        """Writes what waits and ends the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            items = [self._waiting.get()]
            while len(items) < _LARGEST_GROUP and not self._waiting.empty():
                items.append(self._waiting.get_nowait())
            open_ = None not in items
            submissions = [item for item in items if isinstance(item, tuple)]
            refusals = self._kept_refusals + [item for item in items if isinstance(item, Refusal)]
            self._kept_refusals = self._commit(submissions, refusals)
            for item in items:
                if isinstance(item, threading.Event):
                    item.set()

    def _commit(
        self, submissions: Sequence[tuple[Submission, Future[Outcome]]], refusals: list[Refusal]
    ) -> list[Refusal]:
        """Commits the group; returns the refusals that are still to be written."""
        if not (submissions or refusals):
            return []
        try:
            outcomes = self._store.apply([submission for submission, _ in submissions], refusals)
        except (SQLAlchemyError, OverflowError, ValueError) as error:
            if len(submissions) + bool(refusals) > 1:
                # One of them may be at fault: each gets a transaction of its own.
                for pair in submissions:
                    self._commit([pair], [])
                return self._commit([], refusals)
            log.error("cannot write %d batches, %d refusals: %s", len(submissions), len(refusals), error)
            for _, future in submissions:
                future.set_exception(error)
            return refusals[-self._capacity :]
        for (_, future), outcome in zip(submissions, outcomes, strict=True):
            future.set_result(outcome)
        return []
