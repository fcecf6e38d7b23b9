"""``jobsight match``: the answer's shape, what is refused and where, the example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.make import Jobsight

EXAMPLE = Path(__file__).parents[4] / "examples/matching.json"


def batch(**changes: Any) -> dict[str, Any]:
    """One resource and one job that fits, with ``changes`` to the job's dependency."""
    dependency = {"name": "d", "type": "node", "where": "speed > 1", "amounts": {"slots": 2}} | changes
    return {
        "resources": [
            {"name": "a", "type": "node", "attributes": {"speed": 2}, "capacities": {"slots": {"total": 8, "used": 0}}}
        ],
        "jobs": [{"name": "j", "dependencies": [dependency]}],
    }


def matched(jobsight: Jobsight, content: Any, tmp_path: Path, *flags: str, status: int = 0) -> Any:
    """Return the JSON of an answer, or the complaint."""
    file = tmp_path / "batch.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    printed = jobsight("match", file, "--json", *flags, status=status)
    assert (printed.out == "") == bool(status)
    return printed.err if status else printed.json


def test_the_example_is_matched_and_explained(jobsight: Jobsight) -> None:
    answer = jobsight("match", str(EXAMPLE), "--json").json
    assert answer["status"] == "optimal"
    assert {match["job"] for match in answer["matches"]} == {"render", "simulate", "import"}
    assert {entry["job"]: entry["tier"] for entry in answer["unmatched"]} == {
        "reindex": "held",
        "train": "predicate",
        "archive": "type",
    }
    assert {"rung", "objective", "bound", "gap", "cpu_s"} <= answer.keys()
    simulate = next(match for match in answer["matches"] if match["job"] == "simulate")
    assert simulate["resources"] == {"node": ["power-1"], "files": ["scratch"]}
    assert "held by report-17 of maria" in " ".join(jobsight("match", str(EXAMPLE)).out.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"amounts": {"slots": -1}},
            "jobs[0].dependencies[0].amounts[...]: Expected `float` >= 0.0; it is {'slots': -1}",
        ),
        ({"amounts": {"slots": int("9" * 400)}}, "Number out of range"),
        ({"where": "speed = 1"}, "write =="),
        ({"where": "speed >"}, "character 8: the end is not expected there"),
        ({"where": "x" * 10_000}, "10,000 characters, where 2,000 are allowed"),
        ({"where": "__import__('os').system('true')"}, "unexpected '.'"),
        ({"count": 10**30}, "Expected `int` <= 100000"),
        # Otherwise a misspelled field would go unseen.
        ({"amount": {"slots": 1}}, "jobs[0].dependencies[0]: Object contains unknown field `amount`"),
        (b"{", "not JSON"),
        (b'{"resources": [], "jobs": [], "jobs": []}', "the field 'jobs' is given twice; send it once"),
        (b'{"resources": [], "jobs": NaN}', "not JSON"),
        (b'{"resources": []}', "the batch: Object missing required field `jobs`"),
        ({"resources": [], "jobs": [{}] * 100_000}, "jobs: Expected `array` of length <= 10000"),
        ({"resources": [{"name": "a", "type": "t"}] * 2, "jobs": []}, "the name 'a' is there more than once"),
        ({"resources": [], "jobs": [], "objectives": ["speed"]}, "objectives[0]: unknown objective 'speed'"),
    ],
)
def test_a_wrong_batch_or_job_is_refused_with_value_and_place(
    content: Any, message: str, tmp_path: Path, jobsight: Jobsight
) -> None:
    is_job = isinstance(content, dict) and "resources" not in content
    assert message in matched(jobsight, batch(**content) if is_job else content, tmp_path, status=1)


@pytest.mark.parametrize("flags", [["--deadline", "0"], ["--deadline", "-1"], ["--objective", "x"]])
def test_wrong_flags_are_refused(flags: list[str], tmp_path: Path, jobsight: Jobsight) -> None:
    assert flags[1] in matched(jobsight, batch(), tmp_path, *flags, status=1)


def test_huge_amounts_and_unknown_types_are_reasons_and_not_errors(tmp_path: Path, jobsight: Jobsight) -> None:
    assert matched(jobsight, batch(amounts={"slots": 1e30}), tmp_path)["unmatched"][0]["tier"] == "never-fits"
    assert matched(jobsight, batch(type="tape"), tmp_path)["unmatched"][0]["tier"] == "type"
    answer = matched(jobsight, batch(where="speed > 1 and memory > 4"), tmp_path)
    assert answer["unmatched"][0]["tier"] == "predicate"
    assert "no node has memory" in answer["unmatched"][0]["reason"]


def test_an_own_objective_decides(tmp_path: Path, jobsight: Jobsight) -> None:
    content = batch()
    content["resources"].append({**content["resources"][0], "name": "b", "attributes": {"speed": 2, "price": 1}})
    content["resources"][0]["attributes"]["price"] = 3
    content["objectives"] = ["throughput", {"name": "cheap", "sense": "min", "X": "price * job.priority"}]
    answer = matched(jobsight, content, tmp_path)
    assert answer["matches"] == [{"job": "j", "resources": {"d": ["b"]}}]
    assert answer["objectives"][1]["value"] == 1.0
