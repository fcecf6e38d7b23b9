"""The modules of Jobsight that an action enters: those of which a function runs, imports aside."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def entering() -> Iterator[dict[str, None]]:
    """The modules entered while the block runs, in order, by this thread and those that it starts."""
    entered: dict[str, None] = {}

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("jobsight_") and frame.f_code.co_name != "<module>":
            entered.setdefault(name)

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
