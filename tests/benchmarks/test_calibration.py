"""`benchmarks/calibration.py` on a small trace of its own, and its measures beside pandas."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from calibration_document import kept, put  # noqa: E402
from calibration_measures import EDGES, Statements, bins, differences, summary  # noqa: E402

JOBS = 400


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks/calibration.py"), *arguments]
    environment = os.environ | {"JOBSIGHT_TRACES": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def statements(n: int = 5000) -> Statements:
    rng = np.random.default_rng(4)
    stated = rng.choice([0.0, 0.02, 0.25, 0.8, 1.0], size=n)
    return Statements(stated, rng.uniform(size=n) < stated**2, np.arange(n))


def test_the_difference_is_that_of_bins() -> None:
    given = statements()
    frame = pd.DataFrame({"stated": given.stated, "came": given.came.astype(float)})
    means = frame.groupby(pd.cut(frame["stated"], [-1.0, *EDGES])).agg(["mean", "size"]).dropna()
    difference = (means["stated", "mean"] - means["came", "mean"]).abs()
    found = summary(given)
    assert found["mean_difference"] == pytest.approx(np.average(difference, weights=means["came", "size"]))
    assert found["worst"]["stated"] == pytest.approx(0.25)  # .25 - .0625 is more than .8 - .64
    assert abs(found["worst"]["came"] - 0.0625) < 0.03
    assert [line["jobs"] for line in bins(given.stated, given.came)] == means["came", "size"].tolist()
    assert found["chance"] < 0.01


def test_bursts_leave_more_to_chance() -> None:
    given = statements()
    few = Statements(given.stated, given.came, np.arange(len(given.stated)) // 500)
    assert summary(few)["chance"] > 5.0 * summary(given)["chance"]


@pytest.mark.exhaustive
def test_a_trace_is_replayed(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = []
    for i in range(JOBS):  # user 1 uses the same each time; the others anything
        used = 5000 if i % 2 else rng.integers(100, 9000)
        lines.append(f"{i} {100 * i} 0 50 4 20 {used} 4 100 8000 1 {1 if i % 2 else 2} 1 1 1 1 -1 -1")
    file = tmp_path / "nextflow/eager.swf.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    done = run(tmp_path, "--only", "eager", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["probability"]: row for row in json.loads(done.stdout)}
    assert set(rows) == {"sure", "exceeds"}
    assert all(sum(line["jobs"] for line in row["bins"]) == row["jobs"] <= JOBS for row in rows.values())
    # The jobs follow one another, so each is a burst of its own; half of the forecasts are certain.
    assert rows["sure"]["bursts"] == rows["sure"]["jobs"]
    certain = [line for line in rows["sure"]["bins"] if line["stated"] > 0.8]
    assert sum(line["jobs"] for line in certain) > 0.4 * JOBS
    assert all(line["came"] > 0.9 for line in certain)
    # Corrected, they are no worse than the regression's, which doubts them too long.
    assert rows["sure"]["plain"]["mean_difference"] != rows["sure"]["mean_difference"]
    missing = run(tmp_path, "--only", "mag")
    assert missing.returncode == 1
    assert "nextflow/mag.swf.gz" in missing.stderr


def test_the_documents_other_text_stays(tmp_path: Path) -> None:
    document = tmp_path / "accuracy.md"
    document.write_text("before\n<!-- calibration -->\nold\n<!-- end of calibration -->\nafter\n")
    row = {"trace": "T", "metric": "memory", "probability": "sure", **summary(statements())}
    row["plain"] = differences(statements())
    put(document, [row], 5000)
    text = document.read_text()
    assert text.startswith("before\n<!-- calibration -->\n")
    assert text.endswith("<!-- end of calibration -->\nafter\n")
    assert "old" not in text
    assert "| T | memory | 5,000 |" in text
    assert "in the mean: sure of T memory. By more than 0.05 in a bin: sure of T memory." in text
    assert text.count("calibration -->") == kept(text).count("calibration -->") == 2
