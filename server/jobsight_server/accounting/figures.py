"""Counts the content of accounting files, whether or not it is in the database already."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from jobsight_server.accounting.files import Chunk, Content, Read, RecordReader
from jobsight_server.accounting.runs import AccountingError, JobEvent


class RunKeys:
    """A set of runs, by hashes of 64 bits: the probability that any two of ten million collide is 3 in a million.

    >>> runs = RunKeys()
    >>> for job_id, start in (("1", 5.0), ("1", 9.0), ("2", 5.0), ("2", 5.0)):
    ...     runs.add(job_id, start)
    >>> len(runs), runs.job_ids, runs.of_repeated_jobs, ("1", 9.0) in runs, ("2", 9.0) in runs
    (3, 2, [2], True, False)
    """

    def __init__(self) -> None:
        self._runs, self._jobs = array("q"), array("q")
        self._distinct: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def add(self, job_id: str, start: float) -> None:
        """Add a run, which may be there already."""
        self._runs.append(hash((job_id, start)))
        self._jobs.append(hash(job_id))
        self._distinct = None

    def __contains__(self, run: object) -> bool:
        runs, _ = self._found()
        place = int(np.searchsorted(runs, hash(run)))
        return place < len(runs) and int(runs[place]) == hash(run)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunKeys) and np.array_equal(self._found()[0], other._found()[0])

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._found()[0])

    @property
    def job_ids(self) -> int:
        """Return the number of jobs with runs in the set."""
        return len(np.unique(self._found()[1]))

    @property
    def of_repeated_jobs(self) -> list[int]:
        """Return the number of runs of each job with more than one."""
        counts = np.unique(self._found()[1], return_counts=True)[1]
        return [int(count) for count in counts[counts > 1]]

    def _found(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct runs in order, and the job of each."""
        if self._distinct is None:
            runs, places = np.unique(np.frombuffer(self._runs, np.int64), return_index=True)
            self._distinct = runs, np.frombuffer(self._jobs, np.int64)[places]
        return self._distinct


@dataclass(slots=True)
class ImportFigures:
    """``lines`` counts records, which are lines in most logs; ``by_lines`` is False if there was another log.

    ``bytes_left`` is the number of bytes in none of them, counted independently of the code that splits files.
    ``ended`` are the runs of E records, ``runs`` also those of S and R records. ``tasks``: jobs with records of
    parallel tasks.
    """

    lines: int = 0
    bytes_left: int = 0
    by_lines: bool = True
    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    runs: RunKeys = field(default_factory=RunKeys)
    ended: RunKeys = field(default_factory=RunKeys)
    users: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)

    @property
    def lost_without_reason(self) -> int:
        return self.lines - self.records.total() - self.rejected.total() + (self.bytes_left != 0)

    def add(self, event: JobEvent) -> None:
        """Count a record."""
        self.records[event.kind] += 1
        if event.task is not None:
            self.tasks.add(event.job_id)
        if event.run is not None and event.run.start < inf:
            self.runs.add(event.job_id, event.run.start)
            if event.kind == "E":
                self.ended.add(event.job_id, event.run.start)
                self.users.add(event.run.user)

    def cover(self, chunk: Chunk, reader: RecordReader) -> None:
        """Count a chunk's bytes and lines, without parsing its records."""
        self.bytes_left -= chunk.length
        self.lines += len(chunk.records)
        self.by_lines = self.by_lines and reader.by_lines

    def add_chunk(self, chunk: Chunk, reader: RecordReader) -> None:
        """Count the records of a chunk, rejected ones included."""
        self.cover(chunk, reader)
        for record in chunk.records:
            try:
                self.add(reader.event(record))
            except AccountingError as error:
                self.rejected[error.reason] += 1

    def counting(self, read: Read) -> Read:
        """Wrap ``read`` to count its bytes."""

        def counted(size: int) -> bytes:
            piece = read(size)
            self.bytes_left += len(piece)
            return piece

        return counted


@dataclass(slots=True)
class StartsOfJobs(ImportFigures):
    """Figures with the starts of each job's runs, by job id: some hundred bytes for each run."""

    starts: dict[str, set[float]] = field(default_factory=dict)

    def add(self, event: JobEvent) -> None:
        """Count a record."""
        ImportFigures.add(self, event)
        if event.run is not None and event.run.start < inf:
            self.starts.setdefault(event.job_id, set()).add(event.run.start)


def count_records(figures: ImportFigures, content: Content, reader: RecordReader, until: float = inf) -> None:
    """Add the first ``until`` bytes of ``content``, unpacked; its position is there afterwards."""
    pieces = content.until(until)
    for chunk in reader.split(figures.counting(lambda _: next(pieces, b""))):
        figures.add_chunk(chunk, reader)
