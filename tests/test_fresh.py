"""``tests/fresh`` says why it cannot make a bare machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FRESH = Path(__file__).parent / "fresh"


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ({"id": "echo 1000"}, "tests/fresh: only root can make a bare machine; run it as root\n"),
        ({"id": "echo 0", "unshare": "exit 1"}, "tests/fresh: unshare is not allowed here, as in most containers"),
        ({"id": "echo 0", "unshare": ""}, "tests/fresh: neither mmdebstrap nor apt-get is here; install mmdebstrap\n"),
        ({"id": "echo 0", "unshare": "", "apt-get": "exit 1"}, "tests/fresh: apt-get cannot install mmdebstrap"),
        ({"id": "echo 0", "unshare": "", "mmdebstrap": "exit 1"}, "tests/fresh: mmdebstrap cannot make a Debian 12"),
    ],
)
def test_where_no_machine_can_be_made_it_says_why(tmp_path: Path, commands: dict[str, str], said: str) -> None:
    for name in ("bash", "sh", "dirname", "mkdir", "rm", "flock", "grep", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or "missing")
    for name, text in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [FRESH, "true"], env={"PATH": str(tmp_path), "FRESH": str(tmp_path / "machines")}, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)


def test_without_a_command_it_says_what_it_takes() -> None:
    done = subprocess.run([FRESH], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tests/fresh [-u] COMMAND...\n")
    assert done.stderr.endswith("in ${FRESH:-/var/tmp/fresh}.\n")
