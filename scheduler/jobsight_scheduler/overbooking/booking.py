"""A job in the plan, and a place where one could be booked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.runtime.accuracy import RuntimeAccuracy

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobOffer:
    """A job that asks for ``nodes`` processors for ``requested_h`` hours, between release and deadline (hours).

    ``charge`` is earned if it succeeds, ``penalty`` paid if it was accepted and fails.

    Raises:
        ValueError: a number is out of range.
    """

    job: int
    nodes: int
    requested_h: float
    release_h: float
    deadline_h: float
    accuracy: RuntimeAccuracy
    charge: float
    penalty: float

    def __post_init__(self) -> None:
        if not (self.nodes > 0 and 0.0 < self.requested_h < np.inf):
            raise ValueError(f"job {self.job}: {self.nodes} nodes for {self.requested_h} hours; give positive numbers")
        if not (np.isfinite(self.release_h) and self.release_h < self.deadline_h < np.inf):
            raise ValueError(
                f"job {self.job}: released at {self.release_h} h, deadline {self.deadline_h} h; "
                "give a deadline after the release"
            )


@dataclass(frozen=True, slots=True)
class BookingPlace:
    """Processors that are free from ``start_h`` until ``end_h``: next booking, deadline, or end of the requested time.

    ``predecessors`` and ``successors`` are the job numbers of the last booking before and the first one after the place
    on each processor, each once; those that have ended are no predecessors, but their booked time is not free.
    """

    start_h: float
    end_h: float
    processors: Ints
    predecessors: tuple[int, ...]
    successors: tuple[int, ...]


class Booking:
    """An accepted job in the plan. It occupies its processors from ``from_h`` until ``until_h``.

    ``from_h`` is the planned start until the job starts, then its start. ``pof`` is the predicted probability of
    failure at its acceptance.
    """

    __slots__ = ("end_h", "from_h", "has_ended", "machine", "offer", "place", "pof", "started_h", "until_h")

    def __init__(self, offer: JobOffer, place: BookingPlace, pof: float, machine: float = 1.0) -> None:
        self.offer = offer
        self.place = place
        self.pof = pof
        self.machine = machine
        """P_available times P_success."""
        self.from_h = place.start_h
        self.until_h = place.end_h
        self.end_h = place.end_h
        """Last instant at which the job may still run."""
        self.started_h: float | None = None
        self.has_ended = False

    @property
    def is_overbooked(self) -> bool:
        """Whether its gap is shorter than its requested time, if it starts as planned."""
        return self.end_h < self.from_h + self.offer.requested_h
