"""The stored model: keys and rows of its parts, of users' series and of pending forecasts, read and written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import compress, decompress

import msgspec
from sqlalchemy import Connection, Table, bindparam, delete, select

from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.profile.groups import StoredPart
from jobsight_predictor.question import Question
from jobsight_predictor.series import Series
from jobsight_server.forecasts.request import ForecastConfig
from jobsight_server.storage.engine import fetch_by_keys, insertion, keyed, of_runs, upsert, write_many
from jobsight_server.storage.schema import jobs, model_state, pending_forecasts, series

RunAndMetric = tuple[int, str]
"""Run and metric."""

_SHORT = 200  # bytes; a state from here on is compressed
_ZLIB = 0x78

_READ_STATE = keyed(model_state, ("id",), "state", "until")
_READ_ANSWERS = keyed(series, ("cluster", "user", "metric"), "answer")
_WRITE_STATE = upsert(model_state)
_WRITE_SERIES = upsert(series, ("cluster", "user", "metric", "n", "state", "answer", "updated"))
_WRITE_PENDING = insertion(pending_forecasts, ("run_id", "metric", "state"))

_decode_attempts = msgspec.json.Decoder(list[float]).decode
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class SeriesKey(NamedTuple):
    """Key of one series."""

    cluster: str
    user: str
    metric: str


class StateKey(NamedTuple):
    """Key of one part of the profile of a metric on a cluster."""

    cluster: str
    metric: str
    key: str

    @property
    def id(self) -> int:
        """A digest of 64 bits: two of ten million parts share one with a probability of 3e-6."""
        return _digest(self)


@lru_cache(maxsize=10_000)  # some MB; users ask again
def _digest(key: StateKey) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(key).encode(), digest_size=8).digest(), "big", signed=True)


StateRow = tuple[int, str, str, int | None, bytes]
"""Id, cluster, metric, the last period in which it counts, state as MessagePack."""

StoredState = tuple[bytes, int | None]
"""State as MessagePack, and the last period in which it counts."""

StoredStates = dict[tuple[str, str], dict[str, StoredState]]
"""By (cluster, metric) and key."""

PendingRow = tuple[int, str, bytes]
"""Run, metric, forecast as MessagePack."""

SeriesRow = tuple[str, str, str, int, str, str, float | None]
"""Cluster, user, metric, number of values, state as JSON, answer as JSON, end of the last job learned."""


def state_of(stored: Mapping[str, StoredState]) -> dict[str, StoredPart]:
    """Return stored state, by key, as ``Profile.load`` takes it."""
    return {key: StoredPart(unpacked(state), until) for key, (state, until) in stored.items()}


def stored_states(connection: Connection, wanted: Iterable[StateKey]) -> StoredStates:
    """Read state: (cluster, metric) -> key -> state as stored."""
    asked = {name.id: name for name in wanted}
    found: StoredStates = {}
    for number, *stored in fetch_by_keys(connection, _READ_STATE, [(number,) for number in asked]):
        cluster, metric, key = asked[number]
        found.setdefault((cluster, metric), {})[key] = tuple(stored)
    return found


def read_answers(connection: Connection, keys: Sequence[SeriesKey]) -> dict[SeriesKey, str]:
    """Read the answers stored when these series last learned; series that never did are left out."""
    return {SeriesKey(*key): answer for *key, answer in fetch_by_keys(connection, _READ_ANSWERS, keys)}


def read_series(
    connection: Connection, users: Iterable[tuple[str, str]]
) -> Iterator[tuple[SeriesKey, Series, float | None]]:
    """Read every series of these (cluster, user), with the end of the last job learned."""
    for cluster, user in users:
        query = select(series.c.metric, series.c.state, series.c.updated).where(
            series.c.cluster == cluster, series.c.user == user
        )
        for metric, state, updated in connection.execute(query):
            yield SeriesKey(cluster, user, metric), Series.from_state(json.loads(state)), updated


def read_pending(
    connection: Connection, runs: Sequence[int], metrics: Sequence[str] | None = None
) -> dict[RunAndMetric, PendingForecast]:
    """Read the pending forecasts of these runs, in these metrics or in all."""
    query = select(pending_forecasts).where(pending_forecasts.c.run_id.in_(bindparam("runs", expanding=True)))
    if metrics is not None:
        query = query.where(pending_forecasts.c.metric.in_(metrics))
    rows, of_state = of_runs(connection, query, runs), dict[bytes, PendingForecast]()
    for _, _, state in rows:  # jobs of a burst share one
        if state not in of_state:
            of_state[state] = PendingForecast.from_state(_decode(state))
    return {(run_id, metric): of_state[state] for run_id, metric, state in rows}


def state_row(cluster: str, metric: str, key: str, part: StoredPart) -> StateRow:
    """Make a row of the table ``model_state``."""
    state = _encode(part.state)
    stored = state if len(state) < _SHORT else compress(state, 1)
    return StateKey(cluster, metric, key).id, cluster, metric, part.until, stored


def pending_row(key: RunAndMetric, forecast: PendingForecast) -> PendingRow:
    """Make a row of the table ``pending_forecasts``."""
    return *key, _encode(forecast.state())


def unpacked(state: bytes) -> Any:
    """Return a stored state as JSON values."""
    # A state is a list or a table; as MessagePack none begins with the first byte of zlib's format.
    return _decode(decompress(state) if state[0] == _ZLIB else state)


def drop_old_state(connection: Connection, cluster: str, metric: str, period: int) -> None:
    """Delete the expired parts of a profile."""
    of_profile = (model_state.c.cluster == cluster, model_state.c.metric == metric)
    connection.execute(delete(model_state).where(*of_profile, model_state.c.until < period))


def write_learned(
    connection: Connection,
    states: Iterable[StateRow],
    of_users: Iterable[SeriesRow],
    pending: Sequence[PendingRow],
    learned_runs: Sequence[int],
) -> None:
    """Store state and series, replacing existing ones, and forecasts of runs without one.

    Deletes the pending forecasts of ``learned_runs``, and of runs that will never be learned.
    """
    write_many(connection, _WRITE_STATE, sorted(states))  # by id: each page is written once
    write_many(connection, _WRITE_SERIES, list(of_users))
    forget_learned(connection, pending_forecasts, learned_runs, ("queued", "running", "ended"))
    write_many(connection, _WRITE_PENDING, pending)


def forget_learned(connection: Connection, table: Table, learned_runs: Sequence[int], states: Sequence[str]) -> None:
    """Delete the forecasts in ``table`` of ``learned_runs``, and of runs that will not be scored: in none of these
    ``states``, or learned by ``rebuild`` meanwhile."""
    if learned_runs:
        query = delete(table).where(table.c.run_id.in_(bindparam("runs", expanding=True)))
        of_runs(connection, query, learned_runs)
        own, is_over = table.alias(), jobs.c.profiled | jobs.c.state.not_in(states)
        never = select(own.c.run_id).join(jobs, jobs.c.id == own.c.run_id).where(is_over)
        connection.execute(delete(table).where(table.c.run_id.in_(never)))


def recommended_requests(bound: float | None, attempts: str | None) -> tuple[float, ...]:
    """Return the requests recommended at submission, by columns of ``profiles``: one an attempt; empty if unknown."""
    if bound is None:
        return ()
    return (bound,) if attempts is None else tuple(_decode_attempts(attempts))


@dataclass(slots=True)
class KeptProfile:
    """A profile with some parts of the stored state, which are here as stored, the last used last."""

    profile: Profile
    parts: dict[str, StoredState] = field(default_factory=dict)

    def take(self, found: Mapping[str, StoredState]) -> bool:
        """Load the parts that have changed; return whether a period has ended since others were loaded."""
        period, had_parts = self.profile.clock.period, bool(self.parts)
        changed = {key: stored for key, stored in found.items() if self.parts.pop(key, None) != stored}
        if changed:
            self.profile.load(state_of(changed))
        self.parts |= found
        return had_parts and self.profile.clock.period != period

    def keep_last(self, number: int) -> None:
        """Drop all but the parts last used."""
        old = list(self.parts)[: len(self.parts) - number]
        for key in old:
            del self.parts[key]
        self.profile.forget(old)


KeptProfiles = dict[tuple[str, str], KeptProfile]
"""By cluster and metric."""


def read_profiles(
    connection: Connection,
    config: ForecastConfig,
    asked: Iterable[tuple[str, str, Question]],
    kept: KeptProfiles | None = None,
) -> dict[tuple[str, str], Profile | None]:
    """Return, by (cluster, metric), a profile with the state for these questions; None if the stored model is
    outdated.

    Of the profiles in ``kept``, which are added to, only those parts are loaded that have changed.
    """
    kept = {} if kept is None else kept
    questions = list(dict.fromkeys(asked))
    wanted: dict[tuple[str, str], dict[str, None]] = {}
    for cluster, metric, question in questions:
        place = cluster, metric
        if place not in kept:
            kept[place] = KeptProfile(config.profile(metric))
        wanted.setdefault(place, {}).update(dict.fromkeys(kept[place].profile.state_keys(question)))
    stored = stored_states(connection, [StateKey(*place, key) for place, keys in wanted.items() for key in keys])
    usable: dict[tuple[str, str], Profile | None] = {}
    for place, keys in wanted.items():
        found = stored.get(place, {})
        has_expired = any(key in kept[place].parts for key in keys if key not in found)
        try:
            if has_expired or kept[place].take(found):
                kept[place] = KeptProfile(config.profile(place[1]))
                kept[place].take(found)
            usable[place] = kept[place].profile
        except ValueError:
            del kept[place]
            usable[place] = None
    return usable
