"""Periodic work that survives an outage of the database: one log line when it begins, one when it is over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.storage.fence import FencedError
from jobsight_server.storage.outage import outage

log = logging.getLogger(__name__)


class Periodic:
    """Calls ``work``; if the database fails, the next call is the next attempt, after ``recover``."""

    def __init__(self, name: str, work: Callable[..., Any], recover: Callable[[], Any] = lambda: None) -> None:
        self._name, self._work, self._recover = name, work, recover
        self._trouble: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        try:
            if self._trouble is not None:
                self._recover()
            self._work(*args, **kwargs)
            trouble = None
        except SQLAlchemyError as error:
            trouble = outage(error)
            if trouble is None:
                raise
        except FencedError as error:
            trouble = str(error)
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble is None:
                log.info("%s: working again", self._name)
            else:
                log.warning("%s: %s; trying again", self._name, trouble)
