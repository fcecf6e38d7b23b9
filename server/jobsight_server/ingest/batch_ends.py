"""The counters stored with each batch, so that another one can continue from it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from jobsight_server.ingest.counter_state import CounterState
from jobsight_server.ingest.wire import BatchInterface


class BatchEnds(Struct):
    """The counters after the first and last reading of a batch, and the interfaces they belong to."""

    first: CounterState
    last: CounterState
    interfaces: list[BatchInterface]


_decoder = msgspec.json.Decoder(BatchEnds)


def dump_ends(ends: BatchEnds) -> str:
    """``ends`` as JSON text."""
    return msgspec.json.encode(ends).decode()


def load_ends(text: str) -> BatchEnds | None:
    """Parses the output of ``dump_ends``; None if release 0.1 stored one that cannot be parsed."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None
