"""The stored counters of a node: those from which its next batch continues, and those at both ends of each batch."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from jobsight_server.ingest.wire import BatchInterface
from jobsight_server.storage.sample_columns import Totals


class CounterState(Totals, kw_only=True, omit_defaults=True):
    """The counters of a node after one reading.

    ``raw`` holds per interface the raw counters in and out and the time of their reading. ``raw_cpu`` was read at
    ``raw_cpu_time``, or at ``time`` where that is None.
    """

    boot_id: str
    time: float
    raw_cpu: float | None = None
    raw: dict[str, tuple[int, int, float]] = msgspec.field(default_factory=dict)
    raw_cpu_time: float | None = None


_state_decoder = msgspec.json.Decoder(CounterState)


def dump_state(state: CounterState) -> str:
    """Return ``state`` as JSON text."""
    return msgspec.json.encode(state).decode()


def load_state(text: str, time: float) -> CounterState:
    """Parse the output of ``dump_state``.

    Release 0.1 could store one that cannot be parsed (a busy time beyond the range of a double). The node then
    continues without counters at ``time``, its last reading: as after a reboot, the interval has no value.
    """
    try:
        return _state_decoder.decode(text)
    except msgspec.DecodeError:
        return CounterState(boot_id="", time=time)


class BatchEnds(Struct):
    """The counters after the first and last reading of a batch, and the interfaces they belong to."""

    first: CounterState
    last: CounterState
    interfaces: list[BatchInterface]

    def plus(self, amounts: Totals) -> BatchEnds:
        """Return the ends with ``amounts`` added to both."""
        return BatchEnds(self.first + amounts, self.last + amounts, self.interfaces)


_ends_decoder = msgspec.json.Decoder(BatchEnds)


def dump_ends(ends: BatchEnds) -> str:
    """Return ``ends`` as JSON text."""
    return msgspec.json.encode(ends).decode()


def load_ends(text: str) -> BatchEnds | None:
    """Parse the output of ``dump_ends``; None if release 0.1 stored one that cannot be parsed."""
    try:
        return _ends_decoder.decode(text)
    except msgspec.DecodeError:
        return None
