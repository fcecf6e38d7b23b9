"""`benchmarks/constants.py` on small traces of its own, and its document beside the code."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TRACES = ("UniLu-Gaia-2014-2.swf.gz", "LANL-CM5-1994-4.1-cln.swf.gz")


def measure(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(ROOT / "benchmarks/constants.py"),
        "--state",
        str(folder / "state"),
        "--only",
        *names,
    ]
    environment = os.environ | {"JOBSIGHT_TRACES": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.exhaustive
def test_changes_are_measured_once_and_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name in TRACES:
        lines = [
            f"{i} {100 * i} 0 50 4 20 {rng.integers(100, 9000)} 4 100 8000 1 {i % 5} 1 {i % 5} 1 1 -1 -1"
            for i in range(300)
        ]
        (tmp_path / name).write_bytes(gzip.compress("\n".join(lines).encode()))
    done = measure(tmp_path, "TAIL", "SHOWN")
    assert done.returncode == 0, done.stderr
    found = {
        (line["by"], line["trace"]): line["effects"]
        for line in map(json.loads, (tmp_path / "state").read_text().splitlines())
    }
    assert set(found) == {(by, trace) for by in (0.5, 2.0) for trace in ("UniLu-Gaia", "LANL-CM5")}
    # The tail decides what is reserved. What is forecast does not depend on it.
    for trace in ("UniLu-Gaia", "LANL-CM5"):
        waste = [found[by, trace]["waste"]["change"] for by in (0.5, 2.0)]
        assert waste[0] != waste[1]
    assert all(effects["hit"] == {"change": 0.0, "error": 0.0} for effects in found.values())
    again = measure(tmp_path, "TAIL", "SHOWN")
    assert again.stdout.splitlines()[-30:] == done.stdout.splitlines()[-30:]
    assert len((tmp_path / "state").read_text().splitlines()) == 4


def test_missing_traces_are_named(tmp_path: Path) -> None:
    done = measure(tmp_path, "TAIL")
    assert done.returncode == 1
    assert all(name in done.stderr for name in (*TRACES, "JOBSIGHT_TRACES"))


def test_the_document_has_each_constant_with_its_present_value() -> None:
    text = (ROOT / "docs/develop/constants.md").read_text()
    package = ROOT / "predictor/jobsight_predictor"
    line = re.compile(r"^([A-Z_]+) = (.+?)  # [^;\n]+; ", re.MULTILINE)
    count = 0
    for file in [package / "forecasters/decayed_mode.py", *package.glob("profile/*.py")]:
        for name, value in line.findall(file.read_text()):
            assert f"| `{name}` | {value} |" in text or f"- `{name}` = {value} (" in text, f"{file.name}: {name}"
            count += 1
    assert count > 40
