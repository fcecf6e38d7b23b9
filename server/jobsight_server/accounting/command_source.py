"""A command as a source of records: its failures are counted and shown like those of a file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import Engine

from jobsight_server.accounting.command_output import CommandError
from jobsight_server.accounting.load import LoadReport
from jobsight_server.seldom import Seldom
from jobsight_server.storage.event_counts import add_event_counts

log = logging.getLogger(__name__)


@dataclass(slots=True)
class CommandSource:
    """Remembers which commands of a cluster fail, to say once when they work again."""

    engine: Engine
    cluster: str
    clock: Callable[[], float]
    said: Seldom
    _failing: set[str] = field(default_factory=set)

    def attempt(self, report: LoadReport, name: str, read: Callable[[], None]) -> None:
        """Calls ``read``, which may raise CommandError, for the source that is shown as ``name``."""
        try:
            read()
            if name in self._failing:
                self._failing.remove(name)
                log.info("accounting of %s: %s can be read again", self.cluster, name)
        except CommandError as error:
            self._failing.add(name)
            report.unreadable[name] = str(error)
            if self.said.lets((name, str(error)), self.clock()):
                log.warning("accounting of %s: %s: %s", self.cluster, name, error)
            with self.engine.begin() as connection:
                add_event_counts(connection, {("accounting_unreadable", f"{name}: {error.reason}"): 1})
