"""A run's use in the log of metrics without a column of their own in ``jobs``, as stored there."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_decode = msgspec.json.Decoder(dict[str, float]).decode


def used_text(used: Mapping[str, float]) -> str | None:
    """Return metric -> use of the whole job, as JSON with sorted names; None if there is none."""
    return msgspec.json.encode(used, order="sorted").decode() if used else None


def used_of(text: str | None) -> dict[str, float]:
    """Parse the output of ``used_text``."""
    return {} if text is None else _decode(text)
