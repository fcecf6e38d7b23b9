"""The schedulers that ``jobsight setup`` and ``jobsight check`` know: name -> its reader."""

from __future__ import annotations

from collections.abc import Callable

from jobsight_server.setup.places import Places
from jobsight_server.setup.schedulers import gridengine, pbs, slurm
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup

SCHEDULERS: dict[str, Callable[[Places], SchedulerSetup]] = {
    "slurm": slurm.read,
    "pbs": pbs.read_pbs,
    "torque": pbs.read_torque,
    "gridengine": gridengine.read,
}
