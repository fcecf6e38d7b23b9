"""A job in ``qstat -f`` of the PBS family: attributes by name, those of lists as ``Resource_List.mem``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from jobsight_server.accounting.parsers.pbs import is_array, is_job_id, run_of
from jobsight_server.accounting.runs import NOT_AN_ID, AccountingError, JobEvent, ListedJob

TimeOf = Callable[[str, str], float]
"""Reads a time in a scheduler's form, given its name and its text."""


class Qstat(NamedTuple):
    """How a scheduler's ``qstat`` lists jobs. ``attributes`` yields those of each job by its id, from the output."""

    arguments: Sequence[str]
    attributes: Callable[[bytes], Iterator[tuple[str, dict[str, str]]]]
    time_of: TimeOf

    def entries(self, output: bytes) -> Iterator[ListedJob]:
        """Return the jobs of the list; raise as ``attributes`` does."""
        return (listed(job_id, found, self.time_of) for job_id, found in self.attributes(output))


WAITS = frozenset("QHW")
"""States of waiting jobs: queued, held, and until a time."""
_OVER = frozenset("FXC")
_NAMES = {"egroup": "group", "Account_Name": "account", "Job_Name": "jobname"}
_NAMES |= {name: name for name in ("queue", "comment", "x")}
"""Attribute -> its name in the log."""
_TIMES = ("ctime", "qtime", "etime")


def listed(job_id: str, attributes: Mapping[str, str], time_of: TimeOf) -> ListedJob:
    """Return one job of the list.

    Arrays have no run of their own: their tasks are known when they start.
    """
    state = attributes.get("job_state", "")
    try:
        if not is_job_id(job_id):
            raise AccountingError(NOT_AN_ID, job_id)
        if state not in WAITS or is_array(job_id):
            return ListedJob("" if state in _OVER else job_id)
        run = run_of("Q", _fields(attributes, time_of), lambda *_: None)
        submitted = run.queued or run.created
        if submitted is None:
            raise AccountingError("qtime and ctime are missing")
        return ListedJob(job_id, JobEvent("Q", job_id, submitted, run, utc_s=submitted))
    except AccountingError as error:
        error.job_id = job_id
        return ListedJob(job_id, None, error, repr(dict(attributes)).encode())


def _fields(attributes: Mapping[str, str], time_of: TimeOf) -> dict[str, str]:
    """Return the attributes by their names in the log."""
    owner = attributes.get("euser") or attributes.get("Job_Owner", "").rpartition("@")[0]
    if not owner or not owner.isprintable():
        raise AccountingError("Job_Owner is missing or not printable", owner)
    named = {name: attributes[attribute] for attribute, name in _NAMES.items() if attribute in attributes}
    resources = {name: text for name, text in attributes.items() if name.startswith("Resource_List.")}
    times = {name: f"{time_of(name, attributes[name]):.0f}" for name in _TIMES if attributes.get(name)}
    return {"user": owner, **named, **resources, **times}
