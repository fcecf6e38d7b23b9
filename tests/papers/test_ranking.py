"""``python -m jobsight_papers ranking``: rows as documented, plots, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobsight_papers.__main__ import main
from jobsight_papers.ranking.runs import RankingCase, run_case

SMALL = ["ranking", "--sets", "2", "--seeds", "2", "--ranks", "first-come", "grv", "--workers", "2"]


@pytest.mark.exhaustive
def test_json_is_as_documented(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*SMALL, "--json", "--plot", str(tmp_path / "plots")]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["rank"] for row in rows] == ["first-come", "grv"]
    for row in rows:
        assert list(row) == [
            "set", "rank", "weights", "load", "seeds", "completed_share", "makespan_s", "lost_cpu_h", "mean_wait_s"
        ]  # fmt: skip
        assert (row["set"], row["weights"], row["load"], row["seeds"]) == (2, [0.33, 0.33, 0.33], 0.3, 2)
        share = row["completed_share"]
        assert 0.0 < share["mean"] < 1.0
        assert share["low"] < share["mean"] < share["high"]
        assert row["makespan_s"] > 86_400.0
        assert row["lost_cpu_h"] > 0.0
        runs = [run_case(RankingCase(2, row["rank"], seed=seed)) for seed in (0, 1)]
        assert share["mean"] == pytest.approx(sum(run["completed_share"] for run in runs) / 2)
        assert row["makespan_s"] == pytest.approx(sum(run["makespan_s"] for run in runs) / 2)
    assert rows[1]["completed_share"]["mean"] > rows[0]["completed_share"]["mean"]
    assert "<svg" in (tmp_path / "plots" / "sets.svg").read_text()
