"""``jobsight simulate --clusters``: figures, files, what is refused."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import pytest
from tests import make
from tests.make import Jobsight

from jobsight_server.commands.simulate import command


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return make.trace(tmp_path / "t.swf.gz")


@pytest.mark.parametrize("placement", ["none", "naive", "aware", "reactive"])
def test_placements_on_clusters(trace: Path, tmp_path: Path, jobsight: Jobsight, placement: str) -> None:
    out = tmp_path / "schedule.csv"
    options = ["--clusters", "4x32", "--uplink", "20M", "--placement", placement, "--load", "0.8"]
    found = jobsight("simulate", trace, *options, "--schedule-out", out, "--json").json
    assert found["processors"] == 128
    assert (found["dropped"], found["jobs"]) == (0, 1500)  # those of more than 32 are spread in any case
    wide = jobsight("simulate", trace, *options[:5], "none", *options[6:], "--json").json["spread"]
    assert 0.0 < wide == found["spread"] if placement == "none" else wide < found["spread"]
    with out.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == found["jobs"]
    last = max(float(row["submit_s"]) for row in rows)
    ended = sum(float(row["end_s"]) <= last for row in rows)
    assert found["jobs_per_hour"] == pytest.approx(3600.0 * ended / last)
    waits = [float(row["start_s"]) - float(row["submit_s"]) for row in rows]
    assert sum(waits) / len(waits) == pytest.approx(found["mean_wait_s"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--uplink", "1G,1G,1G"], "--uplink has 3 rates for 2 clusters: give one, or one for each"),
        (["--clusters", "1x1"], "none of its"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, jobsight: Jobsight, options: list[str], message: str) -> None:
    file = tmp_path / "t.swf"
    file.write_text("\n".join(f"{i} {i * 9} -1 50 4 -1 -1 4 60 -1 1 1 -1 -1 -1 -1 -1 -1" for i in range(1, 9)))
    assert message in jobsight("simulate", file, "--clusters", "2x4", *options, status=1).err


def test_options_that_do_not_go_together_are_refused(trace: Path, jobsight: Jobsight) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    known = set(vars(parser.parse_args(["t.swf"])))
    assert set().union(*command.OPTIONS_OF.values()) | command.EVERYWHERE == known
    for options, message in (
        (["--uplink", "1M"], "--uplink does not go with one machine, but with --clusters or --clusters on a database"),
        (["--classes", "4x32M"], "--classes does not go with one machine, but with --memory"),
        (["--clusters", "2x4", "--policy", "easy"], "--policy does not go with --clusters, but with one machine"),
        (["--memory", "--clusters", "2x4"], "--clusters does not go with --memory"),
        (["--memory", "--policy", "easy++"], "--policy does not go with --memory, but with one machine"),
    ):
        assert message in jobsight("simulate", trace, *options, status=1).err
