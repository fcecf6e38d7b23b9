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
        wanted = min(_DECODED_FACTOR * unpacked_bytes, self._total)
        if self._turn.locked() or self._free < wanted:
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

    def give_back(self, taken: int) -> None:
        """Free memory that ``take`` returned."""
        self._free += taken
        self._freed.set()


class Outcomes:
    """Outcomes on their way from the writer's thread to the event loop, which is woken once for several."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[asyncio.Future[BatchOutcome], Found]] = deque()

    async def of(self, commit: Callable[[Callable[[Found], None]], None]) -> BatchOutcome:
        """Return the outcome of what ``commit`` submits, given the function that takes it, once it is durable.

        Raises:
            RefusedBatchError: it failed, or took too long.
        """
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[BatchOutcome] = loop.create_future()
        commit(partial(self._add, loop, waiting))
        timer = loop.call_later(_COMMIT_TIMEOUT_S, _end, waiting, UnavailableError(_TOO_LONG))
        try:
            return await waiting
        finally:
            timer.cancel()

    def _add(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[BatchOutcome], found: Found) -> None:
        self._arrived.append((waiting, found))
        if len(self._arrived) == 1 and not loop.is_closed():  # else it has been woken
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        while self._arrived:
            _end(*self._arrived.popleft())


def _end(waiting: asyncio.Future[BatchOutcome], found: Found) -> None:
    if waiting.done():  # it took too long, or its client has gone
        return
    if isinstance(found, RefusedBatchError):
        waiting.set_exception(found)
    else:
        waiting.set_result(found)
