"""Records of dropped connections, for the log and for ``/metrics``."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.storage.event_counts import add_event_counts

log = logging.getLogger(__name__)


def recorder(engine: Engine, role: str) -> Callable[[dict[str, int]], None]:
    """Return a recorder for ``Front``: it adds to the event count ``connections_dropped`` by role and reason."""

    def record(dropped: dict[str, int]) -> None:
        log.info("dropped connections: %s", ", ".join(f"{n} {reason}" for reason, n in sorted(dropped.items())))
        counts = {("connections_dropped", f"{role}: {reason}"): n for reason, n in dropped.items()}
        try:
            with engine.begin() as connection:
                add_event_counts(connection, counts)
        except SQLAlchemyError as error:
            log.warning("cannot count dropped connections: %s", error)

    return record
