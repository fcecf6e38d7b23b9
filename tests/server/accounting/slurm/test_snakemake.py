"""Jobs of Snakemake's executor for Slurm, whose names are random, are known by the rule in their comment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobsight_server.accounting.parsers.slurm.job import event_of
from jobsight_server.accounting.parsers.slurm.squeue import WIDTHS, job_of
from jobsight_server.accounting.runs import JobEvent, JobRuns

from .test_text import COLUMNS, row, run_of, text

UUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
Read = Callable[[bytes], list[Any]]


@pytest.mark.parametrize("whose", ["job", "administrator"])
def test_json_and_text_say_the_rule(events: Read, release: Any, whose: str) -> None:
    record = release.job(name=UUID)
    record["comment"][whose] = "rule_align_wildcards_s1"
    (event,) = events(release.document(record))
    column = {"job": "Comment", "administrator": "AdminComment"}[whose]
    asked = row("7", JobName=UUID, **{column: "rule_align_wildcards_s1"})
    assert event.run.name == run_of(events, asked, columns=[*COLUMNS, column]).name == "snakejob.align"


def test_a_later_record_without_the_comment_leaves_the_rule(events: Read) -> None:
    """Slurm's database has the user's comment only with a flag; squeue has it while the job waits."""
    listed = dict.fromkeys(WIDTHS, "") | {"JobID": "7", "State": "PENDING", "UserName": "ann", "Name": UUID}
    waiting = job_of(listed | {"SubmitTime": f"{1_700_000_000 - 60}", "Comment": "rule_align"})
    runs = JobRuns()
    queued = event_of(waiting)
    assert runs.apply(queued, 0.0, utc_known=True) == "queued"
    (ended,) = events(text(row("7", JobName=UUID)))
    assert isinstance(ended, JobEvent)
    assert ended.run is not None
    assert ended.run.name == UUID
    runs.apply(ended, 0.0, utc_known=True)
    (run,) = runs.runs
    assert (run.state, run.record.name, run.record.end) == ("ended", "snakejob.align", ended.run.end)
    assert runs.apply(ended, 0.0, utc_known=True) == "already known"
