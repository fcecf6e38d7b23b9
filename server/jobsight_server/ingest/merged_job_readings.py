"""What batches said of one job's cgroup on a node becomes a row for each half an hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from jobsight_server.ingest.merged_batches import SILENCE_S
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.job_columns import JobColumns, load_columns, pack_columns

WINDOW_S = 1800.0
"""What one row of a job's readings covers at most."""

_JOB_COLUMNS = ("job_id", "first_time", "last_time", "samples", "peak_bytes", "readings")
_NEXT_JOBS = text("SELECT min(last_time) FROM job_samples WHERE node_id = :node_id AND last_time >= :since")
_OF_JOBS = text(
    f"SELECT {', '.join(_JOB_COLUMNS)} FROM job_samples WHERE node_id = :node_id AND last_time >= :since "
    "AND last_time < :until ORDER BY job_id, first_time"
)
_DELETE_OF_JOB = "DELETE FROM job_samples WHERE node_id = ? AND job_id = ? AND first_time = ?"
_EXTEND_OF_JOB = (
    "UPDATE job_samples SET last_time = ?, samples = ?, peak_bytes = ?, readings = ? "
    "WHERE node_id = ? AND job_id = ? AND first_time = ?"
)


class _JobRow(NamedTuple):
    job_id: str
    first_time: float
    last_time: float
    samples: int
    peak_bytes: int | None
    readings: str


def merge_job_readings(connection: Connection, node_id: int, since: float, before: float) -> tuple[float, bool]:
    """Merges the readings of each job of the node in one window of time, which begins at ``since`` or later.

    Returns from when on the next ones are, and whether there are more that end before ``before``.
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
    for group in _of_one_cgroup([_JobRow(*row) for row in connection.execute(_OF_JOBS, window)]):
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


def _of_one_cgroup(rows: Sequence[_JobRow]) -> Iterator[list[_JobRow]]:
    """The rows, by job and time, in runs of one cgroup: a job that runs again has another, with a peak of its own."""
    group: list[_JobRow] = []
    for row in rows:
        if group and not _is_same_cgroup(group[-1], row):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _is_same_cgroup(before: _JobRow, row: _JobRow) -> bool:
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
