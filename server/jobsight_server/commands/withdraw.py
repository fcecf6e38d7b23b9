"""Withdrawal of accounting files, as if they had never been read.

The files are read again to find their runs, so they must still exist, unchanged: storing that would take a row for each
run and file, for the sake of a rare mistake. A run stays if another file of the cluster describes it too: two files may
have the same days.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, func, select, update

from jobsight_server.accounting.figures import StartsOfJobs, count_records
from jobsight_server.accounting.files import TAIL_BYTES, Content, UnreadableError
from jobsight_server.accounting.formats import open_reader
from jobsight_server.accounting.guess import guess_format
from jobsight_server.accounting.parallel_tasks import forget_tasks
from jobsight_server.accounting.position import LogPosition, bytes_before, positions
from jobsight_server.accounting.store import lock_cluster
from jobsight_server.forecasts.events import last_learn_seq
from jobsight_server.forecasts.rounds import lock_learning
from jobsight_server.ground.errors import UserError
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.savings.sums.add import count_again, days_of
from jobsight_server.savings.sums.kept import forget_empty_groups
from jobsight_server.settings.declared import AccountingFormat
from jobsight_server.storage.engine import pieces
from jobsight_server.storage.job_counts import recounted
from jobsight_server.storage.schema import (
    accounting_files,
    accounting_rejects,
    jobs,
    learned_until,
    model_state,
    outcomes,
    series,
)

_UNCLAIM = update(outcomes).values(run_id=None, learn_seq=func.coalesce(outcomes.c.learn_seq, 0))

Starts = Mapping[str, Collection[float]]
"""Job id -> starts of its runs."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The ``paths`` of the files as read, their ``lines``, the ``runs`` removed and those ``kept``.

    ``absent``: other files that no longer exist; they may describe the runs too.
    """

    paths: tuple[str, ...]
    lines: int
    runs: int
    kept: int
    absent: int


def withdraw(
    engine: Engine, files: Sequence[Path], cluster: str, log_format: AccountingFormat | None = None
) -> Withdrawn:
    """Remove all data of ``files``: runs with their profiles, rejected lines, counts, and positions.

    The model keeps what it learned from the runs until it is retrained; the server does so if this process ends first.

    Raises:
        UserError: a file was not read before, has changed, or is being read; nothing was changed.
    """
    with engine.connect().execution_options(reading=True) as connection:
        known = positions(connection, cluster)
    theirs: dict[str, LogPosition] = {}
    own = StartsOfJobs()
    for file in files:
        found = _read_of(file, known, cluster)
        theirs |= found
        with Content(file) as content:
            read_until = max(position.offset for position in found.values())
            count_records(own, content, open_reader(log_format or guess_format(content), content), until=read_until)
    others = [position for path, position in known.items() if path not in theirs]
    shared, absent = _also_in(others, own.starts, log_format)
    with engine.begin() as connection:
        lock_cluster(connection, cluster)
        lock_learning(connection)
        if any(positions(connection, cluster, path).get(path) != position for path, position in theirs.items()):
            raise UserError("another process is reading the files; try again later")
        runs, kept = _runs(connection, cluster, own.starts, shared)
        days = days_of(connection, runs)
        with recounted(connection, runs):
            for some in pieces(runs):
                connection.execute(_UNCLAIM.where(outcomes.c.run_id.in_(some)))
                connection.execute(delete(jobs).where(jobs.c.id.in_(some)))
        counts: Counter[tuple[str, str]] = Counter({("accounting_files", "withdrawn"): len(theirs)})
        for job_ids in pieces(sorted({*own.starts, *own.tasks})):
            forget_tasks(connection, cluster, job_ids)
        for path, position in theirs.items():
            for table in (accounting_rejects, accounting_files):
                connection.execute(delete(table).where(table.c.cluster == cluster, table.c.path == path))
            counts.subtract(position.counts)
        add_event_counts(connection, counts)
        if runs:
            count_again(connection, days)
            forget_empty_groups(connection)
            _let_retrain(connection)
    lines = sum(position.lines for position in theirs.values())
    return Withdrawn(tuple(theirs), lines, len(runs), kept, absent)


def _read_of(file: Path, known: Mapping[str, LogPosition], cluster: str) -> dict[str, LogPosition]:
    """Return the stored positions of ``file``, under its own name and under names of absent files."""
    name = str(file.absolute()).encode("utf-8", "backslashreplace").decode()
    try:
        with Content(file) as content:
            head = content.beginning(TAIL_BYTES)
            gone = [path for path, position in known.items() if position.offset and not Path(path).exists()]
            named = {path: known[path] for path in (name, *gone) if path in known}
            found = {p: at for p, at in named.items() if not at.offset or bytes_before(content, head, at) is not None}
    except UnreadableError as error:
        raise UserError(f"{name}: {error}") from error
    if name in known and name not in found:
        raise UserError(f"{name} differs from the file that was read under this name: restore that one first")
    if not found:
        raise UserError(
            f"nothing of cluster {cluster!r} was read from {name}; `jobsight import --list` shows its files"
        )
    return found


def _also_in(
    others: Iterable[LogPosition], starts: Starts, log_format: AccountingFormat | None
) -> tuple[dict[str, set[float]], int]:
    """Return the runs that ``others`` describe too, and how many of these files are absent."""
    shared: dict[str, set[float]] = {}
    absent = 0
    for other in others:
        figures = StartsOfJobs()
        try:
            with Content(Path(other.path)) as content:
                count_records(
                    figures, content, open_reader(log_format or guess_format(content), content), until=other.offset
                )
        except UnreadableError:
            absent += 1
        for job_id in figures.starts.keys() & starts.keys():
            shared.setdefault(job_id, set()).update(figures.starts[job_id])
    return shared, absent


def _runs(connection: Connection, cluster: str, starts: Starts, shared: Starts) -> tuple[list[int], int]:
    """Return the ids of the runs that are only in ``starts``, and how many are in both."""
    found, kept = [], 0
    for some in pieces(list(starts)):
        query = select(jobs.c.id, jobs.c.job_id, jobs.c.start).where(jobs.c.cluster == cluster, jobs.c.job_id.in_(some))
        for run_id, job_id, start in connection.execute(query):
            if start in shared.get(job_id, ()):
                kept += start in starts[job_id]
            elif start in starts[job_id]:
                found.append(run_id)
    return found, kept


def _let_retrain(connection: Connection) -> None:
    """Schedule retraining; successors of a withdrawn run in order of learning now follow the last remaining one."""
    last = last_learn_seq(connection)
    connection.execute(update(jobs).where(jobs.c.forecast_seq > last).values(forecast_seq=last))
    connection.execute(update(jobs).where(jobs.c.start_seq > last).values(start_seq=last))
    connection.execute(update(outcomes).where(outcomes.c.learn_seq > last).values(learn_seq=last))
    connection.execute(delete(series))
    connection.execute(delete(learned_until))  # a process that learns now must not write the model
    if not last:  # there is nothing to retrain on
        connection.execute(delete(model_state))
