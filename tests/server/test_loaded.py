"""A command loads what it uses: its packages are listed here, because each costs every start."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobsight_server.cli import main

# What the interpreter of this machine loads by itself is none of the command's: some have a ``sitecustomize``.
_MEASURED = """
import gc, sys
before = {name.partition(".")[0] for name in sys.modules}
from jobsight_server.cli import main
try:
    status = main()
except SystemExit as ended:
    status = ended.code
assert "sqlalchemy.dialects.postgresql" not in sys.modules
assert gc.isenabled()
loaded = {name.partition(".")[0] for name in sys.modules if not name.startswith("_")}
loaded |= {"learner"} & {name.removeprefix("jobsight_server.forecasts.") for name in sys.modules}
print("loaded", *sorted(loaded - before - sys.stdlib_module_names - {"cython_runtime"}))
sys.exit(status)
"""
_OURS = ["jobsight_predictor", "jobsight_server"]
_STORAGE = sorted([*_OURS, "msgspec", "rich", "sqlalchemy", "typing_extensions"])


LOG = Path(__file__).parents[2] / "examples" / "accounting" / "20261101"


@pytest.fixture(scope="module")
def site(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database of a site that has learned the jobs of ``LOG``."""
    url = f"sqlite:///{shutil.copy(migrated_file, tmp_path_factory.mktemp('site'))}"
    assert main(["import", "torque", str(LOG), "--cluster", "alpha", "--database", url]) == 0
    return url


@pytest.mark.parametrize(
    ("command", "packages"),
    [
        ("--help", ["jobsight_server"]),
        ("token list --database SITE", _STORAGE),
        ("import --help", ["jobsight_server", "msgspec", "typing_extensions"]),
        ("serve --help", sorted([*_OURS, "msgspec", "sqlalchemy", "typing_extensions"])),
        ("import torque LOG --cluster alpha --database SITE", [*_STORAGE, "learner", "numpy"]),
        ("predict --cluster alpha --user alice --database SITE", _STORAGE),
        ("seff 1000 --database SITE", [*_STORAGE, "numpy"]),
    ],
)
def test_a_command_loads_what_it_uses(command: str, packages: list[str], site: str) -> None:
    arguments = command.replace("LOG", str(LOG)).replace("SITE", site).split()
    done = subprocess.run([sys.executable, "-c", _MEASURED, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()[-1].split()) <= {"loaded", *packages}
