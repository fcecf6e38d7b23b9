"""The schedulers that ``jobsight setup`` and ``jobsight check`` know: name -> its functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobsight_server.setup.apply import Leave
from jobsight_server.setup.places import Places
from jobsight_server.setup.schedulers import gridengine, pbs, slurm
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The functions that read a scheduler, and leave it at ``--remove``."""

    read: Callable[[Places], SchedulerSetup]
    leave: Leave


SCHEDULERS = {
    "slurm": Scheduler(slurm.read, slurm.leave),
    "pbs": Scheduler(pbs.read_pbs, pbs.leave_pbs),
    "torque": Scheduler(pbs.read_torque, pbs.leave_torque),
    "gridengine": Scheduler(gridengine.read, gridengine.leave),
}
