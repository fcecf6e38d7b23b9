"""What 0.4.0 promised to keep: routes, parameters, fields, command lines and settings. Additions are allowed."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from tests.stable import lines

STORED = (Path(__file__).parent / "golden" / "stable.txt").read_text().splitlines()


def breaks(now: Collection[str], then: Collection[str] = STORED) -> list[str]:
    """What is gone or of another type, and what callers of then do not give, though it is required now."""
    owners = {re.split(r" (?:query|path|header|body|answers)|\.", line)[0] for line in then}
    bodies = {line.rpartition(" ")[2] for line in then if " body: " in line}
    asked = {owner for owner in owners if "/" in owner} | bodies
    needed = [
        line
        for line in set(now) - set(then)
        if (line.endswith(", required") and re.split(r" (?:query|path|header)|\.", line)[0] in asked)
        or (line.startswith("setting [") and line.endswith("= required"))
    ]
    return sorted({*(set(then) - set(now)), *needed})


def test_what_0_4_0_promised_is_there() -> None:
    """See docs/develop/releasing.md before you write the stored lines again."""
    assert len(STORED) > 1500
    assert breaks(lines()) == []


def test_additions_are_allowed_and_all_else_is_found() -> None:
    kept = list(STORED)
    added = ["jobsight report --new", "JobList.new: string, required", "GET /new query a: string, required"]
    assert breaks([*kept, *added]) == []
    option, setting = "jobsight report --output FILE", "setting query_workers: int = 2"
    for gone in (option, setting, "GET /api/v1/users query page: integer"):
        assert gone in kept
        assert breaks([line for line in kept if line != gone]) == [gone]
    total = "JobList.total: integer, required"
    changed = [line.replace(total, total.replace("integer", "string")) for line in kept]
    assert breaks(changed) == [total]
    for asks in (
        "GET /api/v1/users query new: string, required",
        "AdviceQuestion.new: string, required",
        "setting [AccountingSource] new = required",
    ):
        assert breaks([*kept, asks]) == [asks]
