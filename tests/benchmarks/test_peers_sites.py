"""Services' rules beside Jobsight on a made-up site, at equal failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from sizing import rules  # noqa: E402
from sizing.sites import BY, compare_site, reserved_by  # noqa: E402

from jobsight_predictor.evaluation.jobs import Jobs  # noqa: E402
from jobsight_predictor.question import Question  # noqa: E402


def test_a_rule_knows_the_jobs_that_have_ended_of_the_same_user() -> None:
    users = ["ann", "ann", "bob", "ann", "bob"]
    applications = ["x", "y", "x", "x", "x"]
    submitted = np.array([0.0, 5.0, 12.0, 12.0, 30.0])
    jobs = Jobs(
        "made up",
        "memory",
        [Question(user, application) for user, application in zip(users, applications, strict=True)],
        submitted,
        submitted + 10.0,
        np.array([4.0, 9.0, 2.0, 1.0, 3.0]),
        np.full(5, 10.0),
        np.full(5, np.nan),
    )
    by_user = reserved_by(rules.LargestSeen, jobs, BY["user"])
    assert by_user == pytest.approx([np.nan, np.nan, np.nan, 4.0, 2.0], nan_ok=True)  # 9 ends at 15
    by_both = reserved_by(rules.LargestSeen, jobs, BY["user+application"])
    assert by_both == pytest.approx([np.nan, np.nan, np.nan, 4.0, 2.0], nan_ok=True)
    later = reserved_by(rules.LargestSeen, jobs, lambda jobs, i: "all")
    assert later == pytest.approx([np.nan, np.nan, 4.0, 4.0, 9.0], nan_ok=True)


def write_site(file: Path, *, application: bool) -> None:
    rng = np.random.default_rng(1)
    lines = []
    for i in range(400):
        user = i % 4
        memory = int(1e6 * (1 + user) * rng.lognormal(0.0, 0.3))
        lines.append(
            f"{i} {100 * i} 0 {rng.integers(50, 500)} 4 20 {memory} 4 600 8000000 1 {user} 1 "
            f"{i % 3 if application else -1} 1 1 -1 -1"
        )
    file.write_text("\n".join(lines))


@pytest.mark.exhaustive
@pytest.mark.parametrize("application", [True, False])
def test_rows_name_the_rule_and_jobsight_fails_no_more_often(tmp_path: Path, application: bool) -> None:
    file = tmp_path / "site.swf"
    write_site(file, application=application)
    compared = list(compare_site(file, "coverage", 0.95))
    assert len(compared) == (8 if application else 4)
    for one in compared:
        assert one.ours_failures <= one.failures or one.target > 0.99
        assert 0.0 < one.ours_gbh < 2.0 * one.gbh


@pytest.mark.exhaustive
def test_the_command_prints_rows_and_refuses_a_trace_without_memory(tmp_path: Path) -> None:
    file, empty = tmp_path / "site.swf", tmp_path / "empty.swf"
    write_site(file, application=False)
    empty.write_text("1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n")
    command = [sys.executable, str(ROOT / "benchmarks" / "peers.py"), "--protocol", "site", "--json"]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout)
    assert [row["rule"] for row in rows[:2]] == ["vpa by user", "jobsight"]
    assert rows[1]["beside"] == "vpa by user"
    refused = subprocess.run([*command, str(empty)], capture_output=True, text=True, check=False)
    assert (refused.returncode, "no job with a memory value" in refused.stderr) == (1, True)
