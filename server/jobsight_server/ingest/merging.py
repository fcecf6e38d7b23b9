"""Old readings and batches share rows: packed hourly, a node at a time, between two groups.

Batches of a boot that follow one another without a gap become one row: at the agents' defaults a batch has three
readings, and its row takes ten times the space of one. The row keeps the numbers of its batches and the counters at
both ends, for late batches that arrive before or after it. It has only the number of a batch within it: sent again,
that is a duplicate with any content. Readings of one job's cgroup become a row each half an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from math import ceil, inf
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, select, text

from jobsight_server.ingest.counters import BatchEnds, dump_ends, load_ends
from jobsight_server.storage.engine import fetch, lock_until_commit, write_many
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.job_columns import JobColumns, load_columns, pack_columns
from jobsight_server.storage.sample_columns import MASK, NAMES, WHOLE, SampleColumns, joined
from jobsight_server.storage.samples import CHUNK_S, lock_name
from jobsight_server.storage.schema import nodes

_AnyRow = TypeVar("_AnyRow")

AFTER_S = 86400.0
"""Each batch keeps its row for so long: pages show its arrival, ranks use its machine's state."""

_EVERY_S, _ALL_EVERY_S = 3600.0, 86400.0
_JOBS_BACK_S = 7 * 86400.0  # how far back a new process looks for jobs' readings that are not merged


class Merger:
    """Merges in the thread that stores batches, so nothing else writes to a node meanwhile."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        shifted: Callable[[Connection], Container[int]],
        clusters: frozenset[str] | None = None,
    ) -> None:
        """``shifted``: the nodes with pending shifts, where the ends of some batches still lack an amount.

        ``clusters``: merge the nodes of these; None is all.
        """
        self._engine = engine
        self._clock = clock
        self._shifted = shifted
        query = select(nodes.c.id)
        self._query = query if clusters is None else query.where(nodes.c.cluster.in_(clusters))
        self._waiting: list[int] = []
        self._again = self._all_again = 0.0
        self._batches_until: dict[int, float] = {}
        self._jobs_until: dict[int, float] = {}

    def step(self) -> bool:
        """Merge some rows of one node; return whether there is more to do.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database failed; the step remains to be done.
        """
        now = self._clock()
        if not self._waiting and not self._begin(now):
            return False
        node_id, before, more = self._waiting[-1], now - AFTER_S, False
        since = self._batches_until.get(node_id, -inf)
        of_jobs = self._jobs_until.get(node_id, before - _JOBS_BACK_S)
        with self._engine.begin() as connection:
            if node_id not in self._shifted(connection):
                since, more = merge_batches(connection, node_id, since, before)
            of_jobs, more_of_jobs = merge_job_readings(connection, node_id, of_jobs, before)
            more |= pack_samples(connection, node_id)
        self._batches_until[node_id], self._jobs_until[node_id] = since, of_jobs
        if not (more or more_of_jobs):
            self._waiting.pop()
        return bool(self._waiting)

    def _begin(self, now: float) -> bool:
        """List the nodes, if it is time; return whether there are any."""
        # Earlier than planned only if the clock was set back.
        if self._again - _EVERY_S <= now < self._again:
            return False
        with self._engine.connect().execution_options(reading=True) as connection:
            self._waiting = list(connection.scalars(self._query))
        self._again = now + _EVERY_S
        if not self._all_again - _ALL_EVERY_S <= now < self._all_again:
            self._batches_until = {}  # late ones are old by now, too
            self._all_again = now + _ALL_EVERY_S
        return bool(self._waiting)


LONGEST_S = 6 * 3600.0
"""Longest time of one row: retention deletes whole rows."""

SILENCE_S = 600.0
"""Longest time between two batches of a row: a longer absence of the machine must stay visible."""

_AT_ONCE = 500


class _Row(NamedTuple):
    boot_id: str
    sequence: int
    last_sequence: int | None
    first_time: float
    last_time: float
    samples: int
    received_at: float
    counters: str
    uptime_s: float | None
    owner_present: bool | None

    @property
    def last(self) -> int:
        return self.sequence if self.last_sequence is None else self.last_sequence


_OLD = text(
    f"SELECT {', '.join(_Row._fields)} FROM batches WHERE node_id = :node_id AND first_time >= :since "
    f"AND received_at < :before ORDER BY first_time LIMIT {_AT_ONCE}"
)
_DELETE = "DELETE FROM batches WHERE node_id = ? AND boot_id = ? AND sequence = ?"
_EXTEND = (
    "UPDATE batches SET last_sequence = ?, last_time = ?, samples = ?, received_at = ?, counters = ?, uptime_s = ? "
    "WHERE node_id = ? AND boot_id = ? AND sequence = ?"
)


def merge_batches(connection: Connection, node_id: int, since: float, before: float) -> tuple[float, bool]:
    """Merge some of the node's batches that begin at ``since`` or later and were received before ``before``.

    Return the time from which the next ones are, and whether there are more.
    """
    rows = [_Row(*row) for row in connection.execute(_OLD, {"node_id": node_id, "since": since, "before": before})]
    gone: list[tuple[Any, ...]] = []
    extended: list[tuple[Any, ...]] = []
    then = since
    for chain in _runs(rows, _continues):
        first, last = chain[0], chain[-1]
        ends = _joined(chain)
        then = first.first_time if ends else last.first_time  # the last of all may go on
        if ends is None:
            continue
        gone += [(node_id, row.boot_id, row.sequence) for row in chain[1:]]
        values = (last.last, last.last_time, sum(row.samples for row in chain), max(row.received_at for row in chain))
        extended.append((*values, dump_ends(ends), last.uptime_s, node_id, first.boot_id, first.sequence))
    write_many(connection, _DELETE, gone)
    write_many(connection, _EXTEND, extended)
    return then, len(rows) == _AT_ONCE and (bool(gone) or then > since)


def _runs(rows: Sequence[_AnyRow], goes_on: Callable[[Sequence[_AnyRow], _AnyRow], bool]) -> Iterator[list[_AnyRow]]:
    """Yield the rows, in order, in runs that can become one each: a row goes on with a run or begins one."""
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
        row.boot_id == before.boot_id
        and row.sequence == before.last + 1
        and 0.0 < row.first_time - before.last_time <= SILENCE_S
        and row.owner_present == before.owner_present
        and row.last_time - first.first_time <= LONGEST_S
    )


def _joined(chain: Sequence[_Row]) -> BatchEnds | None:
    """Return the counters at both ends of the chain; None if it stays as it is."""
    if len(chain) == 1:
        return None
    first, last = load_ends(chain[0].counters), load_ends(chain[-1].counters)
    if first is None or last is None or first.interfaces != last.interfaces:
        return None
    return BatchEnds(first.first, last.last, last.interfaces)


WINDOW_S = 1800.0
"""Longest time of one row of a job's readings."""


