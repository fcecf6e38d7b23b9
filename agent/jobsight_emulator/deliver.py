"""Plays an emulation: sends readings to the server, then extends the accounting log to their time.

Batches go over a few keep-alive connections, each with its own thread. A node's batches always take the same
connection, so they arrive in order.
"""

from __future__ import annotations

import csv
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Self

from jobsight_agent.send import ACKNOWLEDGED, Reply, Sender, Target, TargetError
from jobsight_emulator.accounting import append, make_empty
from jobsight_emulator.emulation import Emulation, PackedBatch
from jobsight_emulator.plan import EmulatorError
from jobsight_emulator.truth import Truth

# Share of a batch for regular readings; the rest is for those of job hooks.
_REGULAR_SHARE = 0.92
# Time slices under way to the server while the next one is made.
_SLICES_AHEAD = 2

Group = list["Future[None]"]


@dataclass(slots=True)
class DeliveryCounts:
    """Outcomes of the batches. ``stored_twice``: copies that the server stored as new batches."""

    requests: int = 0
    stored_twice: int = 0
    readings_acknowledged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)


class Delivery:
    """Context manager: on a normal exit it waits for all answers, on an exception it abandons the rest."""

    def __init__(self, target: Target, connections: int = 2, give_up_s: float = 300.0) -> None:
        if connections < 1:
            raise EmulatorError(f"{connections} connections: give at least one")
        self.counts = DeliveryCounts()
        self._target = target
        self._give_up_s = give_up_s
        self._rng = random.Random()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: EmulatorError | TargetError | None = None
        self._lanes = [(Sender(target), ThreadPoolExecutor(1, f"deliver-{number}")) for number in range(connections)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._stop.set()
        for sender, lane in self._lanes:
            lane.shutdown()
            sender.close()

    def send(self, key: int, batches: Iterable[PackedBatch]) -> Group:
        """Queue ``batches`` on the connection of ``key``."""
        sender, lane = self._lanes[key % len(self._lanes)]
        return [lane.submit(self._deliver, sender, batch) for batch in batches]

    def wait(self, group: Group, timeout_s: float | None = None) -> bool:
        """Wait until all batches of ``group`` have their answer, or for ``timeout_s``; return whether they have.

        Raises:
            EmulatorError, TargetError: a batch cannot be delivered; the delivery has stopped.
        """
        done = not futures.wait(group, timeout_s).not_done
        if self._failure is not None:
            raise self._failure
        return done

    def _deliver(self, sender: Sender, batch: PackedBatch) -> None:
        """Try until there is a final answer, the delivery stops, or time runs out."""
        since = time.monotonic()
        for tries in count():
            if self._stop.is_set():
                return None
            asked_s = None
            try:
                answer = sender.send(batch.body)
                trouble = f"status {answer.code}" if answer.code == 429 or answer.code >= 500 else ""
                asked_s = answer.wait_s
            except OSError as error:
                trouble = type(error).__name__
            except TargetError as error:
                return self._fail(error)
            if not trouble:
                break
            with self._lock:
                self.counts.retries[trouble] += 1
            pause_s = self._target.pause_s(tries, self._rng) if asked_s is None else asked_s
            if time.monotonic() - since + pause_s > self._give_up_s:
                limit = f"no batch accepted for {self._give_up_s:g} s (last error: {trouble})"
                return self._fail(EmulatorError(f"{self._target.url}: {limit}; check that the server is running"))
            self._stop.wait(pause_s)
        if answer.code in (401, 403):
            return self._fail(EmulatorError(f"{self._target.url} answered {answer}: give a token of role agent"))
        if answer.code == 200 and answer.word not in ACKNOWLEDGED:
            return self._fail(EmulatorError(f"{self._target.url} answered {answer}: is it a Jobsight server?"))
        with self._lock:
            self._count(batch, answer)
        return None

    def _fail(self, error: EmulatorError | TargetError) -> None:
        with self._lock:
            self._failure = self._failure or error
        self._stop.set()

    def _count(self, batch: PackedBatch, answer: Reply) -> None:
        counts = self.counts
        counts.requests += 1
        if answer.code != 200:
            counts.refused[str(answer)] += 1
            return
        if not batch.again:
            counts.readings_acknowledged += batch.readings
        elif answer.word != "duplicate":
            counts.stored_twice += 1


@dataclass(slots=True)
class Progress:
    """The progress of the emulation, until the emulated time ``reached`` (UTC epoch seconds)."""

    reached: int
    readings_made: int = 0
    readings_lost_on_purpose: int = 0


@dataclass(slots=True)
class Live:
    """Real-time mode: from ``since`` on (UTC epoch) it keeps pace with the clock; ``at_present`` is called then."""

    since: int
    at_present: Callable[[Progress], None]
    caught_up: bool = False


class Output:
    """The accounting directories and the truth file (CSV), written as time passes."""

    def __init__(self, emulation: Emulation, accounting: Path, truth: Path) -> None:
        """Create the directories under ``accounting`` and the file ``truth``.

        Raises:
            EmulatorError: they cannot be written, or a log is there already.
        """
        self.progress = Progress(emulation.plan.start)
        self._truth = truth
        self._clusters = []
        for cluster in emulation.clusters:
            directory = accounting / cluster.name
            make_empty(directory)
            entries, truths = deque(emulation.entries[cluster.name]), deque(emulation.truths[cluster.name])
            self._clusters.append((directory, cluster.utc_offset_s, entries, truths))
        try:
            truth.parent.mkdir(parents=True, exist_ok=True)
            truth.write_text(",".join(column.name for column in fields(Truth)) + "\n", encoding="utf-8")
        except OSError as error:
            raise EmulatorError(f"{truth}: {error.strerror}: give a file that can be written") from error

    def write_until(self, reached: int) -> None:
        """Write everything before ``reached`` that is not yet written."""
        for directory, utc_offset_s, entries, truths in self._clusters:
            ended = []
            while truths and truths[0].end < reached:
                ended.append(astuple(truths.popleft()))
            with self._truth.open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(ended)
            lines = []
            while entries and entries[0].time < reached:
                lines.append(entries.popleft())
            append(directory, utc_offset_s, lines)
        self.progress.reached = reached


def play(
    emulation: Emulation,
    delivery: Delivery,
    output: Output,
    report: Callable[[Progress], None],
    live: Live | None = None,
) -> None:
    """Play to the end as fast as possible, but in real time from the present of ``live`` on.

    ``report`` is called after each acknowledgement. Raises EmulatorError if the delivery fails.
    """
    progress = output.progress
    ahead: deque[tuple[int, Group]] = deque()

    def settle(timeout_s: float | None) -> None:
        until, group = ahead[0]
        if delivery.wait(group, timeout_s):
            ahead.popleft()
            output.write_until(until)
            report(progress)

    for until in _slices(emulation, live):
        if live is not None and until > live.since:
            if not live.caught_up:
                while ahead:
                    settle(None)
                live.caught_up = True
                live.at_present(progress)
            while (left := until - time.time()) > 0:
                if ahead:
                    settle(left)
                else:
                    time.sleep(min(left, 0.2))
        ahead.append((until, _send_slice(emulation, delivery, until, progress)))
        while len(ahead) > 1 and (len(ahead) > _SLICES_AHEAD or all(one.done() for one in ahead[0][1])):
            settle(None)
    while ahead:
        settle(None)


def _slices(emulation: Emulation, live: Live | None) -> Iterator[int]:
    """Yield the ends of the time slices that are sent as a whole."""
    plan = emulation.plan
    present = plan.end if live is None else live.since
    readings = max(1, int(emulation.batch_readings * _REGULAR_SHARE))
    yield from range(plan.start + readings * plan.interval_s, present, readings * plan.interval_s)
    yield present
    step = max(1, plan.interval_s // 4)  # in real time, like agents: soon after each reading
    yield from range(present + step, plan.end + 1, step)


def _send_slice(emulation: Emulation, delivery: Delivery, until: int, progress: Progress) -> Group:
    group: Group = []
    for key, station in enumerate(emulation.stations):
        for columns in station.reader.advance(until):
            progress.readings_made += len(columns)
            group += delivery.send(key, station.pack(columns))
    progress.readings_lost_on_purpose = sum(station.reader.lost for station in emulation.stations)
    return group
