"""A job in ``qstat -f`` of the PBS family: attributes by name, those of lists as ``Resource_List.mem``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from jobsight_server.accounting.parsers.pbs import is_job_id, memory_of, processors_asked
from jobsight_server.accounting.parsers.quantities import (
    LONGEST_INDEXED,
    LONGEST_TEXT,
    requested_s,
    text_field,
)
from jobsight_server.accounting.runs import AccountingError, JobEvent, Listed, RunRecord
from jobsight_server.storage.facts import facts_in

WAITS = frozenset("QHW")
"""States of waiting jobs: queued, held, and until a time."""
_OVER = frozenset("FXC")


def listed(job_id: str, attributes: Mapping[str, str], time_of: Callable[[str, str], float]) -> Listed:
    """Return one job of the list; ``time_of(name, text)`` reads a time in this scheduler's form.

    Arrays have no run of their own: their tasks are known when they start.
    """
    state = attributes.get("job_state", "")
    try:
        if not is_job_id(job_id):
            raise AccountingError("not a job id", job_id)
        if state not in WAITS or job_id.partition(".")[0].endswith("[]"):
            return Listed("" if state in _OVER else job_id)
        run = _run(attributes, time_of)
        submitted = run.queued or run.created
        if submitted is None:
            raise AccountingError("qtime and ctime are missing")
        return Listed(job_id, JobEvent("Q", job_id, submitted, run, utc_s=submitted))
    except AccountingError as error:
        error.job_id = job_id
        return Listed(job_id, None, error, repr(dict(attributes)).encode())


def _run(attributes: Mapping[str, str], time_of: Callable[[str, str], float]) -> RunRecord:
    def when(name: str) -> float | None:
        return time_of(name, attributes[name]) if attributes.get(name) else None

    owner = attributes.get("euser") or attributes.get("Job_Owner", "").rpartition("@")[0]
    user = text_field("Job_Owner", owner, LONGEST_INDEXED)
    if user is None or not user.isprintable():
        raise AccountingError("Job_Owner is missing or not printable", owner)
    nodes = attributes.get("Resource_List.nodes")
    select = attributes.get("Resource_List.select")
    processors = processors_asked(attributes)
    walltime = attributes.get("Resource_List.walltime")
    facts = facts_in(attributes.get("comment"), attributes.get("x"))
    return RunRecord(
        user=user,
        start=inf,
        group=text_field("egroup", attributes.get("egroup"), LONGEST_TEXT),
        account=text_field("Account_Name", attributes.get("Account_Name"), LONGEST_TEXT),
        name=text_field("Job_Name", attributes.get("Job_Name"), LONGEST_TEXT),
        queue=text_field("queue", attributes.get("queue"), LONGEST_TEXT),
        created=when("ctime"),
        queued=when("qtime"),
        eligible=when("etime"),
        processors=processors,
        requested_walltime_s=None if walltime is None else requested_s("Resource_List.walltime", walltime),
        requested_nodes=text_field("Resource_List.nodes", nodes or select, LONGEST_TEXT),
        facts=facts.text,
        dropped_facts=facts.dropped,
        **memory_of(attributes, processors),
    )
