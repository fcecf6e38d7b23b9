"""What requests wait for in the event loop: memory for their batches, and outcomes from the writer's thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial

from jobsight_server.ingest.wire import BatchOutcome, UnavailableError

_DECODED_FACTOR = 10  # a batch takes up to this many times its length: itself, and its numbers as objects
_COMMIT_TIMEOUT_S = 30.0


class MemoryBudget:
    """Memory in bytes that batches may use at a time, granted in order of request."""

    def __init__(self, total_bytes: int, patience_s: float = 10.0) -> None:
        self._total = self._free = total_bytes
        self._patience_s = patience_s
        self._turn, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def batch(self, unpacked_bytes: int) -> AsyncIterator[None]:
        """Reserve the memory for a batch of this length while the block runs; at most the whole budget.

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
        try:
            yield
        finally:
            self._free += wanted
            self._freed.set()


class Outcomes:
    """Outcomes on their way from the writer's thread to the event loop, which is woken once for several."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[asyncio.Future[BatchOutcome], Future[BatchOutcome]]] = deque()

    async def of(self, committing: Future[BatchOutcome]) -> BatchOutcome:
        """Return the outcome, once it is durable.

        Raises:
            RefusedBatchError: it failed, or took too long.
        """
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[BatchOutcome] = loop.create_future()
        committing.add_done_callback(partial(self._arrive, loop, waiting))
        try:
            async with asyncio.timeout(_COMMIT_TIMEOUT_S):
                return await waiting
        except TimeoutError as error:
            raise UnavailableError(f"the batch was not written within {_COMMIT_TIMEOUT_S:g} s") from error

    def _arrive(
        self,
        loop: asyncio.AbstractEventLoop,
        waiting: asyncio.Future[BatchOutcome],
        committed: Future[BatchOutcome],
    ) -> None:
        self._arrived.append((waiting, committed))
        if len(self._arrived) == 1 and not loop.is_closed():  # else it has been woken
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        while self._arrived:
            waiting, committed = self._arrived.popleft()
            error = committed.exception()
            if waiting.done():  # its client has gone
                continue
            if error is None:
                waiting.set_result(committed.result())
            else:
                waiting.set_exception(error)
