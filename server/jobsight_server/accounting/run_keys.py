"""Runs of jobs by job id and start, in a few bytes each: a year of a large site has millions."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray


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
        """Adds a run, which may be there already."""
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
        """How many jobs have runs in the set."""
        return len(np.unique(self._found()[1]))

    @property
    def of_repeated_jobs(self) -> list[int]:
        """Of the jobs with more than one run, their number of runs."""
        counts = np.unique(self._found()[1], return_counts=True)[1]
        return [int(count) for count in counts[counts > 1]]

    def _found(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct runs in order, and the job of each."""
        if self._distinct is None:
            runs, places = np.unique(np.frombuffer(self._runs, np.int64), return_index=True)
            self._distinct = runs, np.frombuffer(self._jobs, np.int64)[places]
        return self._distinct
