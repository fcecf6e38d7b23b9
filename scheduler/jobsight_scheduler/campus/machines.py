"""The machines of the emulated campus: three classes, 4 + 538 + 4, in departments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.reliability.machine_facts import FactTable, MachineFacts, fact_table
from jobsight_predictor.reliability.resource_vector import Floats

GIB = 2.0**30
HOUR_S = 3600.0
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MachineClass:
    """``count`` machines alike. ``speed`` is that of a core relative to the Windows machines'; ours, as is memory."""

    name: str
    count: int
    speed: float
    owned: bool
    facts: MachineFacts


CLASSES = (
    MachineClass("linux-fast", 4, 2.0, False, MachineFacts("linux", 8.0 * GIB)),
    MachineClass("windows", 538, 1.0, True, MachineFacts("windows", 2.0 * GIB)),
    MachineClass("linux", 4, 1.5, False, MachineFacts("linux", 4.0 * GIB)),
)
DEPARTMENTS = 8


@dataclass(frozen=True, slots=True)
class CampusMachines:
    """n machines by number: speed, department (0 is the one without owners), whether owners come, and facts."""

    speed: Floats
    department: Ints
    owned: NDArray[np.bool_]
    facts: FactTable

    def __len__(self) -> int:
        return len(self.speed)


def campus_machines(
    rng: np.random.Generator, speed_sigma: float = 0.0, classes: tuple[MachineClass, ...] = CLASSES
) -> CampusMachines:
    """The classes in order of numbers; owned machines are dealt to the departments in turn.

    ``speed_sigma`` is the spread of the logarithm of speed among owned machines: 0 is one speed per class.
    """
    counts = [each.count for each in classes]
    owned = np.repeat([each.owned for each in classes], counts)
    speed = np.repeat([each.speed for each in classes], counts)
    spread = np.exp(rng.normal(0.0, 1.0, len(speed)) * speed_sigma)
    department = np.where(owned, 1 + np.cumsum(owned) % DEPARTMENTS, 0).astype(np.int64)
    facts = fact_table([each.facts for each in classes for _ in range(each.count)])
    return CampusMachines(np.where(owned, speed * spread, speed), department, owned, facts)
