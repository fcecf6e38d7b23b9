"""The survival model in the database: what it knows of each machine in the machine's row, the rest in one text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, text

from jobsight_predictor.reliability.exposure import Exposure
from jobsight_predictor.reliability.success import faded
from jobsight_predictor.reliability.survival import Survival, SurvivalSettings
from jobsight_server.reliability.config import RankConfig
from jobsight_server.reliability.rows import MachineRow
from jobsight_server.reliability.state import ReliabilityState
from jobsight_server.storage.fetch import fetch

_AT_ONCE = 2000

_ROWS = "SELECT id, cluster, events, seconds, weighted FROM machines ORDER BY id"
_FADE = text(
    "UPDATE machines SET events = events * :factor, seconds = seconds * :factor, weighted = weighted * :factor, "
    "sound = sound * :factor, failed = failed * :factor, version = :version "
    "WHERE seconds > 0 OR events > 0 OR sound > 0 OR failed > 0"
)
DAY_S = 86_400.0
_UPDATE = text(
    "UPDATE machines SET events = :events, seconds = :seconds, weighted = :weighted, "
    "learned_until = :learned_until, version = :version WHERE id = :id"
)


class StoredHazard(msgspec.Struct):
    """What all machines share; a group of machines is a cluster, numbered by its place in ``clusters``."""

    clusters: list[str]
    hour_events: list[list[float]]
    hour_weighted: list[list[float]]
    age_events: list[float]
    age_weighted: list[float]


_decode = msgspec.json.Decoder(StoredHazard).decode


def learn(
    connection: Connection, config: RankConfig, state: ReliabilityState, learners: Iterable[MachineRow], version: int
) -> None:
    """Has the survival model learn the stretches of these machines, whose rows must be written; changes ``state``."""
    some = [machine for machine in learners if machine.stretches]
    if not some:
        return
    rows = fetch(connection, _ROWS, ())
    clusters = clusters_of(state.hazard, (row[1] for row in rows))
    survival = survival_of(state.hazard, clusters, [clusters.index(row[1]) for row in rows], config.survival)
    survival.events[:], survival.seconds[:], survival.weighted[:] = np.array([row[2:] for row in rows], float).T
    place = {row[0]: number for number, row in enumerate(rows)}
    for begin in range(0, len(some), _AT_ONCE):
        survival.learn(_exposure(some[begin : begin + _AT_ONCE], place))
    state.hazard, state.hazard_version = _dump(survival, clusters), version
    connection.execute(_UPDATE, [_learned(machine, survival, place, version) for machine in some])
    for machine in some:
        machine.stretches = []


def fade(connection: Connection, state: ReliabilityState, now: float, version: int) -> bool:
    """Once a day, what is known of machines counts less; returns whether it now does. Changes ``state``."""
    passed, state.faded_at = now - state.faded_at, state.faded_at or now
    if state.faded_at == now or passed < DAY_S:
        return False
    state.faded_at, factor = now, faded(passed)
    connection.execute(_FADE, {"factor": factor, "version": version})
    if state.hazard:
        stored = msgspec.to_builtins(_decode(state.hazard))
        sums = {name: (np.array(values) * factor).tolist() for name, values in stored.items() if name != "clusters"}
        state.hazard, state.hazard_version = msgspec.json.encode(stored | sums).decode(), version
    return True


def clusters_of(hazard: str, more: Iterable[str]) -> list[str]:
    """The clusters in the order of their numbers, with the new ones at the end."""
    return list(dict.fromkeys([*(_decode(hazard).clusters if hazard else ()), *more]))


def survival_of(hazard: str, clusters: list[str], groups: Any, settings: SurvivalSettings) -> Survival:
    """The model of machines in these groups, with what all machines share; of the machines it knows nothing."""
    survival = Survival(np.asarray(groups, dtype=np.int64), settings)
    hours = survival.hour_events.shape[1]
    for name in ("hour_events", "hour_weighted"):
        setattr(survival, name, np.zeros((max(len(clusters), 1), hours)))
    if hazard:
        stored = _decode(hazard)
        for name in ("hour_events", "hour_weighted"):
            table = np.array(getattr(stored, name), dtype=np.float64)
            getattr(survival, name)[: len(table)] = table
        survival.age_events[:] = stored.age_events
        survival.age_weighted[:] = stored.age_weighted
    return survival


def _exposure(machines: list[MachineRow], place: dict[int, int]) -> Exposure:
    rows = [(place[machine.id or 0], stretch) for machine in machines for stretch in machine.stretches]
    return Exposure(
        np.array([number for number, _ in rows], dtype=np.int64),
        np.array([one.began for _, one in rows]),
        np.array([one.since for _, one in rows]),
        np.array([one.until for _, one in rows]),
        np.array([one.ended for _, one in rows], dtype=np.bool_),
    )


def _learned(machine: MachineRow, survival: Survival, place: dict[int, int], version: int) -> dict[str, Any]:
    number = place[machine.id or 0]
    machine.events, machine.seconds = float(survival.events[number]), float(survival.seconds[number])
    machine.weighted = float(survival.weighted[number])
    return {
        "id": machine.id,
        "events": machine.events,
        "seconds": machine.seconds,
        "weighted": machine.weighted,
        "learned_until": machine.learned_until,
        "version": version,
    }


def _dump(survival: Survival, clusters: list[str]) -> str:
    stored = StoredHazard(
        clusters,
        survival.hour_events.tolist(),
        survival.hour_weighted.tolist(),
        survival.age_events.tolist(),
        survival.age_weighted.tolist(),
    )
    return msgspec.json.encode(stored).decode()
