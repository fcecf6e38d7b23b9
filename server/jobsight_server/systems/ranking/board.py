"""All machines in memory, as columns, for questions about their ranks; follows the database by version.

A process keeps one. Only rows with a newer version are read again, so a question usually costs one look at the
version and some arithmetic over the columns.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jobsight_predictor.reliability.machine_facts import FactTable, fact_table
from jobsight_predictor.reliability.resource_vector import Floats
from jobsight_predictor.reliability.survival import Survival
from jobsight_server.storage.engine import fetch
from jobsight_server.systems.ranking.facts import StoredFacts, load_facts
from jobsight_server.systems.ranking.learning import survival_of
from jobsight_server.systems.ranking.rows import Name
from jobsight_server.systems.ranking.state import read_reliability

# One column of numbers each.
_NUMBERS = (
    "since",
    "busy_processors",
    "score",
    "jobs",
    "events",
    "seconds",
    "weighted",
    "watched",
    "flops",
    "cores",
    "processors",
    "sound",
    "failed",
)
_VERSION = "SELECT version FROM reliability_state"
_ROWS = (
    "SELECT id, cluster, name, facts, since, busy_processors, score, successes + evictions + failures + user_failures, "
    "events, seconds, weighted, received_at, sound, failed FROM machines WHERE version > ? ORDER BY id"
)


@dataclass(slots=True)
class MachineColumns:
    """The machines, numbered in the order in which they became known; what is unknown is NaN.

    ``since``: begin of the present session, NaN while there is none. ``watched``: 1 where an agent, or a report of its
    owner, ever reported its presence. ``survival`` covers no other machines.
    """

    ids: NDArray[np.int64]
    names: list[Name]
    facts: list[StoredFacts]
    numbers: dict[str, Floats]
    offers: FactTable
    survival: Survival
    place: dict[int, int] = field(default_factory=dict)
    by_name: dict[Name, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)


class MachineBoard:
    """The columns at the newest version; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._columns = _none()

    def columns(self, connection: Connection) -> MachineColumns:
        """The columns as of now, which no one changes any more."""
        with self._lock:
            found = fetch(connection, _VERSION, ())
            version = found[0][0] if found else 0
            if version < self._version:  # another database took this one's place
                self._version = 0
                self._columns = _none()
            if version > self._version:
                self._columns = _merged(
                    self._columns, fetch(connection, _ROWS, (self._version,)), read_reliability(connection).hazard
                )
                self._version = version
            return self._columns


def _merged(before: MachineColumns, rows: list[Any], hazard: str) -> MachineColumns:
    """The columns with these rows in place of older ones, or behind them."""
    names, facts = list(before.names), list(before.facts)
    place, by_name = dict(before.place), dict(before.by_name)
    new = sum(row[0] not in place for row in rows)
    table = np.vstack([np.concatenate([before.numbers[name], np.full(new, np.nan)]) for name in _NUMBERS])
    ids = np.concatenate([before.ids, np.zeros(new, dtype=np.int64)])
    same_facts = new == 0
    for row in rows:
        number = place.get(row[0])
        if number is None:
            number = place[row[0]] = len(names)
            names.append((row[1], row[2]))
            facts.append(load_facts(row[3]))
            by_name[row[1], row[2]] = number
            ids[number] = row[0]
        else:
            own = load_facts(row[3])
            same_facts = same_facts and own == facts[number]
            facts[number] = own
        table[:, number] = _numbers(row, facts[number])
    offers = before.offers if same_facts else fact_table([one.for_requirements() for one in facts])
    columns = dict(zip(_NUMBERS, table, strict=True))
    return MachineColumns(ids, names, facts, columns, offers, _survival(columns, hazard), place, by_name)


def _none() -> MachineColumns:
    numbers = {name: np.zeros(0) for name in _NUMBERS}
    return MachineColumns(np.zeros(0, dtype=np.int64), [], [], numbers, fact_table([]), Survival(0))


def _survival(numbers: dict[str, Floats], hazard: str) -> Survival:
    survival = survival_of(hazard, len(numbers["events"]))
    survival.events, survival.seconds, survival.weighted = (numbers[name] for name in ("events", "seconds", "weighted"))
    return survival


def _numbers(row: Any, facts: StoredFacts) -> list[float]:
    since, busy, score, jobs, events, seconds, weighted, received_at, sound, failed = row[4:]
    values = (
        since,
        busy,
        score,
        jobs,
        events,
        seconds,
        weighted,
        received_at is not None,
        facts.flops,
        facts.cores or facts.processors,
        facts.processors,
        sound,
        failed,
    )
    return [np.nan if value is None else float(value) for value in values]
