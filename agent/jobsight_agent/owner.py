"""Whether the machine's owner is using it: someone is logged in, or processors are busy although no job runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from jobsight_agent.reading import Reading

SIGNS = ("logins", "load")
_MOST_JOBS = 1000
_MOST_LOGINS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class OwnerPresence:
    """``foreign_load`` are the processors kept busy while no job hook has announced a job, None while one has.

    ``present`` is None where no sign of an owner is asked for, or none could be read.
    """

    logins: int | None = None
    foreign_load: float | None = None
    present: bool | None = None


class OwnerWatch:
    """Watches for the ``signs`` of an owner: ``logins``, and ``load`` of at least ``load_from`` processors."""

    def __init__(
        self, signs: Collection[str], load_from: float, count_logins: Callable[[], int | None] | None = None
    ) -> None:
        self._signs = frozenset(signs)
        self._load_from = load_from
        self._count_logins = count_logins or logged_in
        self._jobs: set[str] = set()
        self._had_job = False
        self._since: tuple[float, float, str] | None = None
        self._last: tuple[float, float, str] | None = None

    def see(self, reading: Reading) -> None:
        """Takes in a reading: of job hooks the job, of all the busy time."""
        if not self._signs:
            return
        if reading.mark is not None:
            if reading.mark.event == "end":
                self._jobs.discard(reading.mark.job)
            elif len(self._jobs) < _MOST_JOBS:
                self._jobs.add(reading.mark.job)
        self._had_job = self._had_job or bool(self._jobs) or reading.mark is not None
        if reading.cpu_busy_s is not None:
            self._last = (reading.time, reading.cpu_busy_s, reading.boot_id)
            self._since = self._since or self._last

    def now(self) -> OwnerPresence:
        """The presence since the last call."""
        if not self._signs:
            return OwnerPresence()
        logins = self._count_logins() if "logins" in self._signs else None
        load = self._load() if "load" in self._signs else None
        self._since, self._had_job = self._last, bool(self._jobs)
        if logins is None and load is None:
            return OwnerPresence()
        return OwnerPresence(logins, load, bool(logins) or (load is not None and load >= self._load_from))

    def _load(self) -> float | None:
        if self._since is None or self._last is None or self._had_job:
            return None
        (begin, busy_before, boot_before), (end, busy_after, boot) = self._since, self._last
        if end <= begin or boot != boot_before or busy_after < busy_before:
            return None
        return round(min((busy_after - busy_before) / (end - begin), 1e6), 3)


def logged_in() -> int | None:
    """Login sessions on terminals and displays; None if the system does not say."""
    import psutil  # only where logins are asked for: it costs a tenth of a second and 4 MB

    try:
        return min(len(psutil.users()), _MOST_LOGINS)
    except (OSError, RuntimeError):
        return None
