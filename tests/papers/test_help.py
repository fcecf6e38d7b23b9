"""``--help`` of each paper, and of the commands that simulate: there, and without loading what only a run needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobsight_papers.__main__ import PAPERS

HEAVY = ("pandas", "scipy.stats", "statsmodels", "matplotlib")


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", [f"jobsight_papers {name}" for name in PAPERS] + ["jobsight_server.cli simulate"])
def test_help_is_there_at_once(program: str) -> None:
    module, name = program.split()
    code = (
        "import sys, runpy, atexit\n"
        f"atexit.register(lambda: print('loaded', *({HEAVY!r} & sys.modules.keys())))\n"
        f"sys.argv[1:] = [{name!r}, '--help']\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    ).replace(repr(HEAVY), repr(set(HEAVY)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
    assert done.stdout.splitlines()[-1].strip() == "loaded"
