"""Where an installation goes, and the command that is shown for it."""

from __future__ import annotations

import shlex
from pathlib import Path

from jobsight_server.setup.places import Places


def test_the_command_that_is_shown_installs_where_this_one_did() -> None:
    assert Places().command("slurm") == "jobsight setup slurm"
    for prefix in ("/opt/a trial", "/srv/x"):
        words = shlex.split(Places(prefix=Path(prefix)).command("slurm"))
        assert words == ["jobsight", "setup", "slurm", "--prefix", prefix]