class _JobRow(NamedTuple):
    job_id: str
    first_time: float
    last_time: float
    samples: int
    peak_bytes: int | None
    readings: str


_NEXT_JOBS = text("SELECT min(last_time) FROM job_samples WHERE node_id = :node_id AND last_time >= :since")
_OF_JOBS = text(
    f"SELECT {', '.join(_JobRow._fields)} FROM job_samples WHERE node_id = :node_id AND last_time >= :since "
    "AND last_time < :until ORDER BY job_id, first_time"
)
_DELETE_OF_JOB = "DELETE FROM job_samples WHERE node_id = ? AND job_id = ? AND first_time = ?"
_EXTEND_OF_JOB = (
    "UPDATE job_samples SET last_time = ?, samples = ?, peak_bytes = ?, readings = ? "
    "WHERE node_id = ? AND job_id = ? AND first_time = ?"
)


def merge_job_readings(connection: Connection, node_id: int, since: float, before: float) -> tuple[float, bool]:
    """Merge the readings of each job of the node in one window of time, which begins at ``since`` or later.

    Return the time from which the next ones are, and whether there are more that end before ``before``.
    """
    next_time = connection.execute(_NEXT_JOBS, {"node_id": node_id, "since": since}).scalar()
    if next_time is None:
        return since, False
    begin = next_time // WINDOW_S * WINDOW_S
    if begin + WINDOW_S > before:
        return begin, False
    window = {"node_id": node_id, "since": begin, "until": begin + WINDOW_S}
    gone: list[tuple[Any, ...]] = []
    extended: list[tuple[Any, ...]] = []
    for group in _runs([_JobRow(*row) for row in connection.execute(_OF_JOBS, window)], _is_same_cgroup):
        if len(group) == 1:
            continue
        columns, peaks = _concatenated(group), [row.peak_bytes for row in group if row.peak_bytes is not None]
        last_time, samples = max(row.last_time for row in group), sum(row.samples for row in group)
        values = (last_time, samples, max(peaks, default=None), pack_columns(columns))
        extended.append((*values, node_id, group[0].job_id, group[0].first_time))
        gone += [(node_id, row.job_id, row.first_time) for row in group[1:]]
    write_many(connection, _DELETE_OF_JOB, gone)
    write_many(connection, _EXTEND_OF_JOB, extended)
    return begin + WINDOW_S, True


