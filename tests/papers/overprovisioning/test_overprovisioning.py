"""``python -m jobsight_papers overprovisioning``: rows, figures, choices, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import make
from tests.traces import trace as trace_of

from jobsight_papers.__main__ import main

COUNT = 400


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make.memory_trace(tmp_path_factory.mktemp("traces") / "t.swf.gz", COUNT)


EVERY_NAME = [
    "none", "smallest-node", "successive-approximation", "robust-search", "last-instance", "reinforcement",
    "regression", "jobsight", "jobsight-implicit", "oracle",
]  # fmt: skip


@pytest.mark.exhaustive
def test_rows_ratios_and_pictures(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trace", trace, "--classes", "4x32M,4x24M", "--second-mb", "16", "18", "24", "32", "--workers", "2"]
    options += ["--loads", "1.2", "0.5", "--estimators", *(name for name in EVERY_NAME if name != "regression")]
    account = make.json_of(main, capsys, "overprovisioning", *options, "--plot", tmp_path / "plots")
    assert (account["jobs"], account["groups"], account["dropped"]) == (COUNT, 40, {})
    assert len(account["rows"]) == 4 * 2 * 9
    asked = [row for row in account["rows"] if row["load"] == 1.2]
    rows = {(row["second_mb"], row["estimator"]): row for row in asked}
    for second in (16.0, 24.0):
        none, oracle = rows[second, "none"], rows[second, "oracle"]
        assert none["failed_share"] == none["lowered_share"] == oracle["failed_share"] == 0.0
        assert none["utilisation"] < 0.51  # half of the nodes are of no use
        assert oracle["utilisation"] > 1.5 * none["utilisation"]
        # Used 7 MB: half of the jobs fit on 16 MB; all fit on 24.
        assert oracle["lowered_share"] == pytest.approx(1.0 if second == 24.0 else 0.5, abs=0.06)
        # Half of the jobs need more than 16 MB: they fail each time that they do not happen to get more.
        failed = rows[second, "smallest-node"]["failed_share"]
        assert failed == 0.0 if second == 24.0 else 0.1 < failed < 1 / 3 + 0.04
    ratio = next(row for row in account["ratios"] if row["estimator"] == "oracle" and row["second_mb"] == 24.0)
    assert ratio["utilisation_ratio"] == pytest.approx(oracle["utilisation"] / none["utilisation"])
    assert ratio["slowdown_ratio"] == pytest.approx(none["mean_slowdown"] / oracle["mean_slowdown"])
    assert account["figure_8_fit"]["second_mb"] == [16.0, 18.0, 24.0]
    assert account["figure_8_fit"]["lowered_r2"] == pytest.approx(1.0)  # 16 and 18 MB help the same jobs: two points
    assert [row["given_mb"] for row in account["cycles"]][:5] == [32.0, 16.0, 8.0, 4.0, 8.0]
    for number in (1, 3, 4, 5, 6, 7, 8):
        assert "</svg>" in (tmp_path / "plots" / f"figure-{number}.svg").read_text()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_published_gain_on_the_published_trace(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trace", trace_of("LANL-CM5-1994-4.1-cln.swf.gz"), "--second-mb", "8", "16", "24", "30"]
    options += ["--estimators", "none", "successive-approximation", "jobsight", "jobsight-implicit", "oracle"]
    account = make.json_of(main, capsys, "overprovisioning", *options)
    assert (account["groups"], account["jobs"]) == (9885, 122_049)
    use = {(row["second_mb"], row["estimator"]): row["utilisation"] for row in account["rows"]}
    failed = {(row["second_mb"], row["estimator"]): row["failed_share"] for row in account["rows"]}
    gain = {mb: use[mb, "successive-approximation"] / use[mb, "none"] for mb in (8.0, 16.0, 24.0, 30.0)}
    assert gain == pytest.approx({8.0: 1.0, 16.0: 1.285, 24.0: 1.58, 30.0: 1.82}, abs=0.01)
    assert max(failed[mb, "successive-approximation"] for mb in gain) <= 0.0026
    assert use[24.0, "jobsight"] >= 0.97 * use[24.0, "oracle"]
    assert failed[24.0, "jobsight"] <= 0.001
    for mb in (16.0, 24.0):
        assert use[mb, "jobsight-implicit"] > use[mb, "successive-approximation"]
    assert use[30.0, "jobsight-implicit"] >= use[30.0, "oracle"]
