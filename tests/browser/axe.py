"""Gets axe-core from the npm registry, once, for tests only: it is not part of this repository."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

RELEASE = "axe-core@4.14.1"
SECONDS = 120.0


class NoAxeError(Exception):
    """There is none; the message says why."""


def find_axe(cache: Path) -> str:
    """The script, from ``cache``, where `npm pack` puts it the first time.

    Raises:
        NoAxeError: npm is missing, or cannot get it, as without a network.
    """
    packed = cache / f"{RELEASE.replace('@', '-')}.tgz"
    if not packed.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise NoAxeError("no npm, from which axe-core would come")
        command = [npm, "pack", "--silent", "--pack-destination", str(cache), RELEASE]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise NoAxeError(f"`npm pack {RELEASE}` was not done within {SECONDS:g} s") from error
        if done.returncode != 0 or not packed.exists():
            raise NoAxeError(f"`npm pack {RELEASE}` failed")
    with tarfile.open(packed) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()
