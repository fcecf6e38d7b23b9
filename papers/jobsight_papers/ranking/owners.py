"""The emulated campus: its machines, three classes in departments, and the hours of their owners."""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats, Integers

HOUR_S = 3600.0


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
    department: Integers
    owned: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.speed)


def campus_machines(rng: np.random.Generator, speed_sigma: float = 0.0) -> CampusMachines:
    """Number the machines by class, and deal owned ones to the departments in turn.

    ``speed_sigma`` is the spread of the logarithm of speed among owned machines: 0 is one speed per class.
    """
    counts = [each.count for each in CLASSES]
    owned = np.repeat([each.owned for each in CLASSES], counts)
    speed = np.repeat([each.speed for each in CLASSES], counts)
    spread = np.exp(rng.normal(0.0, 1.0, len(speed)) * speed_sigma)
    department = np.where(owned, 1 + np.cumsum(owned) % DEPARTMENTS, 0).astype(np.int64)
    return CampusMachines(np.where(owned, speed * spread, speed), department, owned)


WEEK_HOURS = 168
WEEK_S = WEEK_HOURS * HOUR_S


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """Owners come after idle times around a mean of the machine's own, lognormal over machines (``median_idle_h``,
    ``idle_sigma``), and stay for an exponential time of mean ``session_h``. Outside of a department's opening hours
    they come ``closed_share`` times as often as within; 1 is without opening hours. Idle times are Weibull of shape
    ``idle_shape``: below 1 most end early, and long ones last. ``prefer_fast``: a machine's idle
    times shrink with this power of its speed.
    """

    median_idle_h: float = 12.0
    idle_sigma: float = 1.0
    session_h: float = 2.5
    closed_share: float = 0.15
    prefer_fast: float = 0.0
    idle_shape: float = 1.0


@dataclass(frozen=True, slots=True)
class Availability:
    """Availability of each machine: ``begins[m][i]`` to ``ends[m][i]``, ascending. Times count from ``from_s``."""

    begins: list[Floats]
    ends: list[Floats]
    from_s: float
    to_s: float


def draw_availability(
    rng: np.random.Generator, machines: CampusMachines, settings: OwnerSettings, from_s: float, to_s: float
) -> Availability:
    """Draw the owners of all machines, from two weeks before ``from_s`` on, so that it begins in the steady state."""
    count = len(machines)
    mean_idle_h = settings.median_idle_h * np.exp(rng.normal(0.0, settings.idle_sigma, count))
    mean_idle_s = HOUR_S * mean_idle_h / machines.speed**settings.prefer_fast
    clocks, intensity = _clocks(rng, settings, from_s - 3.0 * WEEK_S, to_s + WEEK_S)
    now = np.full(count, from_s - 2.0 * WEEK_S)
    shape = settings.idle_shape
    mean = gamma(1.0 + 1.0 / shape)
    begins, ends = [], []
    while True:
        idle = np.where(machines.owned, rng.exponential(1.0, count) ** (1.0 / shape) / mean * mean_idle_s, np.inf)
        stay = rng.exponential(settings.session_h * HOUR_S, count)
        end = _later(now, idle, machines.department, clocks, intensity)
        begins.append(now)
        ends.append(end)
        now = end + stay
        if (now >= to_s).all():
            break
    all_begins, all_ends = np.stack(begins), np.stack(ends)
    keep = (all_ends > from_s) & (all_begins < to_s)
    return Availability(
        [all_begins[keep[:, machine], machine] for machine in range(count)],
        [all_ends[keep[:, machine], machine] for machine in range(count)],
        from_s,
        to_s,
    )


def _clocks(rng: np.random.Generator, settings: OwnerSettings, from_s: float, to_s: float) -> tuple[Floats, Floats]:
    """Return hours, shape (k,), and each department's owners' time elapsed by then, shape (departments, k).

    Owners' time passes at a mean of 1 over the week, faster in opening hours, drawn per department: weekdays, for some
    Saturdays too, from between 7 and 10 for 8 to 13 hours.
    """
    first = np.floor(from_s / HOUR_S)
    hours = np.arange(first, np.ceil(to_s / HOUR_S) + 1.0)
    of_week = (hours.astype(np.int64) + 72) % WEEK_HOURS
    passed = np.zeros((DEPARTMENTS + 1, len(hours)))
    passed[0] = hours * HOUR_S
    for department in range(1, DEPARTMENTS + 1):
        opens, lasts, days = rng.integers(7, 11), rng.integers(8, 14), 6 if rng.random() < 0.25 else 5
        is_open = (np.arange(WEEK_HOURS) % 24 >= opens) & (np.arange(WEEK_HOURS) % 24 < opens + lasts)
        rate = np.where(is_open & (np.arange(WEEK_HOURS) < 24 * days), 1.0, settings.closed_share)
        rate = (rate / rate.mean())[of_week]
        passed[department, 1:] = np.cumsum(rate[:-1]) * HOUR_S
    return hours * HOUR_S, passed


def _later(now: Floats, idle: Floats, department: NDArray[np.int64], clocks: Floats, passed: Floats) -> Floats:
    """Return the time ``idle`` seconds of owners' time after ``now``; infinite beyond the clocks."""
    found = np.full(len(now), np.inf)
    for number in range(len(passed)):
        of = (department == number) & np.isfinite(idle) & (now <= clocks[-1])
        target = np.interp(now[of], clocks, passed[number]) + idle[of]
        found[of] = np.interp(target, passed[number], clocks, right=np.inf)
    return found
