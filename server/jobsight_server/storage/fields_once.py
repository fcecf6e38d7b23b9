"""JSON from outside names each field of an object once: readers disagree on which of two values counts."""

from __future__ import annotations

import json
from typing import Any


def check_fields_once(body: bytes | bytearray) -> None:
    """Check a valid JSON text.

    Raises:
        ValueError: an object has a field twice; the message names it.
        RecursionError: it is nested too deeply.
    """
    json.loads(
        body, strict=False, object_pairs_hook=_check, parse_int=_ignore, parse_float=_ignore, parse_constant=_ignore
    )


def _check(fields: list[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in fields:
        if name in names:
            raise ValueError(f"the field {name[:60]!r} is given twice; send it once")
        names.add(name)


def _ignore(_text: str) -> None:
    """Numbers are not needed, and may have any number of digits."""
