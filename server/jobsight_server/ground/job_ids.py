"""Ids of jobs: people, cgroups, job hooks and accounting logs write them with more or less of the server's domain."""

from __future__ import annotations


def job_key(job_id: str) -> str:
    """Return the key of a job's marks and readings: its id without its server's domain, which some sources write.

    Slurm's raw id and Grid Engine's, with the task after a dot, are the same everywhere.

    >>> job_key("4711[3].head.example.org"), job_key("4711[3].head"), job_key("4711"), job_key("4711.3")
    ('4711[3].head', '4711[3].head', '4711', '4711.3')
    """
    number, dot, server = job_id.partition(".")
    return f"{number}{dot}{server.partition('.')[0]}"


def short_ids(job_id: str) -> tuple[str, ...]:
    """Return the other ids of a job for queries: ``job_key``, and its number without the server.

    >>> short_ids("4711.head.example.org"), short_ids("4711[3].head"), short_ids("4711.3"), short_ids("4711")
    (('4711.head', '4711'), ('4711[3].head', '4711[3]'), ('4711.3',), ('4711',))
    """
    key = job_key(job_id)
    number, _, server = key.partition(".")
    return (key, number) if server and not server[0].isdigit() else (key,)
