"""Finding and installing the browser, with stand-ins for the installer: real processes, no network."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from .chromium import NoChromiumError, check_driver, find_chromium

NOWHERE = {"PATH": "/nonexistent"}


def script(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_an_installed_chromium_is_used_and_nothing_is_installed(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    said: list[str] = []
    for environment in ({"PATH": str(tmp_path)}, {**NOWHERE, "JOBSIGHT_CHROMIUM": str(program)}):
        assert find_chromium(tmp_path / "none", said.append, environment, script("raise SystemExit(9)")) == program
    assert find_chromium(program, said.append, NOWHERE, script("raise SystemExit(9)")) == program
    assert said == []


def test_a_missing_chromium_is_installed_and_reported(tmp_path: Path) -> None:
    own = tmp_path / "browser"
    said: list[str] = []
    install = script(f"open({str(own)!r}, 'w').close()")
    assert find_chromium(own, said.append, NOWHERE, install) == own
    assert ["trying `playwright install chromium`" in said[0], said[1]] == [True, f"installed {own}"]


@pytest.mark.parametrize(
    ("code", "seconds", "why"),
    [
        ("print('no route to host'); raise SystemExit(3)", 60, "status 3: no route to host"),
        ("pass", 60, "it left nothing at"),
        ("import subprocess; subprocess.run(['sleep', '600'])", 2, "not done"),
    ],
)
def test_an_installation_that_fails_or_hangs_ends_in_a_reason(
    tmp_path: Path, code: str, seconds: int, why: str
) -> None:
    said: list[str] = []
    began = time.monotonic()
    with pytest.raises(NoChromiumError, match="no Chromium, and `playwright install chromium` failed"):
        find_chromium(tmp_path / "browser", said.append, NOWHERE, script(code), seconds)
    assert time.monotonic() - began < 60
    assert why in said[-1]


def test_a_driver_that_does_not_start_is_reported_with_its_reason() -> None:
    """As where its libraries are missing: the dynamic linker's line, and status 127."""
    lacking = script("import sys; print('node: libatomic.so.1: cannot open', file=sys.stderr); raise SystemExit(127)")
    with pytest.raises(NoChromiumError, match=r"does not start: status 127: node: libatomic\.so\.1: cannot open"):
        check_driver(lacking)
    check_driver(script("print('Version 1')"))
