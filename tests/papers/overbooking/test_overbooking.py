"""``python -m jobsight_papers overbooking``: rows, gains, ranges of P_max, names of traces, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import make

from jobsight_papers.__main__ import main
from jobsight_papers.overbooking.command import parse_range
from jobsight_scheduler.workload.swf import FIELDS, Trace, write_swf
from jobsight_server.ground.errors import UserError

COUNT = 260


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs that use a tenth of their time or all of it, 1 to 10 nodes; some have no requested time, some are wide."""
    rng = np.random.default_rng(4)
    columns = {name: np.full(COUNT, -1.0) for name in FIELDS}
    requested = rng.choice([900.0, 7200.0, 40_000.0], COUNT)
    columns |= {
        "job": np.arange(1.0, COUNT + 1.0),
        "submit_s": np.arange(COUNT) * 100.0,
        "run_s": np.ceil(requested * rng.choice([0.1, 1.0], COUNT)),
        "processors": rng.integers(1, 11, COUNT).astype(float),
        "requested_s": requested,
        "user": rng.integers(0, 6, COUNT).astype(float),
    }
    columns["requested_s"][:5] = -1.0
    columns["processors"][-3:] = 500.0
    file = tmp_path_factory.mktemp("traces") / "Little-SDSC-BLUE-copy.swf.gz"
    write_swf(Trace(columns, ["MaxProcs: 16"]), file)
    return file


def found(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    return make.json_of(main, capsys, "overbooking", *arguments)


@pytest.mark.exhaustive
def test_rows_gains_and_pictures(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trace", trace, "--last", 40, "--nodes", 16, "--arrival", 0.1, "--seeds", 2, "--pmax", ".1:.3:.2"]
    names = ["conservative", "release", "filter-only", "release-filter", "simple", "time-slice", "jobsight"]
    account = found(capsys, *options, "--strategy", *names, "--workers", 1, "--plot", tmp_path / "plots")
    rows = {(row["strategy"], row["pmax"]): row for row in account["rows"] if row["trace"] == "BLUE"}
    assert list(rows) == [(name, pmax) for name in names for pmax in (0.1, 0.3)]
    # Sizes of BLUE are processors; in nodes of 8, no job is wider than the machine but those of 500.
    in_nodes = [row for row in account["rows"] if row["trace"] == "BLUE in nodes of 8"]
    assert all(row["rejected"]["wider than the machine"] == 3 for row in in_nodes)
    assert in_nodes[0]["accepted"] >= rows["conservative", 0.1]["accepted"]
    for row in [row for row in account["rows"] if row not in in_nodes]:
        assert (row["trace"], row["seeds"]) == ("BLUE", 2)  # by the file's name, whatever else is in it
        assert row["net_hours"]["low"] <= row["net_hours"]["mean"] <= row["net_hours"]["high"]
        assert row["net_jobs"]["mean"] == row["successful_jobs"]["mean"] - row["failed_jobs"]["mean"]
        assert row["rejected"]["wider than the machine"] == 3
        assert row["accepted"] + sum(row["rejected"].values()) == 40
        assert set(row) >= {"node_hours", "predicted_failure", "observed_failure"}
    assert {**rows["release", 0.1], "pmax": 0} == {**rows["release", 0.3], "pmax": 0}
    assert rows["release", 0.1]["accepted"] >= rows["conservative", 0.1]["accepted"]
    # No job of these is risky for its width at .1: without anything to refuse, the filter changes nothing.
    assert {**rows["release-filter", 0.1], "strategy": "release"} == rows["release", 0.1]
    gain = next(gain for gain in account["gains"] if (gain["strategy"], gain["pmax"]) == ("jobsight", 0.3))
    difference = rows["jobsight", 0.3]["net_hours"]["mean"] - rows["release", 0.1]["net_hours"]["mean"]
    assert gain["release"]["net_hours"]["mean"] == pytest.approx(difference)
    note = account["jobs"][0]
    assert note["counts"] == {"in the trace": COUNT, "learned from": COUNT - 45, "offered": 40, "cut": 0}
    assert note["dropped"] == {"without a requested time": 5}
    drawn = {file.name for file in (tmp_path / "plots").iterdir()}
    assert drawn > {"figure-2-3-BLUE.svg", "figures-4-21-BLUE.svg", "calibration-BLUE.svg"}
    assert all("</svg>" in (tmp_path / "plots" / name).read_text() for name in drawn)


def test_ranges_of_pmax() -> None:
    assert parse_range(".05:.2:.05") == [0.05, 0.1, 0.15, 0.2]
    assert len(parse_range(".05:1:.05")) == 20
    assert parse_range(".1,.3,.1") == [0.1, 0.3]
    for bad in ("", "a", ".1:.2", "0:1:0", "nan", "-.1", "1.5", "0:1:1e-30", ".2:.1:.1"):
        with pytest.raises(UserError, match="--pmax"):
            parse_range(bad)
