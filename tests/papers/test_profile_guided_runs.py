"""``python -m jobsight_papers profile-guided``, with the emulator and a real server as processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.make import output_of

from jobsight_papers.__main__ import main

COMMAND = ["profile-guided"]


@pytest.mark.exhaustive
def test_users_and_campaign_are_as_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plots = tmp_path / "plots"
    assert main([*COMMAND, "--seeds", "3", "--site-seeds", "0", "--workers", "1", "--json", "--plot", str(plots)]) == 0
    account = json.loads(capsys.readouterr().out)
    assert {file.name for file in plots.iterdir()} == {"users.svg", "campaign.svg", "sensitivity.svg"}
    assert account["parameters"]["published"] == {"window": 6, "bins": 10, "alpha": 0.1}
    published, default = account["users"]["published"], account["users"]["default"]
    assert published["X"]["jobs"] > 30
    assert published["X"]["pqm"] == pytest.approx(0.89, abs=0.005)
    for figures in published["X"]["over_seeds"]["forecasters"].values():
        assert figures["accuracy"]["mean"] > 0.97
        assert figures["next"]["mean"] == pytest.approx(30.0, rel=0.03)
    assert 2 <= default["Y"]["over_seeds"]["overshoots"]["mean"] <= 3
    assert max(default["Y"]["forecasters"]["exponential"]["forecasts"][1:]) <= max(default["Y"]["values"])
    z = published["Z"]["over_seeds"]["forecasters"]
    assert z["weighted"]["next"]["mean"] == pytest.approx(53.0, abs=2.0)
    assert z["weighted"]["accuracy"]["mean"] == max(figures["accuracy"]["mean"] for figures in z.values())
    for metric, share in (("memory", 0.61), ("bandwidth", 0.40)):
        found = account["campaign"]["published"][metric]
        assert found["share_above"]["mean"] == pytest.approx(share, abs=0.01)
        exponential = found["forecasters"]["exponential"]
        assert exponential["accuracy_above"]["mean"] > exponential["accuracy"]["mean"]
    assert account["site"] == []


@pytest.mark.parametrize("options", [("--alpha", "3"), ("--window", "0"), ("--bins", "0"), ("--site-seeds", "21")])
def test_what_it_refuses(options: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{options[0]} {options[1]}" in output_of(main, capsys, *COMMAND, *options, status=1)
