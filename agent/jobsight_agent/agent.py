"""The agent: reads the node at every interval and for job hooks, fills batches and hands them to the pusher."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from jobsight_agent import __version__
from jobsight_agent.batch import AgentCost, in_batches, machine_to_wire, pack, to_columns, to_wire
from jobsight_agent.config import Config
from jobsight_agent.control import ControlSocket
from jobsight_agent.counters import make_reader
from jobsight_agent.hooks import MarkFiles, checked_request
from jobsight_agent.log import Log
from jobsight_agent.machine import OwnerWatch, benchmark_flops, read_facts
from jobsight_agent.push import Pusher, TroubleReport
from jobsight_agent.reading import EVENTS, Mark, Reading
from jobsight_agent.send import Target
from jobsight_agent.spool import Spool

_GIVE_UP_S = 5.0
_BATCHES_IN_MEMORY = 10  # on a full disk
_PACKED_READING_BYTES = 64
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Reader(Protocol):
    """Takes readings of a node."""

    def read(self, mark: Mark | None = None) -> Reading:
        """Read the node."""
        ...


class Agent:
    """One agent; ``run`` returns once it is stopped and has sent all it can."""

    def __init__(self, config: Config, reader: Reader | None = None, clock: Callable[[], float] = time.time) -> None:
        self._config, self._clock = config, clock
        self._reader = reader or make_reader(config)
        self._node = config.node or short_host_name()
        self._spool = Spool(
            Path(config.spool),
            int(config.spool_megabytes * 1e6),
            config.spool_hours * 3600,
            clock,
            reserve_bytes=256 * 1024 + _BATCHES_IN_MEMORY * config.batch * _PACKED_READING_BYTES,
        )
        self._reading = threading.Lock()  # the loop and job hooks share the reader
        self._lock = threading.Lock()  # they share the spool and the open batch; the pusher uses the spool too
        self._control = ControlSocket(self._spool.directory, self._answer)
        target = Target(
            config.server,
            Path(config.token_file),
            Path(config.ca_file) if config.ca_file else None,
            backoff_most_s=config.backoff_most_s,
        )
        self._pusher = Pusher(self._spool, target, self._lock, random.Random())
        self._open: list[Reading] = []
        self._opened_at = 0.0
        self._introduced = False
        self._facts = read_facts(Path(config.host_root), config.scratch, flops=benchmark_flops())
        self._owner = OwnerWatch(config.owner, config.owner_load)
        self._readings = 0
        self._missed = 0
        self._cgroups = 0
        self._metrics_missed: Counter[str] = Counter()
        self._log = Log()
        self._marks = MarkFiles(self._spool.marks, self._spool.directory / "damaged", self._log)
        self._trouble = TroubleReport(self._log, self._spool, self._pusher)

    def run(self, wait: Callable[[float], bool]) -> None:
        """Read until ``wait``, which pauses for some seconds, returns True."""
        with self._lock:
            self._open = self._spool.leftover()
        if self._open:
            self._marks.forget(self._open)
            self._close()
        self._marks.forget_unfinished()
        self._pusher.start()
        self._pusher.wake()
        self._listen()
        interval = self._config.interval
        due = time.monotonic()
        stopped = False
        while not stopped:
            self._take()
            due += interval
            late = time.monotonic() - due
            if late > 0:
                skipped = int(late / interval) + 1
                self._missed += skipped
                due += skipped * interval
            stopped = wait(max(0.0, due - time.monotonic()))
        self._control.stop()
        self._take()
        self._close(last=True)
        self._pusher.finish(_GIVE_UP_S)
        self._spool.note_error(self._pusher.last_error)
        if self._open:
            self._close(last=True)  # sending has freed space
        if self._open:
            self._log.say(f"{len(self._open)} readings lost: cannot write to the spool")
        self._trouble.say()
        self._spool.release()

    def _listen(self) -> None:
        try:
            self._control.start()
        except OSError as error:
            self._log.say(f"cannot open a socket in {self._spool.directory}: {error}; job hooks leave files instead")

    def _answer(self, request: str) -> str:
        """Answer a request on the control socket; the answer begins with ``ok`` or ``no:``."""
        verb, _, rest = request.partition(" ")
        try:
            if verb in EVENTS:
                return self._mark(verb, rest)
            if verb == "resend":
                with self._lock:
                    count = self._spool.resend()
                self._pusher.wake()
                return f"ok {count}"
            if verb == "status":
                return f"ok {json.dumps(self._status())}"
        except OSError as error:
            return f"no: {error}"
        return f"no: unknown request {verb[:40]!r}"

    def _mark(self, event: str, request: str) -> str:
        """Take a reading for a job hook at once; it is on disk when the hook gets its answer."""
        try:
            mark = checked_request(event, request)
        except ValueError as error:
            with self._lock:
                self._metrics_missed["mark"] += 1
            return f"no: {error}"
        with self._reading:
            reading = self._reader.read(mark)
        with self._lock:
            self._keep([reading])
        return "ok"

    def _status(self) -> dict[str, object]:
        """Return the figures of ``jobsight-agent status``."""
        with self._lock:
            return {
                "cluster": self._config.cluster,
                "node": self._node,
                "server": self._config.server,
                "readings": self._readings,
                "readings_missed": self._missed,
                "job_cgroups": self._cgroups,
                "batches_accepted": self._pusher.accepted,
                "batches_waiting": self._spool.waiting,
                "batches_rejected": self._spool.refused,
                "batches_dropped": self._spool.dropped + self._spool.damaged,
                "send_failures": self._pusher.failures,
                "requests_refused": self._control.refused,
                "last_error": self._pusher.last_error,
                "last_rejection": self._pusher.last_refusal or None,
            }

    def _introduce(self, reading: Reading) -> None:
        """Log the names and the address in use, so that a wrong one is noticed at once."""
        config = self._config
        ports = ", ".join(port.name for port in reading.interfaces) or "no network interface, so no bandwidth"
        self._log.say(
            f"{self._node} of cluster {config.cluster}: {ports}; every {config.interval:g} s to {config.server}"
        )
        if reading.uncounted:
            self._log.say(f"{', '.join(reading.uncounted)} count no bytes: bandwidth is a lower bound")
        for metric in dict.fromkeys(reading.missed):
            self._log.say(f"{metric} cannot be read under {config.host_root}")

    def _take(self) -> None:
        marks, damaged = self._marks.left()
        with self._reading:
            reading = self._reader.read()
        if not self._introduced:
            self._introduced = True
            self._introduce(reading)
        with self._lock:
            self._keep([mark for _, mark in marks] + [reading])
            full = len(self._open) >= self._config.batch
            due = full or time.monotonic() - self._opened_at >= self._config.batch_age_s
        for file, _ in marks:
            self._marks.remove(file)
        for file in damaged:
            self._metrics_missed["mark"] += 1
            self._marks.set_aside(file)
        if due:
            self._close()
            self._pusher.wake()
        self._trouble.say()

    def _keep(self, readings: Sequence[Reading]) -> None:
        """Add readings to the open batch. Needs the lock."""
        if not self._open:
            self._opened_at = time.monotonic()
        for new in readings:
            self._open.append(new)
            self._owner.see(new)
            try:
                self._spool.note(new)
            except OSError:  # a full disk: the reading lives in memory until its batch is closed
                self._metrics_missed["journal"] += 1
            self._metrics_missed.update(new.missed)
            self._cgroups = len(new.jobs)
        self._readings += len(readings)

    def _close(self, *, last: bool = False) -> None:
        """Close the open readings, as several batches if one cannot hold them. ``last``: the agent is stopping."""
        sent_at = round(self._clock(), 3)
        with self._lock:
            machine = machine_to_wire(self._facts, self._owner.now(), self._open[-1].boottime_s if self._open else None)
            bodies = [
                pack(
                    to_wire(
                        to_columns(group),
                        cluster=self._config.cluster,
                        node=self._node,
                        sequence=number,
                        sent_at=sent_at,
                        cost=self._cost(),
                        machine=machine,
                    ),
                    self._config.gzip_level,
                )
                for number, group in enumerate(in_batches(self._open), self._spool.next_sequence)
            ]
            try:
                self._spool.close_batches(bodies, last=last)
            except OSError as error:
                self._keep_open(error)
            else:
                self._open = []

    def _keep_open(self, error: OSError) -> None:
        """Keep the readings in memory, up to ten batches' worth: the spool could not be written."""
        excess = max(0, len(self._open) - _BATCHES_IN_MEMORY * self._config.batch)
        del self._open[:excess]
        self._missed += excess
        waiting = f"{len(self._open)} readings held in memory, {self._missed} lost so far"
        self._log.once_a_minute("spool", f"cannot write to the spool: {error}; {waiting}")

    def _cost(self) -> AgentCost:
        return AgentCost(
            version=__version__,
            cpu_seconds=round(time.process_time(), 3),
            rss_bytes=resident_bytes(),
            readings=self._readings,
            readings_missed=self._missed,
            metrics_missed=self._metrics_missed,
            batches_spooled=self._spool.waiting,
            batches_dropped=self._spool.dropped + self._spool.damaged,
            batches_refused=self._spool.refused,
            send_failures=self._pusher.failures,
        )


def short_host_name() -> str:
    """Return the node's name as schedulers write it.

    >>> "." in short_host_name()
    False
    """
    return socket.gethostname().partition(".")[0] or "localhost"


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - once per batch, and without pathlib's cost
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0
