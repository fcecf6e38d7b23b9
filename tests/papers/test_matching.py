"""``python -m jobsight_papers matching``: in process, and in small through HTTP on a whole server."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobsight_papers.__main__ import main
from jobsight_papers.matching.service import SIZES


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_small_run_in_process_and_through_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--batches", "1", "--rates", "500", "--deadline", "0.02", "--plot", str(tmp_path / "plots")]
    assert main(["matching", "--json", *flags]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["sizes"]
    assert account["shapes"]
    assert account["greedy"]

    means, batches = account["service"]["means"], account["service"]["batches"]
    assert [row["jobs"] for row in means] == list(SIZES)
    for row in means:
        assert row["client_s"] == pytest.approx(row["query_s"] + row["solve_s"] + row["rest_s"])
        assert row["jobs_per_minute"] == pytest.approx(60 * row["jobs"] / row["client_s"])
    for batch in batches:
        assert 0 < batch["matched"] <= batch["size"]
        assert batch["query_s"] + batch["solve_s"] + batch["store_s"] <= batch["client_s"]
    [run] = account["service"]["arrivals"]
    assert run["jobs"] == 83
    assert 0 < run["matched"] <= run["jobs"]

    for name in ("sizes", "greedy", "service"):
        assert ElementTree.parse(tmp_path / "plots" / f"{name}.svg").getroot().tag.endswith("svg")
