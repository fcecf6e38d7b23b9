"""The schedulers that ``jobsight setup`` and ``jobsight check`` know: name -> its functions."""

from __future__ import annotations

from collections.abc import Callable

from jobsight_server.setup.apply import Leave
from jobsight_server.setup.places import Places
from jobsight_server.setup.schedulers import gridengine, pbs, slurm
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup

SCHEDULERS: dict[str, tuple[Callable[[Places], SchedulerSetup], Leave]] = {
    "slurm": (slurm.read, slurm.leave),
    "pbs": (pbs.read_pbs, pbs.leave_pbs),
    "torque": (pbs.read_torque, pbs.leave_torque),
    "gridengine": (gridengine.read, gridengine.leave),
}
"""Name -> the functions that read a scheduler, and leave it at ``--remove``."""
