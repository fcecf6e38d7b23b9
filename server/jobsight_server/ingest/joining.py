"""Old batches share rows: joined hourly, some nodes at a time, between two groups.

Batches of a boot that follow one another without a gap become one row of up to six hours, compressed: at the agents'
defaults a batch has three readings, and its row takes twenty times the space. The row has only the numbers of its
batches: one that is sent again is a duplicate with any content. Readings of one job's cgroup become a row each half an
hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import astuple
from sqlalchemy import Connection, Engine, select, text

from jobsight_server.storage.engine import fetch, fetch_by_keys, lock_until_commit, write_many
from jobsight_server.storage.job_columns import JobColumns, load_columns, pack_columns
from jobsight_server.storage.readings.samples import CHUNK_S, lock_name
from jobsight_server.storage.readings.sent import deflate, interfaces_of, unpack
from jobsight_server.storage.schema import nodes

_AnyRow = TypeVar("_AnyRow")

AFTER_S = 86400.0
"""Each batch keeps its row for so long: pages show its arrival, ranks use its machine's state."""

_EVERY_S, _LATE_EVERY_S = 3600.0, 86400.0
_JOBS_BACK_S = 7 * 86400.0  # how far back a new process looks for jobs' readings that are not merged


class Joiner:
    """Joins in the thread that stores batches, so nothing else writes to a node meanwhile."""

    def __init__(self, engine: Engine, clock: Callable[[], float], clusters: frozenset[str] | None = None) -> None:
        """``clusters``: join the rows of nodes of these; None is all."""
        self._engine = engine
        self._clock = clock
        query = select(nodes.c.id)
        self._query = query if clusters is None else query.where(nodes.c.cluster.in_(clusters))
        self._waiting: list[int] = []
        self._again = self._late_again = 0.0
        self._batches_until: dict[int, float] = {}
        self.late: list[tuple[int, float]] = []
        """Node and first time of late batches since the last step."""
        # By node, from when to join again once they are old: those of this day and of the one before.
        self._late: dict[int, float] = {}
        self._late_before: dict[int, float] = {}
        self._jobs_until: dict[int, float] = {}

    def step(self) -> bool:
        """Join some rows of some nodes; return whether there is more to do.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database failed; the step remains to be done.
        """
        now = self._clock()
        for node_id, first_time in self.late:
            if (since := first_time - CHUNK_S) < self._batches_until.get(node_id, -inf):
                self._late[node_id] = min(since, self._late.get(node_id, inf))
        self.late.clear()
        if not self._waiting and not self._begin(now):
            return False
        before, chains, read, done = now - AFTER_S, list[_Chain](), 0, 0
        batches_until, jobs_until = dict[int, float](), dict[int, float]()
        with self._engine.begin() as connection:
            for node_id in self._waiting[: -_NODES_AT_ONCE - 1 : -1]:
                found = read_batches(connection, node_id, self._batches_until.get(node_id, -inf), before)
                chains += found.chains
                read += found.rows
                until, rows = self._jobs_until.get(node_id, before - _JOBS_BACK_S), 1
                while rows:
                    until, rows = merge_job_readings(connection, node_id, until, before)
                    read += rows
                    if read >= _AT_ONCE:
                        break
                batches_until[node_id], jobs_until[node_id] = found.until, until
                done += not (found.more or rows)
                if read >= _AT_ONCE:
                    break
            _join(connection, chains)
        self._batches_until |= batches_until
        self._jobs_until |= jobs_until
        del self._waiting[len(self._waiting) - done :]
        return bool(self._waiting)

    def _begin(self, now: float) -> bool:
        """List the nodes, if it is time; return whether there are any."""
        # Earlier than planned only if the clock was set back.
        if self._again - _EVERY_S <= now < self._again:
            return False
        with self._engine.connect().execution_options(reading=True) as connection:
            self._waiting = list(connection.scalars(self._query))
        self._again = now + _EVERY_S
        if not self._late_again - _LATE_EVERY_S <= now < self._late_again:
            for node_id, since in self._late_before.items():
                self._batches_until[node_id] = min(since, self._batches_until.get(node_id, inf))
            self._late_before, self._late = self._late, {}
            self._late_again = now + _LATE_EVERY_S
        return bool(self._waiting)


SILENCE_S = 600.0
"""Longest time between two batches of a row: a longer absence of the machine must stay visible."""

_AT_ONCE = 500  # rows, about; a transaction blocks the database's other writers
_NODES_AT_ONCE = 32
_MOST_READINGS = 4096  # of a row of several batches, about: packing them takes some 10 ms


class _Row(NamedTuple):
    id: int
    boot: int
    sequence: int
    last_sequence: int
    first_time: float
    last_time: float
    samples: int
    received_at: float
    uptime_s: float | None
    owner_present: bool | None
    packed: bytes


_OLD = (
    f"SELECT {', '.join(_Row._fields)} FROM readings WHERE node_id = ? AND first_time >= ? AND first_time < ? "
    "ORDER BY first_time, id LIMIT ?"
)
_BOOTS = (
    "WITH asked(id) AS (VALUES {asked}) SELECT b.id, b.interfaces FROM asked CROSS JOIN boots b WHERE b.id = asked.id"
)
_DELETE = "DELETE FROM readings WHERE id = ?"
_EXTEND = (
    "UPDATE readings SET last_sequence = ?, last_time = ?, samples = ?, received_at = ?, uptime_s = ?, packed = ? "
    "WHERE id = ?"
)


_Chain = Sequence[_Row]
"""Rows to become one."""


class _Batches(NamedTuple):
    """Some rows of a node: those to join, their number, the time from which the next ones are, and whether more are."""

    chains: list[_Chain]
    rows: int
    until: float
    more: bool


