"""`make accuracy` on small traces of its own: the document is whole, the same each time, and says what is missing."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TRACES = {
    "LANL-CM5-1994-4.1-cln.swf.gz": 1,
    "METACENTRUM-2009-2.swf.gz": 2,
    "UniLu-Gaia-2014-2.swf.gz": 3,
    "KTH-SP2-1996-2.1-cln.swf.gz": 4,
    "SDSC-SP2-1998-4.2-cln.swf.gz": 5,
    "nextflow/eager.swf.gz": 6,
    "nextflow/mag.swf.gz": 7,
}


def make(folder: Path, output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "accuracy.py"), "--output", str(output), *arguments]
    environment = os.environ | {"JOBSIGHT_TRACES": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def write_traces(folder: Path) -> None:
    """Each trace has a user 7 who switches every ten jobs, one with noise, and a few with two jobs."""
    for name, seed in TRACES.items():
        rng = np.random.default_rng(seed)
        lines = []
        for i in range(300):
            user = 7 if i % 3 == 0 else 8 if i % 3 == 1 else 10 + i % 40
            memory = {7: 1000 * (1 + 3 * (i // 30 % 2)), 8: rng.integers(100, 9000)}.get(user, 500)
            lines.append(f"{i} {100 * i} 0 50 4 20 {memory} 4 {rng.integers(60, 600)} 8000 1 {user} 1 {user} 1 1 -1 -1")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = [f"{vm},{21_600 * k},2,{100 * vm + k},{5 + vm},50" for k in range(40) for vm in range(4)]
    text = "vm,start,cores,bandwidth_bps,memory_bytes,cpu_percent\n" + "\n".join(rows)
    (folder / "bitbrains-rnd-2013-07-6h.csv.gz").write_bytes(gzip.compress(text.encode()))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_document_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    write_traces(tmp_path)
    outputs = [tmp_path / "a", tmp_path / "b"]
    for output in outputs:
        done = make(tmp_path, output)
        assert done.returncode == 0, done.stderr
    files = sorted(file.relative_to(outputs[0]) for file in outputs[0].rglob("*") if file.is_file())
    assert len(files) == 1 + 7 + 4
    for file in files:
        assert (outputs[0] / file).read_bytes() == (outputs[1] / file).read_bytes(), file
    text = (outputs[0] / "accuracy.md").read_text()
    assert "$" not in text
    for picture in re.findall(r"\]\((accuracy/[^)]+)\)", text):
        assert (outputs[0] / picture).exists()
    assert text.count("](accuracy/") == 11
    for words in ("user 7 of", "Curt Canada", "### UniLu-Gaia, memory", "### Bitbrains, bandwidth", "KTH-SP2"):
        assert words in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1
    # User 7's two levels are followed at the second job: the five jumps of the window are one miss each, or none.
    given = re.search(r"user 7 of [^:]*: ([0-9, ]+)", text)
    assert given is not None
    assert max(int(n) for n in given[1].split(",")) <= 2


@pytest.mark.exhaustive
def test_missing_traces_are_named(tmp_path: Path) -> None:
    done = make(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    for name in (*TRACES, "bitbrains-rnd-2013-07-6h.csv.gz", "JOBSIGHT_TRACES"):
        assert name in done.stderr
    assert make(tmp_path, tmp_path / "out", "--partial").returncode == 1
    assert not (tmp_path / "out").exists()
