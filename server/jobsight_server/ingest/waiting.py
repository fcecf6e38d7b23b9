"""What requests wait for in the event loop: memory for their batches, and outcomes from the writer's thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from jobsight_server.ingest.committer import Found
from jobsight_server.ingest.wire import BatchOutcome, RefusedBatchError, UnavailableError

_DECODED_FACTOR = 10  # a batch takes up to this many times its length: itself, and its numbers as objects
_COMMIT_TIMEOUT_S = 30.0
_TOO_LONG = f"the batch was not written within {_COMMIT_TIMEOUT_S:g} s"

Done = Callable[[Found], None]


class MemoryBudget:
    """Memory in bytes that batches may use at a time, granted in order of request."""

    def __init__(self, total_bytes: int, patience_s: float = 10.0) -> None:
        self._total = self._free = total_bytes
        self._patience_s = patience_s
        self._turn, self._freed = asyncio.Lock(), asyncio.Event()

    async def take(self, unpacked_bytes: int) -> int:
        """Reserve the memory for a batch of this length, at most the whole budget; return it, for ``give_back``.

        Raises:
            UnavailableError: it did not become free in time.
        """
        if taken := self.take_now(unpacked_bytes):
            return taken
        wanted = min(_DECODED_FACTOR * unpacked_bytes, self._total)
        try:
            async with asyncio.timeout(self._patience_s), self._turn:
                while self._free < wanted:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError as error:
            why = f"other batches use all {self._total} bytes that unpacking may use; try again later"
            raise UnavailableError(why, "overloaded") from error
        self._free -= wanted
        return wanted

    def take_now(self, unpacked_bytes: int) -> int:
        """Reserve the memory for a batch of this length if it is free now, and return it; else return 0."""
        wanted = min(_DECODED_FACTOR * unpacked_bytes, self._total)
        if self._turn.locked() or self._free < wanted:
            return 0
        self._free -= wanted
        return wanted

    def give_back(self, taken: int) -> None:
        """Free memory that ``take`` returned."""
        self._free += taken
        self._freed.set()


class Outcomes:
    """Outcomes on their way from the writer's thread to the event loop, which is woken once for several."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[Done, Found]] = deque()
        self._waiting: dict[Done, float] = {}  # until when, oldest first
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, commit: Callable[[Done], None], done: Done) -> None:
        """Call ``done`` in the event loop with the outcome of what ``commit`` submits, given the function that takes it
        once it is durable; or, if that takes too long, with an ``UnavailableError``.

        Raises:
            UnavailableError: the writer takes no more.
        """
        loop = asyncio.get_running_loop()
        commit(partial(self._add, loop, done))
        self._waiting[done] = loop.time() + _COMMIT_TIMEOUT_S
        if self._timer is None:
            self._timer = loop.call_later(_COMMIT_TIMEOUT_S, self._expire, loop)

    async def of(self, commit: Callable[[Done], None]) -> BatchOutcome:
        """Return the outcome of what ``commit`` submits.

        Raises:
            RefusedBatchError: it failed, or took too long.
        """
        waiting: asyncio.Future[BatchOutcome] = asyncio.get_running_loop().create_future()
        self.submit(commit, partial(_end, waiting))
        return await waiting

    def _add(self, loop: asyncio.AbstractEventLoop, done: Done, found: Found) -> None:
        self._arrived.append((done, found))
        if len(self._arrived) == 1 and not loop.is_closed():  # else it has been woken
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        while self._arrived:
            done, found = self._arrived.popleft()
            if self._waiting.pop(done, None) is not None:  # else it took too long
                done(found)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what has waited for too long; one timer is enough for all, as all wait for the same time."""
        while self._waiting and (until := next(iter(self._waiting.values()))) <= loop.time():
            done = next(iter(self._waiting))
            del self._waiting[done]
            done(UnavailableError(_TOO_LONG))
        self._timer = loop.call_at(until, self._expire, loop) if self._waiting else None


def _end(waiting: asyncio.Future[BatchOutcome], found: Found) -> None:
    if waiting.done():  # its client has gone
        return
    if isinstance(found, RefusedBatchError):
        waiting.set_exception(found)
    else:
        waiting.set_result(found)
