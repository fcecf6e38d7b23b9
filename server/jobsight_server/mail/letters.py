"""What to write to a user after a report: each change, why, and the lines to paste."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from textwrap import fill, indent

from jobsight_server.ground.amounts import percent
from jobsight_server.queries.lost import IdleUse, Killed, Unseen
from jobsight_server.queries.report import Report, ReportFinding
from jobsight_server.savings.today import Line

_MARGIN, _WIDTH = 4 * " ", 76


def letters(found: Report) -> dict[str, str]:
    """Return the texts by user, those with the largest effect first."""
    of: dict[str, list[str]] = defaultdict(list)
    for finding in found.findings:
        of[finding.user] += _paragraphs(finding)
    for one in found.unseen:
        of[one.user].append(fill(_unseen(one), _WIDTH))
    period = f"from {found.waste.first_day} to {found.waste.last_day} (UTC)"
    return {user: "\n\n".join([f"About your jobs that ended {period}:", *texts]) for user, texts in of.items()}


def _paragraphs(finding: ReportFinding) -> Iterator[str]:
    name = finding.application or "Jobs without a name"
    for one in finding.killed:
        yield fill(f"{name}: {_killed(one)}", _WIDTH)
    by_text: dict[str, list[Line]] = defaultdict(list)
    for line in finding.lines:
        by_text[f"{name} on {_size(line)}: {line.text}"].append(line)
    for text, lines in by_text.items():
        yield "\n".join([fill(text, _WIDTH), *_pasted(lines)])
    for idle in finding.idle:
        yield fill(f"{name}: {_idle(idle)}", _WIDTH)


def _pasted(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of all resources, of each scheduler together."""
    of: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines:
        for part in line.ask_lines:
            of[part.scheduler] |= dict.fromkeys(part.text.splitlines())
    for parts in of.values():
        yield indent("\n".join(parts), _MARGIN)


def _size(line: Line) -> str:
    nodes = f" of {line.nodes} nodes" if (line.nodes or 1) > 1 else ""
    return f"{line.processors:,} processor{'' if line.processors == 1 else 's'}{nodes}"


def _killed(one: Killed) -> str:
    why = "killed at their time limit" if one.metric == "runtime" else "killed for lack of memory"
    subject = "1 job was" if one.jobs == 1 else f"{one.jobs:,} jobs were"
    return f"{subject} {why}; {one.hours:,.0f} processor-hours were lost."


def _idle(one: IdleUse) -> str:
    used, what = percent(1.0 - one.idle_hours / one.held_hours), "GPUs" if one.what == "gpus" else one.what
    subject = f"1 job used {used} of its" if one.jobs == 1 else f"{one.jobs:,} jobs used {used} of their"
    return f"{subject} {what}. Request fewer, or check that the program uses them."


def _unseen(one: Unseen) -> str:
    subject = "1 job" if one.jobs == 1 else f"{one.jobs:,} jobs"
    return (
        f"{subject} held {one.hours:,.0f} processor-hours and used less than 0.5 % of them: idle, or the processes "
        "were started outside the batch system, which then cannot see or end them. Start them by its own "
        "launcher, such as srun, or an mpirun that knows the batch system."
    )
