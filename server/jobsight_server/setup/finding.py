"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``good`` is None for what is optional but worth knowing; ``todo`` says what to do about it."""

    what: str
    good: bool | None
    todo: str = ""
