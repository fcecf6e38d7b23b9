"""Parts of profiles in the table ``profile_parts``, read and written by name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, text

from jobsight_predictor.templates import Question
from jobsight_server.forecasts.method import Method
from jobsight_server.storage.fetch import fetch, write_many

# Three parameters a part; older SQLite takes 999 in all.
_AT_ONCE = 300
# Names hold what users call their jobs; PostgreSQL refuses index entries above 2,704 bytes.
_LONGEST = 500

_STORE = (
    "INSERT INTO profile_parts (cluster, metric, part, state) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (cluster, metric, part) DO UPDATE SET state = excluded.state"
)

_LEARNED = text("SELECT EXISTS (SELECT 1 FROM profiles WHERE value IS NOT NULL AND NOT shown_only)")
# The condition of the index on ``shown_only``, so that it is a look-up.
_APPORTIONED_OTHERWISE = text(
    "SELECT EXISTS (SELECT 1 FROM profiles WHERE attribution = 'apportioned' AND value IS NOT NULL "
    "AND shown_only = :learned)"
)

_encode = msgspec.json.Encoder().encode


PartRow = tuple[str, str, str, str]
"""A row of the table: cluster, metric, key of the part, its state as JSON."""


class Part(NamedTuple):
    """Names one part of the profile of a metric on a cluster."""

    cluster: str
    metric: str
    name: str


def read_parts(connection: Connection, wanted: Iterable[Part]) -> dict[tuple[str, str], dict[str, Any]]:
    """Those of the parts that are stored: (cluster, metric) -> name -> state, as ``Profile.load`` takes them."""
    asked = {(part.cluster, part.metric, _key(part.name)): part for part in wanted}
    keys = list(asked)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for begin in range(0, len(keys), _AT_ONCE):
        some = keys[begin : begin + _AT_ONCE]
        # Asked first and joined in this order: SQLite would scan the whole table for (..) IN (VALUES ..).
        query = (
            f"WITH asked(cluster, metric, part) AS (VALUES {','.join(['(?,?,?)'] * len(some))}) "
            "SELECT p.cluster, p.metric, p.part, p.state FROM asked CROSS JOIN profile_parts p "
            "WHERE p.cluster = asked.cluster AND p.metric = asked.metric AND p.part = asked.part"
        )
        for cluster, metric, key, state in fetch(connection, query, tuple(value for k in some for value in k)):
            part = asked[cluster, metric, key]
            found.setdefault((part.cluster, part.metric), {})[part.name] = msgspec.json.decode(state)
    return found


def part_row(cluster: str, metric: str, name: str, state: Any) -> PartRow:
    """A row of the table."""
    return cluster, metric, _key(name), _encode(state).decode()


def write_parts(connection: Connection, rows: Iterable[PartRow]) -> None:
    """Stores parts made by ``part_row``, over those that were there."""
    write_many(connection, _STORE, list(rows))


def made_otherwise(connection: Connection, method: Method) -> bool:
    """Whether the stored model is not what ``method`` would have made: it has to be retrained on all jobs then."""
    if connection.scalar(_APPORTIONED_OTHERWISE, {"learned": method.learn_apportioned}):
        return True
    learned = [tuple(row) for row in connection.execute(text("SELECT DISTINCT cluster, metric FROM series"))]
    if not learned:  # brought up from tables of an older version, perhaps
        return bool(connection.scalar(_LEARNED))
    (site, *_) = method.profile("runtime").parts(Question())
    stored = read_parts(connection, [Part(cluster, metric, site) for cluster, metric in learned])
    for cluster, metric in learned:
        if (cluster, metric) not in stored:
            return True
        try:
            method.profile(metric).load(stored[cluster, metric])
        except ValueError:
            return True
    return False


def _key(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:200]}#{hashlib.sha256(name.encode()).hexdigest()}"