def _is_same_cgroup(group: Sequence[_JobRow], row: _JobRow) -> bool:
    """Return whether the row is of the same cgroup: a job that runs again has another, with its own peak."""
    before = group[-1]
    if row.job_id != before.job_id or row.first_time - before.last_time > SILENCE_S:
        return False
    if (before.peak_bytes or 0) > (row.peak_bytes or 0):
        return False
    known, later = load_columns(before.readings).cpu_s[-1], load_columns(row.readings).cpu_s[0]
    return known is None or later is None or known <= later


def _concatenated(rows: Sequence[_JobRow]) -> JobColumns:
    joined = JobColumns([], [], [], [])
    for row in rows:
        columns = load_columns(row.readings)
        joined.time += columns.time
        joined.cpu_s += columns.cpu_s
        joined.used += columns.used
        joined.cache += columns.cache
    return joined


KEPT_S = 3600.0
"""Before the newest reading: these stay rows, as do all of the part of the time in which it is."""

_READINGS_AT_ONCE = 4096  # readings; a chunk of them takes some 10 ms

_SPAN = "SELECT min(time), max(time) FROM samples WHERE node_id = ?"
_ROWS = (
    f"SELECT {', '.join(f'{name} & {MASK}' if name in WHOLE else name for name in NAMES)} FROM samples "
    f"WHERE node_id = ? AND time < ? ORDER BY time LIMIT {_READINGS_AT_ONCE}"
)
_CHUNKS = (
    "SELECT first_time, packed FROM sample_chunks WHERE node_id = ? AND first_time >= ? AND first_time <= ? "
    "AND last_time >= ? ORDER BY first_time"
)
_DELETE_ROWS = "DELETE FROM samples WHERE node_id = ? AND time <= ?"
_DELETE_CHUNK = "DELETE FROM sample_chunks WHERE node_id = ? AND first_time = ?"
_INSERT = "INSERT INTO sample_chunks (node_id, first_time, last_time, samples, packed) VALUES (?, ?, ?, ?, ?)"


def pack_samples(connection: Connection, node_id: int) -> bool:
    """Pack the node's oldest readings that are rows, if old enough; return whether they were."""
    ((oldest, newest),) = fetch(connection, _SPAN, (node_id,))
    if oldest is None:
        return False
    begin = oldest // CHUNK_S * CHUNK_S
    if begin + CHUNK_S + KEPT_S > newest:
        return False
    # Retention may have deleted the rows while this waited.
    lock_until_commit(connection, lock_name(node_id))
    rows = SampleColumns.of_rows(fetch(connection, _ROWS, (node_id, begin + CHUNK_S)))
    if not len(rows):
        return True
    first, last = float(rows.time[0]), float(rows.time[-1])
    before = fetch(connection, _CHUNKS, (node_id, begin, last, first))
    chunks = [SampleColumns.unpack(packed) for _, packed in before]
    columns = joined([*chunks, rows])
    twice = len(rows) + sum(len(chunk) for chunk in chunks) - len(columns)
    if twice:
        # Each was counted as stored when its row was.
        add_event_counts(connection, {("samples_stored", ""): -twice, ("samples_overlapping", ""): twice})
    write_many(connection, _DELETE_ROWS, [(node_id, last)])
    write_many(connection, _DELETE_CHUNK, [(node_id, time) for time, _ in before])
    write_many(connection, _INSERT, [as_row(node_id, piece) for piece in _pieces(columns)])
    return True


def as_row(node_id: int, columns: SampleColumns) -> tuple[Any, ...]:
    """Return ``columns`` as a row of ``sample_chunks``."""
    return node_id, float(columns.time[0]), float(columns.time[-1]), len(columns), columns.pack()


def _pieces(columns: SampleColumns) -> Iterator[SampleColumns]:
    count = ceil(len(columns) / _READINGS_AT_ONCE)
    for number in range(count):
        yield columns[number * len(columns) // count : (number + 1) * len(columns) // count]
