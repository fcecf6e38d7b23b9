"""Facts of machines, and which machines meet the hard requirements of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .rank import Bools


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What a machine offers, None where that is unknown; or what a job requires, None where it requires nothing."""

    system: str | None = None
    memory_bytes: float | None = None
    storage_bytes: float | None = None
    interconnect: str | None = None


class FactTable:
    """Facts of n machines by column, so that 10,000 machines are searched in well under a millisecond."""

    def __init__(self, machines: Sequence[MachineFacts]) -> None:
        amounts = [(one.memory_bytes, one.storage_bytes) for one in machines]
        self._amounts = np.array(amounts, dtype=np.float64).reshape(len(machines), 2).T
        names = [((one.system or "").lower(), (one.interconnect or "").lower()) for one in machines]
        self._names = np.array(names, dtype=np.str_).reshape(len(machines), 2).T

    def meeting(self, needs: MachineFacts) -> Bools:
        """Which machines meet ``needs``, shape (n,). Names are compared without regard to case.

        An unknown fact meets no requirement.
        """
        met = np.ones(self._amounts.shape[1], dtype=np.bool_)
        for column, least in zip(self._amounts, (needs.memory_bytes, needs.storage_bytes), strict=True):
            if least is not None:
                met &= column >= least
        for names, wanted in zip(self._names, (needs.system, needs.interconnect), strict=True):
            if wanted is not None:
                met &= (names == wanted.lower()) & (names != "")
        return met
