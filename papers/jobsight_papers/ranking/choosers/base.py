"""What every rank may see of the grid, and what it is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.ranking.machines import Ints
from jobsight_predictor.reliability.resource_vector import Floats


@dataclass(frozen=True, slots=True)
class GridView:
    """Machines by number: speed, whether free, since when free, and since when available (NaN: not)."""

    speed: Floats
    free: NDArray[np.bool_]
    free_since_s: Floats
    since_s: Floats


def new_view(speed: Floats) -> GridView:
    """No machine is available."""
    count = len(speed)
    return GridView(speed, np.zeros(count, np.bool_), np.zeros(count), np.full(count, np.nan))


@dataclass(frozen=True, slots=True)
class Observed:
    """Sessions seen before the first job, each of shape (sessions,): machine, begin, end or how far it was seen, and
    whether it ended.
    """

    machine: Ints
    begin_s: Floats
    end_s: Floats
    ended: NDArray[np.bool_]


class Chooser:
    """Chooses a machine for each job, and is informed of what happens. It never sees what is still to come."""

    def __init__(self, view: GridView) -> None:
        self.view = view

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        """One of ``candidates``, machine numbers in ascending order, at least one. Ties: the lowest."""
        raise NotImplementedError

    def returned(self, machine: int, begin_s: float) -> None:
        """The machine is available since ``begin_s``."""

    def left(self, machine: int, begin_s: float, end_s: float) -> None:
        """The machine was available from ``begin_s`` until its owner came at ``end_s``."""

    def finished(self, machine: int) -> None:
        """A job completed on the machine."""

    def evicted(self, machine: int) -> None:
        """A job lost the machine."""