def read_batches(connection: Connection, node_id: int, since: float, before: float) -> _Batches:
    """Read some of the node's rows that begin at ``since`` or later and were received before ``before``."""
    lock_until_commit(connection, lock_name(node_id))  # retention may delete rows meanwhile
    rows = [_Row(*row) for row in fetch(connection, _OLD, (node_id, max(since, -1e18), before, _AT_ONCE))]
    then, chains = since, list[_Chain]()
    for chain in _runs(rows, lambda chain, row: row.received_at < before and _continues(chain, row)):
        then = chain[0].first_time  # the last chain may go on
        if len(chain) > 1 and chain[0].received_at < before:
            chains.append(chain)
    return _Batches(chains, len(rows), then, len(rows) == _AT_ONCE and (bool(chains) or then > since))


def _join(connection: Connection, chains: Sequence[_Chain]) -> None:
    """Make one row of each chain."""
    boots = [(boot,) for boot in dict.fromkeys(chain[0].boot for chain in chains)]
    width = {boot: len(interfaces_of(text)) for boot, text in fetch_by_keys(connection, _BOOTS, boots)}
    extended = []
    for chain in chains:
        first, last = chain[0], chain[-1]
        packed = deflate(*unpack([row.packed for row in chain], width[first.boot]))
        received_at, samples = max(row.received_at for row in chain), sum(row.samples for row in chain)
        extended.append((last.last_sequence, last.last_time, samples, received_at, last.uptime_s, packed, first.id))
    write_many(connection, _EXTEND, extended)
    write_many(connection, _DELETE, [(row.id,) for chain in chains for row in chain[1:]])


def _runs(rows: Sequence[_AnyRow], goes_on: Callable[[Sequence[_AnyRow], _AnyRow], bool]) -> Iterator[list[_AnyRow]]:
    """Group the rows, in order, into runs that can become one row each: a row continues a run or begins one."""
    run: list[_AnyRow] = []
    for row in rows:
        if run and not goes_on(run, row):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _continues(chain: Sequence[_Row], row: _Row) -> bool:
    first, before = chain[0], chain[-1]
    return (
        row.boot == before.boot
        and row.sequence == before.last_sequence + 1
        and 0.0 < row.first_time - before.last_time <= SILENCE_S
        and row.owner_present == before.owner_present
        and row.last_time - first.first_time <= CHUNK_S
        and first.samples + len(chain) * row.samples <= _MOST_READINGS
    )


WINDOW_S = 1800.0
"""Longest time of one row of a job's readings."""


class _JobRow(NamedTuple):
    job_id: str
    first_time: float
    last_time: float
    samples: int
    peak_bytes: int | None
    readings: str


_NEXT_JOBS = "SELECT min(last_time) FROM job_samples WHERE node_id = ? AND last_time >= ?"
_OF_JOBS = text(
    f"SELECT {', '.join(_JobRow._fields)} FROM job_samples WHERE node_id = :node_id AND last_time >= :since "
    "AND last_time < :until ORDER BY job_id, first_time"
)
_DELETE_OF_JOB = "DELETE FROM job_samples WHERE node_id = ? AND job_id = ? AND first_time = ?"
_EXTEND_OF_JOB = (
    "UPDATE job_samples SET last_time = ?, samples = ?, peak_bytes = ?, readings = ? "
    "WHERE node_id = ? AND job_id = ? AND first_time = ?"
)


def merge_job_readings(connection: Connection, node_id: int, since: float, before: float) -> tuple[float, int]:
    """Merge the readings of each job of the node in one window of time, which begins at ``since`` or later.

    Return the time from which the next ones are, and the number of rows; 0 if there are no more that end before
    ``before``.
    """
    ((next_time,),) = fetch(connection, _NEXT_JOBS, (node_id, since))
    if next_time is None:
        return since, 0
    begin = next_time // WINDOW_S * WINDOW_S
    if begin + WINDOW_S > before:
        return begin, 0
    window = {"node_id": node_id, "since": begin, "until": begin + WINDOW_S}
    gone: list[tuple[Any, ...]] = []
    extended: list[tuple[Any, ...]] = []
    rows = [_JobRow(*row) for row in connection.execute(_OF_JOBS, window)]
    for group in _runs(rows, _is_same_cgroup):
        if len(group) == 1:
            continue
        parts = [astuple(load_columns(row.readings)) for row in group]
        columns = JobColumns(*([value for part in own for value in part] for own in zip(*parts, strict=True)))
        peaks = [row.peak_bytes for row in group if row.peak_bytes is not None]
        last_time, samples = max(row.last_time for row in group), sum(row.samples for row in group)
        values = (last_time, samples, max(peaks, default=None), pack_columns(columns))
        extended.append((*values, node_id, group[0].job_id, group[0].first_time))
        gone += [(node_id, row.job_id, row.first_time) for row in group[1:]]
    write_many(connection, _DELETE_OF_JOB, gone)
    write_many(connection, _EXTEND_OF_JOB, extended)
    return begin + WINDOW_S, len(rows)


def _is_same_cgroup(group: Sequence[_JobRow], row: _JobRow) -> bool:
    """Return whether the row is of the same cgroup: a job that runs again has another, with its own peak."""
    before = group[-1]
    if row.job_id != before.job_id or row.first_time - before.last_time > SILENCE_S:
        return False
    if (before.peak_bytes or 0) > (row.peak_bytes or 0):
        return False
    known, later = load_columns(before.readings).cpu_s[-1], load_columns(row.readings).cpu_s[0]
    return known is None or later is None or known <= later
