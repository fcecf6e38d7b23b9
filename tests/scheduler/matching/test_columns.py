"""What a predicate says of resources that have a field, lack it, or have another kind of value."""

from __future__ import annotations

import pytest

from jobsight_scheduler.matching.columns import ResourceColumns
from jobsight_scheduler.matching.predicates import parse
from jobsight_scheduler.matching.problem import Resource

RESOURCES = [
    Resource("has", "t", {"software": ("mpi", 4.0), "wanted": "mpi", "version": 4.0}),
    Resource("lacks", "t", {"software": ("cuda",), "wanted": "mpi", "version": 5.0}),
    Resource("empty", "t", {"software": (), "wanted": "mpi", "version": 4.0}),
    Resource("unknown", "t", {"software": ("mpi", 4.0)}),
    Resource("without", "t", {"wanted": "mpi", "version": 4.0}),
]


@pytest.mark.parametrize(
    ("where", "satisfied"),
    [
        ("'mpi' in software", ["has", "unknown"]),
        ("'mpi' not in software", ["lacks", "empty"]),
        # Neither holds where either side is unknown.
        ("wanted in software", ["has"]),
        ("wanted not in software", ["lacks", "empty"]),
        ("not (wanted in software)", ["lacks", "empty"]),
        ("version in software", ["has"]),
        ("version not in software", ["lacks", "empty"]),
        ("wanted in ['mpi', 'cuda']", ["has", "lacks", "empty", "without"]),
        ("wanted not in ['mpi']", []),
    ],
)
def test_membership_of_a_list(where: str, satisfied: list[str]) -> None:
    found = ResourceColumns(RESOURCES).satisfied(parse(where))
    assert [resource.name for resource, holds in zip(RESOURCES, found, strict=True) if holds] == satisfied
