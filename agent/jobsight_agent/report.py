"""The agent's log about sending: trouble and its end, and losses."""

from __future__ import annotations

from jobsight_agent.log import Log
from jobsight_agent.push import Pusher
from jobsight_agent.spool import Spool


class TroubleReport:
    """Logs each change once; called at every interval."""

    def __init__(self, log: Log, spool: Spool, pusher: Pusher) -> None:
        self._log, self._spool, self._pusher = log, spool, pusher
        self._said: str | None = None
        self._said_lost = (spool.dropped, 0)
        self._greeted = False

    def say(self) -> None:
        """Logs each new kind of trouble once, and its end; the first accepted batch; losses and rejected batches,
        once a minute."""
        error = self._pusher.last_error
        if error != self._said:
            self._log.say(error or "the server accepts batches again")
            self._said = error
            self._spool.note_error(error)
        if self._pusher.accepted and not self._greeted:
            self._greeted = True
            self._log.say("the server accepted the first batch")
            self._spool.note_error(error)  # not that of an earlier agent
        dropped, refused = self._said_lost
        if self._spool.dropped > dropped and self._log.once_a_minute(
            "dropped", f"{self._spool.dropped} batches dropped so far: too old, or the spool is full"
        ):
            dropped = self._spool.dropped
        if self._pusher.refused > refused and self._log.once_a_minute(
            "refused",
            f"the server rejected a batch: {self._pusher.last_refusal}; {self._spool.refused} are kept in "
            f"{self._spool.directory / 'refused'}, `jobsight-agent resend` sends them again",
        ):
            refused = self._pusher.refused
        self._said_lost = (dropped, refused)
