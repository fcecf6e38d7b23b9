"""Threads that run the application, to keep long work out of the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


class Lane:
    """``threads`` that take work from one queue. Lanes are separate: a full one does not slow another."""

    def __init__(self, name: str, threads: int) -> None:
        self._line: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{i}", daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def put(self, work: Callable[[], None]) -> None:
        """Queue ``work``, which must not raise."""
        self._line.put(work)

    async def call(self, work: Callable[[], Result]) -> Result:
        """Return the result of ``work``, which must not raise, while the event loop does other things."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Result] = loop.create_future()

        def give(result: Result) -> None:
            if not waiting.done():
                waiting.set_result(result)

        def run() -> None:
            result = work()
            with suppress(RuntimeError):  # the loop has ended: nothing waits for the result
                loop.call_soon_threadsafe(give, result)

        self.put(run)
        return await waiting

    def close(self, timeout_s: float) -> None:
        """Stop after the queued work is done."""
        for _ in self._threads:
            self._line.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _run(self) -> None:
        while (work := self._line.get()) is not None:
            work()
