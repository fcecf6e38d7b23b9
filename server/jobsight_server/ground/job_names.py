"""Names of jobs, and the application in a name: what workflow engines call jobs, and what distinguishes runs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Habit(NamedTuple):
    """An engine's names of jobs: the first group of ``pattern`` is the task. ``source`` is where the engine does so."""

    engine: str
    pattern: re.Pattern[str]
    source: str


def _habit(engine: str, pattern: str, source: str) -> Habit:
    return Habit(engine, re.compile(pattern, re.DOTALL), source)


HABITS = (
    # nf-PROCESS_(tag), cut at 256 characters. A process of a workflow is qualified by it, with : written as _.
    # For PBS there are no parentheses, and the name is cut at 15: then only a number can be separated from the process.
    _habit("Nextflow", r"nf-([\w:]+?)(?:_\(.*)?", "AbstractGridExecutor.getJobNameFor in nextflow-io/nextflow"),
    # The same in Nextflow's own trace, and as ``task.process`` in its configuration.
    _habit("Nextflow", r"([\w:]+) \(.*", "docs.seqera.io/nextflow, trace file, field name"),
    _habit("Nextflow", r"([A-Za-z]\w*(?::[A-Za-z]\w*)+)", "docs.seqera.io/nextflow, trace file, field process"),
    _habit("Snakemake", r"snakejob\.([\w-]+)(?:\.[0-9]*)?(?:\.sh?)?", "option --jobname in snakemake/snakemake"),
    # Two digits are not a job of a busy Galaxy: g09 and g16 are releases of Gaussian.
    _habit("Galaxy", r"g[0-9]{3,}_(\w+)", "DRMAAJobRunner._job_name in galaxyproject/galaxy"),
    _habit(
        "Cromwell", r"cromwell_[0-9a-f]{8}_(.+)", "SharedFileSystemAsyncJobExecutionActor in broadinstitute/cromwell"
    ),
    _habit("Toil", r"toil_job_[0-9]+_(.+)", "SlurmBatchSystem.prepareSbatch in DataBiosphere/toil"),
)
"""The first that fits a whole name counts."""

_RANDOM = re.compile(r"(?:.*_)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SEPARATORS = "-_.:+=,@# "
_SEPARATED = rf"(?:^|(?<=[{re.escape(_SEPARATORS)}]))"
_ENDED = rf"(?=[{re.escape(_SEPARATORS)}]|$)"
# Between separators or at an end: dates with times, numbers, and hexadecimal ids of six digits or more with a number.
_OF_RUN = re.compile(
    rf"{_SEPARATED}(?:[0-9]{{4,8}}T[0-9]{{2,6}}Z?|[0-9]{{2}}T[0-9]{{2}}|(?=[a-f]*[0-9])[0-9a-f]{{6,}}|(?:[0-9]+[dhmsz]?)+){_ENDED}",
    re.IGNORECASE,
)
_EMPTY = re.compile(rf"[{re.escape(_SEPARATORS)}]*\x00[{re.escape(_SEPARATORS)}\x00]*")
_RULE = re.compile(r"(?:^|; )rule_([\w-]+?)_?(?:_wildcards_|;|$)")


def task_of(name: str) -> str | None:
    """Return the task in a job's name; None if no engine named it.

    >>> [task_of(name) for name in ("nf-BWA_(s1)", "MAG:BINNING:BUSCO (s1)", "cromwell_0a1b2c3d_sort", "cfd_3")]
    ['BWA', 'MAG_BINNING_BUSCO', 'sort', None]
    """
    for habit in HABITS:
        if match := habit.pattern.fullmatch(name):
            return match[1].replace(":", "_")
    return None


def engine_of(name: str | None, comment: str | None) -> str | None:
    """Return the workflow engine that named a job; None if a person did.

    >>> engine_of("nf-BWA_(s1)", None), engine_of("7c9e", "rule_align_wildcards_s1"), engine_of("cfd_3", "mine")
    ('Nextflow', 'Snakemake', None)
    """
    if comment and _RULE.search(comment):
        return "Snakemake"
    return next((habit.engine for habit in HABITS if habit.pattern.fullmatch(name or "")), None)


def is_random(name: str) -> bool:
    """Return whether a name is a UUID, with or without a prefix, as shared by all jobs of a Snakemake run."""
    return _RANDOM.fullmatch(name) is not None


@lru_cache(4096)
def application(name: str) -> str | None:
    """Return the application in a job's name, without directories and what distinguishes its runs.

    Logs do not name applications; a job's name, by default that of its script, comes closest. Users add dates, times,
    hexadecimal ids and numbers, each between separators or at an end of the name or of its stem. A number directly
    after a letter, as of a version, distinguishes applications as often as runs, and is kept. Of a workflow engine's
    job the task counts. None if nothing is left, or the name is random.

    >>> [application(name) for name in ("run_017", "bin/run-18.sh", "run-", "cfd-64-2", "solve_v2", "4711")]
    ['run', 'run.sh', 'run', 'cfd', 'solve_v2', None]
    >>> [application(name) for name in ("sim_20261128_0830", "run_2026-12-01T08:15", "7f3a9c-fold", "fold.12.gpu")]
    ['sim', 'run', 'fold', 'fold.gpu']
    >>> [application(name) for name in ("nf-NFCORE_EAGER_BWA_(s1)", "NFCORE_EAGER:BWA", "toil_job_7_sort")]
    ['NFCORE_EAGER_BWA', 'NFCORE_EAGER_BWA', 'sort']
    """
    if is_random(name):
        return None
    file = (task_of(name) or name).rpartition("/")[2]
    stem, dot, extension = file.rpartition(".")
    if not (dot and extension.isascii() and extension.isalpha()):
        stem, dot, extension = file, "", ""
    kept = _OF_RUN.sub("\0", stem)
    parts = [part for part in _EMPTY.split(kept) if part]
    between = next((mark for mark in stem if mark in _SEPARATORS), "")
    return between.join(parts).rstrip(_SEPARATORS) + dot + extension or None


def readable_name(name: str | None, *comments: str | None) -> str | None:
    """Return the name of a job; for a random one, the rule that Snakemake's executor for Slurm wrote to its comment.

    The executor writes ``rule_NAME_wildcards_VALUES`` (``submit_string.py`` in snakemake-executor-plugin-slurm), with
    two underscores before ``wildcards`` in some releases. The name has the form of Snakemake's other executors.

    >>> readable_name("7c9e6679-7425-40de-944b-e07fc1f90ae7", "rule_align_wildcards_s1")
    'snakejob.align'
    """
    if name is not None and is_random(name):
        for comment in comments:
            if comment and (match := _RULE.search(comment)):
                return f"snakejob.{match[1]}"
    return name
