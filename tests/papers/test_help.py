"""``--help`` of each paper, and of the commands that simulate: there, and without loading what only a run needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobsight_papers.__main__ import PAPERS, main

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


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--workers", "0", "0: give at least 1"),
        ("--out", "/nowhere/runs.jsonl", "there is no directory /nowhere; create it first"),
        ("--plot", __file__, "is a file; name a directory"),
    ],
)
def test_options_of_runs_are_checked_first(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["ranking", option, value])
    assert message in capsys.readouterr().err
