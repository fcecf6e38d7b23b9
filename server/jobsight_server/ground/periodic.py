"""Background work at intervals, which survives an outage of the database."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.ground.errors import FencedError
from jobsight_server.ground.outage import outage

log = logging.getLogger(__name__)


class Periodic:
    """Calls ``work``; if the database fails, the next call is the next attempt.

    One log line says when an outage begins, and one when it is over.
    """

    def __init__(self, name: str, work: Callable[..., Any]) -> None:
        self._name, self._work = name, work
        self._trouble: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        try:
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


class BackgroundWork:
    """Periodic work until ``stop`` is set.

    Short work shares a thread, because two writers would only wait for each other; long work shares a second one, or
    has a thread of its own.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self._scheduler = BackgroundScheduler(
            executors={name: ThreadPoolExecutor(1) for name in ("default", "long")},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
        )
        self._threads: list[threading.Thread] = []

    def every(
        self,
        seconds: float,
        name: str,
        work: Callable[..., object],
        *args: object,
        takes_long: bool = False,
        thread: str | None = None,
        at_once: bool = False,
    ) -> None:
        """Call ``work(*args)`` every ``seconds``; ``at_once``: the first time immediately.

        ``thread`` names a thread of its own, for work that may hang or must not wait.
        """
        executor = "long" if takes_long else thread or "default"
        if thread is not None:
            self._scheduler.add_executor(ThreadPoolExecutor(1), thread)
        when = {"next_run_time": datetime.now(UTC)} if at_once else {}
        call = (Periodic(name, work), *args)
        self._scheduler.add_job(
            self._unless_stopped, "interval", seconds=seconds, args=call, id=name, executor=executor, **when
        )

    def _unless_stopped(self, work: Callable[..., object], *args: object) -> None:
        if not self.stop.is_set():
            work(*args)

    def beside(self, name: str, run: Callable[[], object]) -> None:
        """Run ``run``, which ends when ``stop`` is set, in a thread of its own."""
        self._threads.append(threading.Thread(target=run, name=name))

    def run(self) -> None:
        """Work until ``stop`` is set, and finish the work under way."""
        self._scheduler.start()
        for thread in self._threads:
            thread.start()
        # A wait without limit would not notice a signal that another thread of this process received.
        while not self.stop.wait(1.0):
            pass
        for thread in self._threads:
            thread.join()
        self._scheduler.shutdown(wait=True)
