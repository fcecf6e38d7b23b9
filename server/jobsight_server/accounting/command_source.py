"""A command as a source of records: its failures are counted and shown like those of a file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import Engine

from jobsight_server.accounting.command_output import CommandError
from jobsight_server.accounting.load import LoadReport
from jobsight_server.seldom import Seldom
from jobsight_server.settings import AccountingSource
from jobsight_server.storage.event_counts import add_event_counts

log = logging.getLogger(__name__)


@dataclass(slots=True)
class CommandSource:
    """Reads what commands of a cluster print, and remembers which of them fail, to say once when they work again."""

    engine: Engine
    source: AccountingSource
    clock: Callable[[], float]
    said: Seldom
    _failing: set[str] = field(default_factory=set)

    def attempt(self, name: str, read: Callable[[LoadReport], None]) -> LoadReport:
        """Calls ``read``, which may raise CommandError, for the source that is shown as ``name``."""
        report = LoadReport()
        try:
            read(report)
            if name in self._failing:
                self._failing.remove(name)
                log.info("accounting of %s: %s can be read again", self.source.cluster, name)
        except CommandError as error:
            self._failing.add(name)
            report.unreadable[name] = str(error)
            if self.said.lets((name, str(error)), self.clock()):
                log.warning("accounting of %s: %s: %s", self.source.cluster, name, error)
            with self.engine.begin() as connection:
                add_event_counts(connection, {("accounting_unreadable", f"{name}: {error.reason}"): 1})
        return report
