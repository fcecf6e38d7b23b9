"""What to write to a user after a report: each change, why, and the lines to paste."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from textwrap import fill, indent

from jobsight_server.advice.idle import unseen, used
from jobsight_server.queries.lost import IdleUse, Killed
from jobsight_server.queries.report import Report, ReportFinding
from jobsight_server.savings.today import Line, together

_MARGIN, _WIDTH = 4 * " ", 76


def letters(found: Report) -> dict[str, str]:
    """Return the texts by user, those with the largest effect first."""
    of: dict[str, list[str]] = defaultdict(list)
    for finding in found.findings:
        of[finding.user] += _paragraphs(finding)
    period = f"from {found.waste.first_day} to {found.waste.last_day} (UTC)"
    return {user: "\n\n".join([f"About your jobs that ended {period}:", *texts]) for user, texts in of.items()}


def _paragraphs(finding: ReportFinding) -> Iterator[str]:
    name = finding.application or "Jobs without a name"
    for one in finding.killed:
        yield fill(f"{name}: {_killed(one)}", _WIDTH)
    advice = together(finding.lines)
    for lines in advice:
        first = lines[0]
        of = f"{first.size}{f' that requests {first.request}' if len(advice) > 1 else ''}"
        yield "\n".join([fill(f"{name} on {of}: {first.text}", _WIDTH), *_pasted(lines)])
    for idle in finding.idle:
        yield fill(_idle(idle, name), _WIDTH)


def _pasted(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of all resources, of each scheduler together."""
    of: dict[str, dict[str, None]] = defaultdict(dict)
    for line in lines:
        for part in line.ask_lines:
            of[part.scheduler] |= dict.fromkeys(part.text.splitlines())
    for parts in of.values():
        yield indent("\n".join(parts), _MARGIN)


def _killed(one: Killed) -> str:
    """Count the kills as the advice below does; others apart."""
    why = "killed at the time limit" if one.metric == "runtime" else "killed for lack of memory"
    number = one.similar or one.jobs
    subject = "1 job was" if number == 1 else f"{number:,} jobs were"
    others = f", and {one.others:,} more earlier or with other requests" if one.similar and one.others else ""
    return f"{subject} {why}{others}; {one.hours:,.0f} processor-hours were lost{' in all' if others else ''}."


def _idle(one: IdleUse, name: str) -> str:
    if one.is_seen:
        return f"{name}: {used(one.busy, one.what, one.jobs, one.most)}"
    return f"{one.application}: {unseen(one.held_hours, one.jobs)}".removeprefix(": ")  # of several applications
