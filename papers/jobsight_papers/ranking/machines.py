"""The machines of the emulated campus: three classes, 4 + 538 + 4, in departments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.reliability.resource_vector import Floats

HOUR_S = 3600.0
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MachineClass:
    """``count`` machines alike. ``speed`` is that of a core relative to the Windows machines', and ours."""

    count: int
    speed: float
    owned: bool


CLASSES = (
    MachineClass(4, 2.0, owned=False),  # Linux
    MachineClass(538, 1.0, owned=True),  # Windows
    MachineClass(4, 1.5, owned=False),  # Linux
)
DEPARTMENTS = 8


@dataclass(frozen=True, slots=True)
class CampusMachines:
    """n machines by number: speed, department (0 is the one without owners), and whether owners come."""

    speed: Floats
    department: Ints
    owned: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.speed)


def campus_machines(rng: np.random.Generator, speed_sigma: float = 0.0) -> CampusMachines:
    """The classes in order of numbers; owned machines are dealt to the departments in turn.

    ``speed_sigma`` is the spread of the logarithm of speed among owned machines: 0 is one speed per class.
    """
    counts = [each.count for each in CLASSES]
    owned = np.repeat([each.owned for each in CLASSES], counts)
    speed = np.repeat([each.speed for each in CLASSES], counts)
    spread = np.exp(rng.normal(0.0, 1.0, len(speed)) * speed_sigma)
    department = np.where(owned, 1 + np.cumsum(owned) % DEPARTMENTS, 0).astype(np.int64)
    return CampusMachines(np.where(owned, speed * spread, speed), department, owned)
