"""One form for a job's id, whichever of cgroup, job hook and accounting log wrote it."""

from __future__ import annotations


def job_key(job_id: str) -> str:
    """The id under which a job's marks and readings are kept: without the domain of its server, which some write.

    Slurm's raw id and Grid Engine's, with the task after a dot, are the same everywhere.

    >>> job_key("4711[3].head.example.org"), job_key("4711[3].head"), job_key("4711"), job_key("4711.3")
    ('4711[3].head', '4711[3].head', '4711', '4711.3')
    """
    number, dot, server = job_id.partition(".")
    return f"{number}{dot}{server.partition('.')[0]}"
