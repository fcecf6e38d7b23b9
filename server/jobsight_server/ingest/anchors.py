"""The counters that each stored batch keeps, so that another one can be continued from it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from jobsight_server.ingest.counters import State
from jobsight_server.ingest.wire import Interface


class Anchor(Struct):
    """The counters after the first and the last reading of a batch, and the interfaces they belong to."""

    first: State
    last: State
    interfaces: list[Interface]


_decoder = msgspec.json.Decoder(Anchor)


def dump_anchor(anchor: Anchor) -> str:
    """``anchor`` as JSON text."""
    return msgspec.json.encode(anchor).decode()


def load_anchor(text: str) -> Anchor | None:
    """What ``dump_anchor`` wrote; None where release 0.1 stored one that cannot be read again."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None
