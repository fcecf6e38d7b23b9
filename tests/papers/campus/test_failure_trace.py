"""Machines of a Failure Trace Archive file, in samples of our own in its form, and ranks on them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.make import output_of

from jobsight_papers.__main__ import main
from jobsight_papers.ranking.failure_trace import read_failure_trace

HEADER = "# event_id component_id node_id platform_id node_name event_type event_start_time event_stop_time reason\n"
DAY_S = 86_400.0


def event(node: int, kind: int, start: float, stop: float, name: str = "host", between: str = "\t") -> str:
    return between.join(map(str, (1, 0, node, 7, f"{name}{node}", kind, start, stop, 0))) + "\n"


def sessions(lines: list[str]) -> list[list[tuple[float, float]]]:
    found = read_failure_trace(lines).availability
    return [list(zip(begins, ends, strict=True)) for begins, ends in zip(found.begins, found.ends, strict=True)]


def test_available_is_what_the_trace_says_or_what_it_leaves() -> None:
    lines = [
        HEADER,
        event(4, 1, 0, 10),
        event(4, 1, 8, 20, between="  "),  # of another component
        event(4, 0, 20, 30),
        event(4, 1, 30, 50),
        event(2, 0, 5, 15),
        event(2, 0, 40, 45),
    ]
    assert sessions(lines) == [[(0, 20), (30, 50)], [(0, 5), (15, 40), (45, 50)]]


def test_what_is_no_event_is_counted_and_costs_nothing_else() -> None:
    wrong = [event(1, 2, 0, 10), event(1, 1, 30, 20), event(1, 1, float("nan"), 20)]
    lines = [HEADER, "\n", "1 2 3\n", event(1, 1, 0, 10), *wrong, event(1, 1, 50, 50).replace("50", "NULL")]
    found = read_failure_trace(lines)
    assert len(found) == 1
    assert sorted(found.skipped.items()) == [
        ("fewer than 8 columns", 1),
        ("neither availability (1) nor unavailability (0)", 1),
        ("start or stop is not a number", 2),
        ("stops before it starts, or at once", 1),
    ]
    with pytest.raises(ValueError, match="the first line is '1 2 3'"):
        read_failure_trace([HEADER, "1 2 3\n"])
    with pytest.raises(ValueError, match="it is empty"):
        read_failure_trace([])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """40 machines for 80 days: of every four one goes away each two hours, the others every three days."""
    lines = [HEADER]
    for node in range(40):
        now, up = 1000.0 * node, 7200.0 if node % 4 == 0 else 3 * DAY_S
        while now < 80 * DAY_S:
            lines += [event(node, 1, now, now + up), event(node, 0, now + up, now + up + 1800)]
            now += up + 1800
    file = tmp_path / "event_trace.tab.gz"
    file.write_bytes(gzip.compress("".join(lines).encode()))
    return file


@pytest.mark.exhaustive
def test_one_command_runs_all_ranks_on_a_file(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ranking", "--sets", "2", "--seeds", "1", "--workers", "1", "--json", "--trace"]
    assert main([*command, str(trace)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("40 machines, ")
    account = json.loads(said.out)
    assert account["published"] == [], "another campus than the published one"
    assert {row["rank"] for row in account["rows"]} >= {"first-come", "grv", "fewest-evictions", "survival"}
    for file, content in (("none", None), ("text", "hello\n"), ("short", HEADER + event(1, 1, 0, 1000))):
        place = tmp_path / file
        if content is not None:
            place.write_text(content)
        assert f"--trace {place}: " in output_of(main, capsys, *command, place, status=1)
