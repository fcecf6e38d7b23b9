"""Choices made from a log by simulating it: the step sizes of Algorithm 1, and the fields of similarity groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from jobsight_papers.overprovisioning.cluster.cases import MemoryCase
from jobsight_papers.overprovisioning.source import JobSource, jobs_of
from jobsight_predictor.question import FIELDS

ALPHAS = (1.1, 1.2, 1.5, 2.0, 4.0, 10.0)
BETAS = (0.0, 0.5, 0.9)

Task = tuple[MemoryCase, JobSource]


def step_cases(case: MemoryCase) -> Iterator[MemoryCase]:
    """Yield ``case`` with every alpha and beta, and with both ways to retry."""
    for alpha in ALPHAS:
        for beta in BETAS:
            yield replace(case, estimator="successive-approximation", alpha=alpha, beta=beta)
    yield replace(case, estimator="successive-approximation", retry="estimate")


def field_sets(source: JobSource) -> list[tuple[str, ...]]:
    """Return every set of the fields that differ between the jobs of ``source``, smaller ones first."""
    questions = jobs_of(source).questions
    known = [name for name in FIELDS if len({getattr(question, name) for question in questions}) > 1]
    return [fields for size in range(1, len(known) + 1) for fields in combinations(known, size)]


def ranked(rows: Iterable[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Rank by utilisation, highest first; among equals, fewer failures first."""
    return sorted(rows, key=lambda row: (-row["utilisation"], row["failed_share"]))
