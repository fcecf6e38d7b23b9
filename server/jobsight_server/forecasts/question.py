"""What is known of a job when it is submitted, in the one form in which it is learned and asked.

Groups are found by these values, so both sides must write them alike.
"""

from __future__ import annotations

import re
from functools import lru_cache

from jobsight_predictor.templates import Question

_RUN_NUMBER = re.compile(r"\d+(?=(?:\.[A-Za-z]+)?$)")


def job_question(
    user: str,
    name: str | None = None,
    queue: str | None = None,
    processors: int | None = None,
    memory_bytes: float | None = None,
    walltime_s: float | None = None,
) -> Question:
    """A job as the templates see it; empty texts, and numbers that are not above 0, count as not told.

    ``memory_bytes`` is the request of the whole job, as accounting logs have it; the question holds it per processor,
    as the values are that it is compared with. Where the processors are not told, it is taken to be for one.
    """
    known = processors if processors and processors > 0 else None
    return Question(
        user=user,
        application=None if name is None else application(name),
        queue=queue or None,
        processors=None if known is None else int(known),
        requested_memory_bytes=memory_bytes / (known or 1) if memory_bytes and memory_bytes > 0 else None,
        requested_time_s=float(walltime_s) if walltime_s and walltime_s > 0 else None,
    )


@lru_cache(4096)
def application(name: str) -> str | None:
    """The application that a job's name stands for: without directories and without the number of the run.

    Logs do not name applications; a job's name, by default that of its script, is the nearest thing to it. Users
    number the runs of one application, at the end of the name or before its extension; every other part of a name
    tells applications apart as often as runs, and stays. None where nothing is left.

    >>> [application(name) for name in ("run_017", "bin/run_18.sh", "cfd-large", "4711")]
    ['run_', 'run_.sh', 'cfd-large', None]
    """
    return _RUN_NUMBER.sub("", name.rpartition("/")[2]) or None
