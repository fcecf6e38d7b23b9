"""Kinds of jobs that can run on some of a machine's nodes only, by where the jobs on record ran."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from jobsight_predictor.arrays import Floats

LEAST_EACH = 5
"""Runs that waited, for each node of a machine, from which on jobs are taken to need the nodes on which they ran: a job
that waits takes what is free first, and leaves out a node that it could take with a chance of 1 in 150."""

MOST = 0.5
"""Largest share of the nodes that is taken to be a kind of its own: more hardly limit a job, and cost time."""
WAITED_S = 60.0


def kinds_of(
    keys: Sequence[tuple[str, ...]], nodes_of: Sequence[Sequence[int]], waited: Sequence[bool], nodes: int
) -> tuple[list[int], Floats]:
    """Return the kind of each job, and 1 for each node on which a kind can run, shape (kinds, nodes), 0 elsewhere.

    ``keys``, from general to specific, such as a job's queue and application. ``nodes_of`` each
    job, and whether it ``waited``.
    """
    hits: defaultdict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
    runs: Counter[tuple[str, ...]] = Counter()
    for key, places, has_waited in zip(keys, nodes_of, waited, strict=True):
        for part in _parts(key):
            hits[part].update(places)
            runs[part] += len(places) * has_waited
    kinds: dict[frozenset[int], int] = {}
    of_key = {key: kinds.setdefault(_needed(key, hits, runs, nodes), len(kinds)) for key in dict.fromkeys(keys)}
    masks = np.zeros((len(kinds), nodes))
    for needed, kind in kinds.items():
        masks[kind, list(needed)] = 1.0
    return [of_key[key] for key in keys], masks


def _parts(key: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (key[: length + 1] for length in range(len(key)))


def _needed(
    key: tuple[str, ...], hits: dict[tuple[str, ...], Counter[int]], runs: Counter[tuple[str, ...]], nodes: int
) -> frozenset[int]:
    """Return the nodes that jobs of this key need."""
    found = frozenset(range(nodes))
    for part in _parts(key):
        if runs[part] >= LEAST_EACH * len(found) and len(hits[part]) <= MOST * len(found):
            found = frozenset(hits[part])
    return found
