"""The cgroups that daemons leave on a machine."""

from __future__ import annotations

import errno
import time

from tests.system.slurm.settings import CGROUPS


def remove_cgroups(node: str, seconds: float = 30) -> None:
    """Remove the directories that a slurmd leaves, once processes that have ended are gone from them.

    Raises:
        OSError: something still runs in one.
    """
    deadline = time.monotonic() + seconds
    while tops := list(CGROUPS.glob(f"*/slurm_{node}")):
        try:
            for top in tops:
                for folder in sorted(top.rglob("*/"), key=lambda found: len(found.parts), reverse=True):
                    folder.rmdir()
                top.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
