"""``jobsight ranks``: its forms and its messages."""

from __future__ import annotations

import re
import time

import pytest
from sqlalchemy import Engine
from tests.make import output_of

from jobsight_server.cli import main

from .conftest import Farm


def test_ranks_in_the_words_of_other_schedulers(sqlite_engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    farm = Farm(sqlite_engine, time.time())
    for name, status in (("n5", 1), ("n6", 1), ("n7", 0)):
        for _ in range(5):
            farm.job([name], start=farm.now - 7200.0, end=farm.now - 3600.0, exit_status=status, user=name)
    farm.round()
    command = ["ranks", "--database", str(sqlite_engine.url)]
    for method in ("grv", "survival"):
        assert main([*command, "--ranking-method", method, "--format", "slurm"]) == 0
        lines = [re.fullmatch(r"NodeName=(\S+) Weight=(\d+)", line) for line in capsys.readouterr().out.splitlines()]
        weights = {match[1]: int(match[2]) for match in lines if match}
        assert [*weights] == ["n7", "n5", "n6"]
        assert weights["n7"] < min(weights["n5"], weights["n6"])
    assert main([*command, "--format", "condor", "--name", "n6"]) == 0
    assert re.fullmatch(r"JobsightRank = 0\.\d{6}\n", capsys.readouterr().out)
    printed = output_of(main, capsys, *command, "--format", "condor").splitlines()
    assert printed[0].startswith("# rank = ")
    assert printed[2].startswith("JobsightRank = ")


def test_what_cannot_be_ranked_is_said(sqlite_engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(sqlite_engine.url)
    assert main(["ranks", "--database", url, "--user", "nobody"]) == 1
    assert "'nobody' has no history" in capsys.readouterr().err
    assert main(["ranks", "--database", url, "--limit", "0"]) == 1
    with pytest.raises(SystemExit):
        main(["ranks", "--database", url, "--for", "1e30h"])
    assert "No machine has a rank" in output_of(main, capsys, "ranks", "--database", url)
