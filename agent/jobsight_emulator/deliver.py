"""Sends batches to the server over a few keep-alive connections, each in its own thread.

Batches of one node always take the same connection, so they arrive in the order in which they were given.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Self

from jobsight_agent.send import ACKNOWLEDGED, Reply, Sender, Target, TargetError
from jobsight_emulator.emulation import PackedBatch
from jobsight_emulator.plan import EmulatorError

# Batches that wait for one connection: enough to keep it busy, few enough to keep the accounting close behind.
_WAITING = 32


@dataclass(slots=True)
class DeliveryCounts:
    """The outcome of the batches. ``stored_twice``: copies that the server stored as new batches."""

    requests: int = 0
    bytes: int = 0
    stored: int = 0
    duplicate: int = 0
    stored_twice: int = 0
    readings_acknowledged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class BatchGroup:
    """A group of batches; ``outstanding`` of them have no final answer yet."""

    outstanding: int = 0


class _TryAgainError(Exception):
    """No final answer; ``after_s`` is what the server asked for."""

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


class Delivery:
    """A context manager: left normally it waits for all answers, left by an exception it abandons the rest."""

    def __init__(
        self,
        target: Target,
        connections: int = 2,
        give_up_s: float = 300.0,
        rng: random.Random | None = None,
    ) -> None:
        if connections < 1:
            raise EmulatorError(f"{connections} connections: give at least one")
        self.counts = DeliveryCounts()
        self._target = target
        self._give_up_s = give_up_s
        self._rng = rng or random.Random()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._failure: EmulatorError | TargetError | None = None
        self._lanes: list[queue.Queue[tuple[PackedBatch, BatchGroup] | None]] = [
            queue.Queue(_WAITING) for _ in range(connections)
        ]
        self._threads = [
            threading.Thread(target=self._work, args=(lane, Sender(target)), name=f"deliver-{number}", daemon=True)
            for number, lane in enumerate(self._lanes)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._stop.set()
        for lane in self._lanes:
            self._put(lane, None)
        for thread in self._threads:
            thread.join()

    def send(self, key: int, batches: Iterable[PackedBatch], group: BatchGroup) -> None:
        """Queues ``batches`` on the connection of ``key``; waits while it is full. EmulatorError once one failed."""
        lane = self._lanes[key % len(self._lanes)]
        for batch in batches:
            with self._changed:
                group.outstanding += 1
            self._put(lane, (batch, group))
            self._raise_failure()

    def wait(self, group: BatchGroup, timeout_s: float | None = None) -> bool:
        """Whether all batches of ``group`` have their answer, at the latest after ``timeout_s``."""
        with self._changed:
            self._changed.wait_for(lambda: group.outstanding == 0 or self._failure is not None, timeout_s)
            done = group.outstanding == 0
        self._raise_failure()
        return done

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _put(
        self, lane: queue.Queue[tuple[PackedBatch, BatchGroup] | None], item: tuple[PackedBatch, BatchGroup] | None
    ) -> None:
        while True:
            try:
                lane.put(item, timeout=0.2)
            except queue.Full:
                if self._stop.is_set():
                    # The thread leaves without looking at what is queued.
                    return
            else:
                return

    def _work(self, lane: queue.Queue[tuple[PackedBatch, BatchGroup] | None], sender: Sender) -> None:
        try:
            while not self._stop.is_set():
                try:
                    item = lane.get(timeout=0.2)
                except queue.Empty:
                    continue
                if item is None:
                    return
                self._deliver(sender, *item)
        except (EmulatorError, TargetError) as error:
            with self._changed:
                self._failure = self._failure or error
                self._stop.set()
                self._changed.notify_all()
        finally:
            sender.close()

    def _deliver(self, sender: Sender, batch: PackedBatch, group: BatchGroup) -> None:
        """Tries until there is a final answer, the delivery stops, or time runs out (EmulatorError)."""
        since = time.monotonic()
        for tries in count():
            try:
                answer = self._post(sender, batch)
                break
            except _TryAgainError as error:
                reason = str(error)
                with self._changed:
                    self.counts.retries[reason] += 1
                pause_s = error.after_s if error.after_s is not None else self._target.pause_s(tries, self._rng)
                if time.monotonic() - since + pause_s > self._give_up_s:
                    raise EmulatorError(
                        f"{self._target.url}: no batch accepted for {self._give_up_s:g} s (last error: {reason}); "
                        "check that the server is running"
                    ) from error
                if self._stop.wait(pause_s):
                    return
        with self._changed:
            self._count(batch, answer)
            group.outstanding -= 1
            if group.outstanding == 0:
                self._changed.notify_all()

    def _post(self, sender: Sender, batch: PackedBatch) -> Reply:
        """The final answer."""
        try:
            answer = sender.send(batch.body)
        except OSError as error:
            raise _TryAgainError(type(error).__name__) from error
        if answer.code == 429 or answer.code >= 500:
            raise _TryAgainError(f"status {answer.code}", answer.wait_s)
        if answer.code in (401, 403):
            raise EmulatorError(f"{self._target.url} answered {answer}: give a token of role agent")
        if answer.code == 200 and answer.word not in ACKNOWLEDGED:
            raise EmulatorError(f"{self._target.url} answered {answer}: is it a Jobsight server?")
        return answer

    def _count(self, batch: PackedBatch, answer: Reply) -> None:
        counts = self.counts
        counts.requests += 1
        counts.bytes += len(batch.body)
        if answer.code != 200:
            counts.refused[str(answer)] += 1
            return
        if answer.word == "duplicate":
            counts.duplicate += 1
        elif batch.again:
            counts.stored_twice += 1
        else:
            counts.stored += 1
        if not batch.again:
            counts.readings_acknowledged += batch.readings
