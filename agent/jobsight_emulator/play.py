"""Plays an emulation: readings go to the server, then the accounting log grows to the time that they reach."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from jobsight_emulator.accounting import DayFiles
from jobsight_emulator.deliver import BatchGroup, Delivery
from jobsight_emulator.emulation import Emulation
from jobsight_emulator.plan import EmulatorError
from jobsight_emulator.truth import TruthFile

# Part of a batch that regular readings fill; the rest is room for those of job hooks.
_REGULAR_SHARE = 0.92
# Slices of time on their way to the server while the next one is made.
_SLICES_AHEAD = 2


@dataclass(slots=True)
class Progress:
    """How far the emulation has come; times are emulated, UTC epoch seconds."""

    start: int
    end: int
    reached: int
    batches_made: int = 0
    batches_duplicated_on_purpose: int = 0
    batches_late_on_purpose: int = 0
    readings_made: int = 0
    readings_lost_on_purpose: int = 0
    accounting_lines: int = 0
    jobs_ended: int = 0

    @property
    def fraction(self) -> float:
        """0..1: the share of the period whose readings are acknowledged."""
        return (self.reached - self.start) / (self.end - self.start)


@dataclass(slots=True)
class Live:
    """From ``since`` on (UTC epoch) it keeps pace with the clock; ``at_present`` is called when it gets there."""

    since: int
    at_present: Callable[[Progress], None]
    caught_up: bool = False


@dataclass(slots=True)
class Output:
    """The accounting directories and the truth file, written as time passes."""

    emulation: Emulation
    logs: dict[str, DayFiles]
    truth: TruthFile
    _next_entry: dict[str, int] = field(default_factory=dict)
    _next_truth: dict[str, int] = field(default_factory=dict)

    def write_until(self, reached: int, progress: Progress) -> None:
        """Everything that happened before ``reached`` and is not yet written."""
        for name, log in self.logs.items():
            truths = self.emulation.truths[name]
            begin = end = self._next_truth.get(name, 0)
            while end < len(truths) and truths[end].end < reached:
                end += 1
            self.truth.append(truths[begin:end])
            self._next_truth[name] = end
            progress.jobs_ended += end - begin
            entries = self.emulation.entries[name]
            position = self._next_entry.get(name, 0)
            while position < len(entries) and entries[position].time < reached:
                log.append(entries[position])
                position += 1
                progress.accounting_lines += 1
            log.flush()
            self._next_entry[name] = position
        progress.reached = reached


def open_output(stack: ExitStack, emulation: Emulation, accounting: Path, truth: Path) -> Output:
    """Creates the files under ``accounting`` and ``truth``; ``stack`` closes them. EmulatorError where it cannot."""
    logs = {}
    for cluster in emulation.clusters:
        log = DayFiles.create(accounting / cluster.name, cluster.utc_offset_s)
        stack.callback(log.close)
        logs[cluster.name] = log
    try:
        truth.parent.mkdir(parents=True, exist_ok=True)
        file = stack.enter_context(truth.open("w", encoding="utf-8", newline=""))
    except OSError as error:
        raise EmulatorError(f"{truth}: {error.strerror}: give a file that can be written") from error
    return Output(emulation, logs, TruthFile(file))


def play(
    emulation: Emulation,
    delivery: Delivery,
    output: Output,
    batch_readings: int,
    report: Callable[[Progress], None],
    live: Live | None = None,
) -> Progress:
    """Plays to the end as fast as possible, from the present of ``live`` on in real time.

    ``report`` is called whenever more was acknowledged. Raises EmulatorError when the delivery fails.
    """
    plan = emulation.plan
    progress = Progress(plan.start, plan.end, plan.start)
    ahead: deque[tuple[int, BatchGroup]] = deque()

    def settle(timeout_s: float | None) -> bool:
        until, group = ahead[0]
        if not delivery.wait(group, timeout_s):
            return False
        ahead.popleft()
        output.write_until(until, progress)
        report(progress)
        return True

    for until in _slices(emulation, batch_readings, live):
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
        group = BatchGroup()
        ahead.append((until, group))
        _send_slice(emulation, delivery, until, group, progress)
        while len(ahead) > 1 and (len(ahead) > _SLICES_AHEAD or ahead[0][1].outstanding == 0):
            settle(None)
    while ahead:
        settle(None)
    return progress


def _slices(emulation: Emulation, batch_readings: int, live: Live | None) -> Iterator[int]:
    """Ends of the slices of time that are sent as a whole."""
    plan = emulation.plan
    present = plan.end if live is None else live.since
    readings = max(1, int(batch_readings * _REGULAR_SHARE))
    yield from range(plan.start + readings * plan.interval_s, present, readings * plan.interval_s)
    yield present
    step = max(1, plan.interval_s // 4)  # at the present, as agents send: soon after each reading
    yield from range(present + step, plan.end + 1, step)


def _send_slice(emulation: Emulation, delivery: Delivery, until: int, group: BatchGroup, progress: Progress) -> None:
    for key, station in enumerate(emulation.stations):
        lost, late = station.reader.lost, station.packer.late
        for columns in station.reader.advance(until):
            batches = station.packer.pack(columns)
            progress.readings_made += len(columns)
            progress.batches_made += sum(not batch.again for batch in batches)
            progress.batches_duplicated_on_purpose += sum(batch.again for batch in batches)
            delivery.send(key, batches, group)
        progress.readings_lost_on_purpose += station.reader.lost - lost
        progress.batches_late_on_purpose += station.packer.late - late
