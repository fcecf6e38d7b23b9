#!/usr/bin/env python3
"""The command sacct with a day on record: prints the jobs of a time, as slurmdbd had them at the time of the question.

Beside this file are ``now``, the time of the question, and ``TIME.jobs``, the jobs that ended in the ten minutes from
that time on: a row of ``COLUMNS`` for each job, in seconds since 1970, and the rows of its steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

COLUMNS = (
    "JobIDRaw", "JobID", "User", "UID", "Group", "Account", "Partition", "JobName", "State", "ExitCode",
    "DerivedExitCode", "Submit", "Eligible", "Start", "End", "Suspended", "TimelimitRaw", "ReqMem", "ReqTRES",
    "AllocTRES", "AllocCPUS", "NNodes", "NodeList", "TotalCPU", "TRESUsageInTot", "TRESUsageInMax", "TRESUsageInMin",
    "Comment", "AdminComment", "SubmitLine", "NTasks",
)  # fmt: skip
PIECE_S = 600
_ID, _STATE, _START, _END = (COLUMNS.index(name) for name in ("JobIDRaw", "State", "Start", "End"))
_ELIGIBLE, _USE = COLUMNS.index("Eligible"), [COLUMNS.index(name) for name in COLUMNS if "TRESUsage" in name]


def main(arguments: list[str]) -> int:
    """Print the jobs that were eligible before the end of the time, and had not ended before it began."""
    here = Path(__file__).parent
    now = int((here / "now").read_text())
    options = dict(each.split("=", 1) for each in arguments if "=" in each)
    wanted = options["--format"].split(",")
    if unknown := [name for name in wanted if name not in COLUMNS]:
        print(f'sacct: error: Invalid field requested: "{unknown[0]}"', file=sys.stderr)
        return 1
    start, end = (_time(arguments[arguments.index(name) + 1], now) for name in ("--starttime", "--endtime"))
    order, delimiter = [COLUMNS.index(name) for name in wanted], options["--delimiter"]
    ids = set(options.get("--jobs", "").split(",")) - {""}
    print(delimiter.join(wanted))
    for file in sorted(here.glob("*.jobs")):
        if int(file.stem) + PIECE_S <= start:
            continue
        found = began = ended = False
        for line in file.read_text().splitlines():
            is_step = "." in line.partition("\x1f")[0]
            if is_step and not (found and began):
                continue
            row = line.split("\x1f")
            if not is_step:
                found = int(row[_ELIGIBLE]) < min(end, now + 1) and int(row[_END]) >= start
                found = found and (not ids or row[_ID] in ids)
                began, ended = int(row[_START]) <= now, int(row[_END]) <= now
            if found:
                then = row if ended else _then(row, began)
                print(delimiter.join([then[each] for each in order]))
    return 0


def _time(text: str, now: int) -> int:
    return now - int(text.partition("-")[2] or 0)


def _then(row: list[str], began: bool) -> list[str]:
    """Return a row as it was before the job had ended, or begun."""
    row[_STATE], row[_END] = "RUNNING" if began else "PENDING", "Unknown"
    row[_START] = row[_START] if began else "Unknown"
    for column in _USE:
        row[column] = ""
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
