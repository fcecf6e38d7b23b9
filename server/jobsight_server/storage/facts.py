"""Applications by the names of jobs; facts of jobs: numbers known at submission, such as ``input_bytes``, from logs.

In a comment they are a word, ``jobsight:input_bytes=3.1e9,samples=12``. Other values are dropped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from math import isfinite
from string import digits
from typing import NamedTuple

import msgspec

from jobsight_predictor.question import Facts

FACTS_AT_MOST = 32
FACT_NAME = r"[A-Za-z0-9_.-]{1,64}"
_NAME = re.compile(FACT_NAME)
_WORD = re.compile(r"\bjobsight:([^\s;]+)")
_decode = msgspec.json.Decoder(dict[str, float]).decode


class FoundFacts(NamedTuple):
    """Facts as stored, JSON with sorted names; None if there are none. ``dropped`` others were unusable."""

    text: str | None = None
    dropped: int = 0


def found_facts(pairs: Iterable[tuple[str, str]]) -> FoundFacts:
    """Select the facts among ``pairs``; the last one of a repeated name counts.

    >>> found_facts([("samples", "12"), ("a b", "1"), ("reads", "nan"), ("input_bytes", "3.1e9")])
    FoundFacts(text='{"input_bytes":3100000000.0,"samples":12.0}', dropped=2)
    """
    facts: dict[str, float] = {}
    dropped = 0
    for name, text in pairs:
        value = _number(text)
        if value is None or not _NAME.fullmatch(name) or (name not in facts and len(facts) == FACTS_AT_MOST):
            dropped += 1
        else:
            facts[name] = value
    return FoundFacts(msgspec.json.encode(facts, order="sorted").decode() if facts else None, dropped)


def facts_in(*comments: str | None) -> FoundFacts:
    """Find the facts in comments.

    >>> facts_in("jobsight: 2G will do; jobsight:samples=12", None, "jobsight:reads=1e6,x")
    FoundFacts(text='{"reads":1000000.0,"samples":12.0}', dropped=1)
    """
    words = [word for comment in comments if comment for word in _WORD.findall(comment)]
    parts = (part.partition("=") for word in words for part in word.split(","))
    return found_facts((name, value) for name, _, value in parts) if words else FoundFacts()


def facts_of(text: str | None) -> Facts:
    """Stored facts, as questions have them."""
    return tuple(_decode(text).items()) if text else ()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


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
_SEPARATORS = "-_. "
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


def is_random(name: str) -> bool:
    """Return whether a name is a UUID, with or without a prefix, as shared by all jobs of a Snakemake run."""
    return _RANDOM.fullmatch(name) is not None


@lru_cache(4096)
def application(name: str) -> str | None:
    """Return the application in a job's name, without directories and the number of the run.

    Logs do not name applications; a job's name, by default that of its script, comes closest. Users number the runs of
    one application, at the end of the name or before its extension, often after a separator; every other part of a
    name distinguishes applications as often as runs, and is kept. Of a workflow engine's job the task counts. None if
    nothing is left, or the name is random.

    >>> [application(name) for name in ("run_017", "bin/run_18.sh", "run", "run-", "cfd-large", "cfd-64-2", "4711")]
    ['run', 'run.sh', 'run', 'run', 'cfd-large', 'cfd-64', None]
    >>> [application(name) for name in ("nf-NFCORE_EAGER_BWA_(s1)", "NFCORE_EAGER:BWA", "toil_job_7_sort")]
    ['NFCORE_EAGER_BWA', 'NFCORE_EAGER_BWA', 'sort']
    """
    if is_random(name):
        return None
    file = (task_of(name) or name).rpartition("/")[2]
    stem, dot, extension = file.rpartition(".")
    if not (dot and extension.isascii() and extension.isalpha()):
        stem, dot, extension = file, "", ""
    return stem.rstrip(digits).rstrip(_SEPARATORS) + dot + extension or None


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
