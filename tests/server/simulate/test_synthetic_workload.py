"""``jobsight simulate --synthetic``: a workload for those who have no trace at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobsight_server.cli import main


def simulate(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["simulate", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_same_seed_makes_the_same_jobs_and_the_file_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "made.swf.gz"
    made = ["--synthetic", "lublin", "--jobs", 400, "--processors", 64]
    first = simulate(capsys, *made, "--workload-out", file, "--validate")
    assert (first["jobs"], first["processors"], first["broken_rules"]) == (400, 64, 0)
    again, other = simulate(capsys, *made), simulate(capsys, *made, "--workload-seed", 7)
    read = simulate(capsys, file)
    for figure in ("mean_wait_s", "makespan_s", "useful_utilisation"):
        assert first[figure] == again[figure] == read[figure]
        assert first[figure] != other[figure]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give a trace of the Standard Workload Format, a database, or --synthetic lublin"),
        (["--synthetic", "lublin"], "give its --processors, such as 128"),
        (["--synthetic", "lublin", "--processors", "4"], "the model needs at least 1 job and 8 processors"),
        (["--synthetic", "lublin", "--processors", "64", "a.swf"], "a trace was given; leave it out"),
        (["--workload-out", "b.swf", "a.swf"], "a trace was given; leave it out"),
        (["--synthetic", "lublin", "--processors", "64", "--workload-out", "none/b.swf"], "--workload-out none/b.swf"),
    ],
)
def test_what_cannot_be_made_is_explained(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *arguments]) == 1
    assert says in capsys.readouterr().err
