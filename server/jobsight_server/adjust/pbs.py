"""PBS Pro and TORQUE: ``qstat`` shows the requests of jobs, ``qalter -l`` changes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobsight_server.accounting.command_output import CommandError
from jobsight_server.accounting.parsers import qstat_json, qstat_xml
from jobsight_server.accounting.parsers.qstat import TimeOf
from jobsight_server.accounting.parsers.quantities import duration_s, size_bytes
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.adjust.present import Amount, PresentJob, run_command
from jobsight_server.decision.evidence import Resource

_JOB_ID = re.compile(r"[0-9]{1,15}(?:\.[A-Za-z0-9][A-Za-z0-9._-]{0,200})?", re.ASCII)
_CHUNK = re.compile(r"[0-9]{1,9}(?::[A-Za-z0-9_.-]+=[A-Za-z0-9_.-]+)*", re.ASCII)
_CHUNK_MEMORY = re.compile(r":mem=([0-9]+[kmgtp]?b?)(?=:|$)", re.ASCII | re.IGNORECASE)
_KIB = 1024
_MOST = 1 << 29


@dataclass(frozen=True, slots=True)
class Pbs:
    """``qstat`` and ``qalter`` are argument lists; ``torque``: they are TORQUE's."""

    qstat: Sequence[str]
    qalter: Sequence[str]
    timeout_s: float
    torque: bool = False

    def look(self) -> dict[str, PresentJob]:
        """Return the jobs without arrays and without jobs that have several kinds of chunks."""
        return {job.job_id: job for job, _ in self._jobs()}

    def _jobs(self) -> Iterator[tuple[PresentJob, Mapping[str, str]]]:
        form = qstat_xml.QSTAT if self.torque else qstat_json.QSTAT
        printed = run_command((*self.qstat, *form.arguments), self.timeout_s, _MOST)
        try:
            for job_id, attributes in form.attributes(printed):
                job = _job_of(job_id, attributes, form.time_of)
                if job is not None:
                    yield job, attributes
        except AccountingError as error:
            raise CommandError(error.reason, error.message) from error

    def exact(self, job: PresentJob, resource: Resource) -> Amount | None:
        return job.amounts[resource]

    def change(self, job: PresentJob, amount: Amount) -> None:
        if not _JOB_ID.fullmatch(job.job_id):
            raise CommandError("not the id of a job", job.job_id[:80])
        name, _, chunk = amount.parameter.partition(" ")
        if name == "walltime":
            text = f"walltime={amount.value // 3600:02}:{amount.value // 60 % 60:02}:{amount.value % 60:02}"
        elif name == "select":
            text = f"select={_with_memory(chunk, amount.value)}"
        else:
            text = f"{name}={amount.value // _KIB}kb"
        run_command((*self.qalter, "-l", text, job.job_id), self.timeout_s)


def _with_memory(chunk: str, value: int) -> str:
    if not _CHUNK.fullmatch(chunk):
        raise CommandError("a chunk of another form", chunk[:80])
    return _CHUNK_MEMORY.sub(f":mem={value // _KIB}kb", chunk)


def _job_of(job_id: str, attributes: Mapping[str, str], time_of: TimeOf) -> PresentJob | None:
    state = attributes.get("job_state", "")
    user = attributes.get("euser") or attributes.get("Job_Owner", "").rpartition("@")[0]
    if state not in ("Q", "H", "W", "R") or not user or not _JOB_ID.fullmatch(job_id):
        return None
    try:
        submitted = time_of("qtime", attributes.get("qtime") or attributes.get("ctime", ""))
        began = attributes.get("stime") or attributes.get("start_time") or ""
        start = time_of("stime", began) if state == "R" else None
        amounts: dict[Resource, Amount] = {}
        if (memory := _memory(attributes)) is not None:
            amounts["memory"] = memory
        if walltime := attributes.get("Resource_List.walltime"):
            amounts["runtime"] = Amount("walltime", int(duration_s("walltime", walltime)), 1, 60)
    except AccountingError:
        return None  # listed as rejected where the queue is followed
    return PresentJob(job_id, user, submitted, start, amounts)


def _memory(attributes: Mapping[str, str]) -> Amount | None:
    """Return the memory request in the job's own form: by chunk, or of the whole job."""
    chunk = attributes.get("Resource_List.select", "")
    if chunk:
        found = _CHUNK_MEMORY.findall(chunk) if _CHUNK.fullmatch(chunk) else []
        if len(found) != 1:
            return None
        value, count = size_bytes("select", found[0]), int(chunk.partition(":")[0])
        # The chunk without its memory names the parameter, so that it can be rewritten with another.
        parameter = f"select {_with_memory(chunk, 0)}"
        return Amount(parameter, value, count, _KIB) if value % _KIB == 0 and value and count else None
    text = attributes.get("Resource_List.mem")
    value = 0 if text is None else size_bytes("mem", text)
    return Amount("mem", value, 1, _KIB) if value and value % _KIB == 0 else None
