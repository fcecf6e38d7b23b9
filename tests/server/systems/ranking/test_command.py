"""``jobsight ranks``: its forms and its messages."""

from __future__ import annotations

import re
import time

import pytest
from sqlalchemy import Engine
from tests.make import json_of, output_of

from jobsight_server.cli import main

from .conftest import Farm


def test_ranks_by_either_method_as_json_and_as_a_table(
    sqlite_engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    farm = Farm(sqlite_engine, time.time())
    for name, status in (("n5", 1), ("n6", 1), ("n7", 0)):
        for _ in range(5):
            farm.job([name], start=farm.now - 7200.0, end=farm.now - 3600.0, exit_status=status, user=name)
    farm.round()
    command = ["ranks", "--database", str(sqlite_engine.url)]
    for method in ("grv", "survival"):
        scores = {
            row["name"]: row["score"] for row in json_of(main, capsys, *command, "--ranking-method", method)["machines"]
        }
        assert [*scores] == ["n7", "n5", "n6"]
        assert scores["n7"] > max(scores["n5"], scores["n6"])
    (alone,) = json_of(main, capsys, *command, "--name", "n6")["machines"]
    assert (alone["name"], alone["failures"]) == ("n6", 5)
    assert re.findall(r"/(n\d)", output_of(main, capsys, *command)) == ["n7", "n5", "n6"]


def test_what_cannot_be_ranked_is_said(sqlite_engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(sqlite_engine.url)
    assert main(["ranks", "--database", url, "--user", "nobody"]) == 1
    assert "'nobody' has no history" in capsys.readouterr().err
    assert main(["ranks", "--database", url, "--limit", "0"]) == 1
    with pytest.raises(SystemExit):
        main(["ranks", "--database", url, "--for", "1e30h"])
    assert "No machine has a rank" in output_of(main, capsys, "ranks", "--database", url)
