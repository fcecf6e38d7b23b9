"""Ranks of a site's machines, by its method and terms."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from jobsight_predictor.arrays import Booleans, Floats
from jobsight_predictor.reliability.rank import Ranking, ranked
from jobsight_predictor.reliability.resource_vector import Vectors, capacities, vectors
from jobsight_predictor.reliability.success import both, chance_not_to_fail
from jobsight_predictor.reliability.survival import Chances, Survival
from jobsight_server.storage.engine import fetch
from jobsight_server.systems.ranking.learning import read_reliability, survival_of
from jobsight_server.systems.ranking.rows import Name, StoredFacts, load_facts
from jobsight_server.systems.ranking.settings import RankMethod
from jobsight_server.systems.ranking.tables import machines, reliability_state

_STORED = ("since", "busy_processors", "score", "jobs", "events", "seconds", "weighted", "watched", "sound", "failed")
_NUMBERS = (*_STORED, "flops", "cores", "processors")  # a column each; the last are facts
_OF = machines.c
_MADE = {
    "jobs": _OF.successes + _OF.evictions + _OF.failures + _OF.user_failures,
    "watched": _OF.received_at.is_not(None),
}
_NAMED = _OF["id", "cluster", "name", "facts"]
_ROWS = select(*_NAMED, *(_MADE[name] if name in _MADE else _OF[name] for name in _STORED)).order_by(_OF.id)


@dataclass(slots=True)
class MachineColumns:
    """The machines, in the order of their first appearance; NaN is unknown.

    ``since``: begin of the present session, NaN without one. ``watched``: 1 where an agent or an owner ever reported
    the machine's presence. ``survival`` covers no other machines.
    """

    ids: NDArray[np.int64]
    names: list[Name]
    facts: list[StoredFacts]
    numbers: dict[str, Floats]
    survival: Survival
    by_name: dict[Name, int]

    def __len__(self) -> int:
        return len(self.names)


class MachineBoard:
    """The columns at the newest version; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._columns = _columns([], "")

    def columns(self, connection: Connection) -> MachineColumns:
        """Return the present columns, which never change afterwards."""
        with self._lock:
            version = connection.scalar(select(reliability_state.c.version)) or 0
            if version != self._version:
                self._columns = _columns(fetch(connection, _ROWS, {}), read_reliability(connection).hazard)
                self._version = version
            return self._columns


def _columns(rows: list[Any], hazard: str) -> MachineColumns:
    names, facts, values = [], [], []
    for _, cluster, name, text, *stored in rows:
        names.append((cluster, name))
        facts.append(load_facts(text))
        values.append(_numbers(stored, facts[-1]))
    table = np.array(values, dtype=np.float64).reshape(len(rows), len(_NUMBERS)).T.copy()
    numbers = dict(zip(_NUMBERS, table, strict=True))
    survival = survival_of(hazard, len(rows))
    survival.events, survival.seconds, survival.weighted = (numbers[name] for name in ("events", "seconds", "weighted"))
    return MachineColumns(
        np.array([number for number, *_ in rows], dtype=np.int64),
        names,
        facts,
        numbers,
        survival,
        {name: number for number, name in enumerate(names)},
    )


def _numbers(stored: list[Any], facts: StoredFacts) -> list[float]:
    values = (*stored, facts.flops, facts.cores or facts.processors, facts.processors)
    return [np.nan if value is None else float(value) for value in values]


@dataclass(frozen=True, slots=True)
class RankQuestion:
    """A job of ``run_time_s`` on ``processors`` of one machine. ``everywhere``: include busy and absent machines."""

    run_time_s: float
    method: RankMethod
    cluster: str | None = None
    processors: int = 1
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class MachineRanks:
    """Machines in order of their rank, with all terms by the machine's number in ``columns``.

    ``stays`` and ``sound``: probabilities that the machine stays for the run, and that it does not fail the job.
    ``present``: available to jobs, or without an agent; ``free``: has the requested processors; ``asked``: of the
    requested cluster.
    """

    columns: MachineColumns
    ranking: Ranking
    vectors: Vectors
    stays: Chances
    sound: Chances
    present: Booleans
    free: Booleans
    asked: Booleans


def rank_machines(columns: MachineColumns, question: RankQuestion, now: float) -> MachineRanks:
    """Rank all machines that the question allows, best first."""
    numbers = columns.numbers
    age_s = np.maximum(now - numbers["since"], 0.0)
    present = np.isfinite(age_s) | (numbers["watched"] == 0.0)
    # A machine without an agent has an unknown number of processors: it takes one job.
    free = numbers["busy_processors"] + question.processors <= np.nan_to_num(numbers["processors"], nan=1.0)
    asked = np.array([question.cluster in (None, cluster) for cluster, _ in columns.names], dtype=np.bool_)
    speeds = capacities(numbers["flops"], numbers["cores"])
    vector = vectors(age_s, numbers["score"], numbers["jobs"], speeds)
    stays = columns.survival.chance(np.arange(len(columns)), age_s, question.run_time_s)
    sound = chance_not_to_fail(numbers["sound"], numbers["failed"])
    chances = both(stays, sound)
    eligible = asked if question.everywhere else asked & present & free
    if question.method == "grv":
        known = numbers["jobs"] > 0.0
        ranking = ranked(vector.score, vector.low, vector.high, known, eligible)
    else:
        ranking = ranked(chances.mean, chances.low, chances.high, chances.known, eligible)
    if question.everywhere:  # machines that could take the job first
        usable = (present & free)[ranking.order]
        order = np.concatenate([ranking.order[usable], ranking.order[~usable]])
        ranking = Ranking(order, ranking.score, ranking.low, ranking.high, ranking.known)
    return MachineRanks(columns, ranking, vector, stays, sound, present, free, asked)
