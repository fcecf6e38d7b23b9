"""``jobsight ranks``: its forms and its messages."""

from __future__ import annotations

import re
import time
from functools import partial

from sqlalchemy import Engine
from tests.make import Jobsight
from tests.server.systems.ranking.conftest import Farm


def test_ranks_by_either_method_as_json_and_as_a_table(sqlite_engine: Engine, jobsight: Jobsight) -> None:
    farm = Farm(sqlite_engine, time.time())
    for name, status in (("n5", 1), ("n6", 1), ("n7", 0)):
        for _ in range(5):
            farm.job([name], start=farm.now - 7200.0, end=farm.now - 3600.0, exit_status=status, user=name)
    farm.round()
    ranks = partial(jobsight, "ranks", on=sqlite_engine)
    for method in ("grv", "survival"):
        scores = {row["name"]: row["score"] for row in ranks("--ranking-method", method, "--json").json["machines"]}
        assert [*scores] == ["n7", "n5", "n6"]
        assert scores["n7"] > max(scores["n5"], scores["n6"])
    (alone,) = ranks("--name", "n6", "--json").json["machines"]
    assert (alone["name"], alone["failures"]) == ("n6", 5)
    assert re.findall(r"/(n\d)", ranks().out) == ["n7", "n5", "n6"]


def test_what_cannot_be_ranked_is_said(sqlite_engine: Engine, jobsight: Jobsight) -> None:
    ranks = partial(jobsight, "ranks", on=sqlite_engine)
    assert "'nobody' has no history" in ranks("--user", "nobody", status=1).err
    ranks("--limit", "0", status=1)
    ranks("--for", "1e30h", status=2)
    assert "No machine has a rank" in ranks().out
