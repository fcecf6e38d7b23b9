"""The walk of an action through Jobsight: the modules of which a function runs, and the moves between them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Walk(dict[str, None]):
    """The modules entered, in order; ``moves`` counts calls of a function by one of another module."""

    moves = 0


@contextmanager
def entering() -> Iterator[Walk]:
    """The walk while the block runs, of this thread and of those that it starts."""
    entered = Walk()

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("jobsight_") and frame.f_code.co_name != "<module>":
            entered.setdefault(name)
            caller = "" if frame.f_back is None else frame.f_back.f_globals.get("__name__", "")
            entered.moves += caller != name and caller.startswith("jobsight_")

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
