"""Facts of machines, and which machines meet the hard requirements of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .rank import Bools
from .resource_vector import Floats


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What a machine offers. What is unknown is None, or not among the ``compilers`` and ``libraries``."""

    system: str | None = None
    memory_bytes: float | None = None
    storage_bytes: float | None = None
    interconnect: str | None = None
    compilers: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HardRequirements:
    """What a machine must offer. None or empty asks for nothing; names are compared without regard to case."""

    system: str | None = None
    memory_bytes: float | None = None
    storage_bytes: float | None = None
    interconnect: str | None = None
    compilers: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FactTable:
    """Facts of n machines by column, so that 10,000 machines are searched in well under a millisecond."""

    memory_bytes: Floats
    storage_bytes: Floats
    names: Mapping[tuple[str, str], Bools] = field(repr=False)
    """By kind (``system``, ``interconnect``, ``compilers``, ``libraries``) and name in lower case: who offers it."""

    def __len__(self) -> int:
        return len(self.memory_bytes)

    def meeting(self, needs: HardRequirements) -> Bools:
        """Which machines meet ``needs``, shape (n,). An unknown fact meets no requirement."""
        met = np.ones(len(self), dtype=np.bool_)
        for column, least in ((self.memory_bytes, needs.memory_bytes), (self.storage_bytes, needs.storage_bytes)):
            if least is not None:
                met &= column >= least
        for key in _names(needs):
            offering = self.names.get(key)
            met &= np.False_ if offering is None else offering
        return met


def fact_table(machines: Sequence[MachineFacts]) -> FactTable:
    """The facts of ``machines`` by column."""
    names: dict[tuple[str, str], NDArray[np.bool_]] = {}
    for number, machine in enumerate(machines):
        for key in _names(machine):
            if key not in names:
                names[key] = np.zeros(len(machines), dtype=np.bool_)
            names[key][number] = True
    memory, storage = (
        np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        for values in ([one.memory_bytes for one in machines], [one.storage_bytes for one in machines])
    )
    return FactTable(memory, storage, names)


def _names(of: MachineFacts | HardRequirements) -> list[tuple[str, str]]:
    single = [("system", of.system), ("interconnect", of.interconnect)]
    many = [("compilers", name) for name in of.compilers] + [("libraries", name) for name in of.libraries]
    return [(kind, name.lower()) for kind, name in [*single, *many] if name is not None]
