"""``python -m jobsight_papers schedules``: policies beside one another, checked, and its messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import make
from tests.make import output_of

from jobsight_papers.__main__ import main
from jobsight_papers.schedules.chosen import POLICIES

SYNTHETIC = ("schedules", "--synthetic", "400", "--processors", "64", "--load", "1.1")


def test_every_policy_on_generated_jobs_keeps_its_rules(capsys: pytest.CaptureFixture[str]) -> None:
    found = make.json_of(main, capsys, *SYNTHETIC, "--validate")
    assert (found["jobs"], found["processors"]) == (400, 64)
    rows = {row["policy"]: row for row in found["rows"]}
    assert list(rows) == list(POLICIES)
    assert {row["broken_rules"] for row in rows.values()} == {0}
    for row in rows.values():
        gained = row["mean_wait_s"] - rows["fcfs"]["mean_wait_s"]
        assert row["difference_wait_s"][0] == pytest.approx(gained, abs=1e-6)
    assert rows["easy"]["mean_wait_s"] < rows["fcfs"]["mean_wait_s"]
    other = make.json_of(main, capsys, *SYNTHETIC, "--policies", "fcfs", "--seed", "7")
    assert other["rows"][0]["mean_wait_s"] != rows["fcfs"]["mean_wait_s"]


def test_a_trace_with_predictors_and_weights_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = make.trace(tmp_path / "t.swf.gz")
    policies = ("easy++", "easy++:jobsight", "multifactor")
    shown = output_of(main, capsys, "schedules", trace, "--policies", *policies, "--priority", "size=-1")
    assert max(map(len, shown.splitlines())) <= 80
    assert "differences from the first" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give a trace, or --synthetic and --processors"),
        ((*SYNTHETIC[1:], "--policies", "lifo"), "--policies lifo: give fcfs, sjf, easy, easy++, conservative, "),
        ((*SYNTHETIC[1:], "--policies", "easy:last-two"), "easy uses requested times and takes no predictor"),
        ((*SYNTHETIC[1:], "--priority", "age"), "give weights such as age=1000"),
        ((*SYNTHETIC[1:], "--priority", "nice=1"), "unknown weight 'nice'"),
        (("--synthetic", "9", "--processors", "4"), "--synthetic 9: "),
    ],
)
def test_what_it_refuses(options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in output_of(main, capsys, "schedules", *options, status=1)
