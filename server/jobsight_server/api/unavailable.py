"""Counts the requests that were answered 503 because the database failed, once it works again."""

from __future__ import annotations

import threading
import time
from collections import Counter

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.storage.tallies import add_tallies

_RETRY_S = 2.0


class UnavailableCount:
    """Keeps the counts until they can be written; a thread lives only as long as there are any."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._writing = False

    def add(self, reason: str) -> None:
        """One more request answered 503 for ``reason``."""
        with self._lock:
            self._counts["requests_unavailable", reason] += 1
            if self._writing:
                return
            self._writing = True
        threading.Thread(target=self._write, name="unavailable", daemon=True).start()

    def _write(self) -> None:
        while True:
            time.sleep(_RETRY_S)
            with self._lock:
                counts, self._counts = self._counts, Counter()
            try:
                with self._engine.begin() as connection:
                    add_tallies(connection, counts)
            except SQLAlchemyError:
                with self._lock:
                    self._counts += counts
                continue
            with self._lock:
                if not self._counts:
                    self._writing = False
                    return
