"""``python -m jobsight_papers coallocation``: files, interruptions, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import make

from jobsight_papers.__main__ import main

SMALL = ["--jobs", "80", "--scenarios", "100 Mb/s", "--seeds", "2", "--policies"]
SMALL += ["naive", "constant 20", "constant 40", "aware user", "aware means", "aware oracle"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return make.trace(tmp_path / "t.swf.gz")


@pytest.mark.exhaustive
def test_the_experiment_is_not_run_twice(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, plots = tmp_path / "runs.jsonl", tmp_path / "plots"
    arguments = ["coallocation", "--traces", trace, *SMALL, "--out", out]
    first = make.json_of(main, capsys, *arguments, "--workers", 2, "--plot", plots)
    assert first["runs"] == 14
    assert [row["policy"] for row in first["rows"]][:3] == ["none", "naive", "constant 20"]
    assert [row["against"] for row in first["worth"]] == ["best constant", "aware user", "aware oracle"]
    lines = out.read_text().splitlines()
    assert len(lines) == 14
    assert "</svg>" in (plots / "turnaround.svg").read_text()
    pictures = (plots / "turnaround.svg").read_bytes()
    # The last line is cut off, as by a power cut: that run alone is done again, to the same figures.
    out.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    again = make.json_of(main, capsys, *arguments, "--workers", 1, "--plot", plots)
    assert again["rows"] == first["rows"]
    assert len(out.read_text().splitlines()) == 15
    assert (plots / "turnaround.svg").read_bytes() == pictures
    assert main(list(map(str, arguments))) == 0
    shown = capsys.readouterr()
    assert "1 broken lines" in shown.err
    assert "14 runs of the first 80 jobs" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert len(out.read_text().splitlines()) == 15


def test_a_file_that_has_no_runs_is_refused(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("not a run\n")
    assert main(["coallocation", "--traces", str(trace), "--out", str(rubbish)]) == 1
    assert "none of its 1 lines is a run" in capsys.readouterr().err


def test_on_a_dask_cluster(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (group papers)")
    arguments = ["coallocation", "--traces", trace, *SMALL]
    here = make.json_of(main, capsys, *arguments, "--workers", 1, "--out", tmp_path / "here")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        there = make.json_of(main, capsys, *arguments, "--dask", cluster.scheduler_address, "--out", tmp_path / "there")
    assert there["rows"] == here["rows"]
