"""Sends closed batches to the collector, oldest first, beside the loop that reads.

docs/operate/wire-format.md defines the answers. No batch is deleted before it is acknowledged: a batch rejected for its
content is set aside, and so is one that the server fails on while it accepts others (``Suspicion``).
"""

from __future__ import annotations

import random
import threading

from jobsight_agent.log import Log
from jobsight_agent.send import ACKNOWLEDGED, Sender, Target
from jobsight_agent.spool import Spool

_FOR_GOOD = frozenset({400, 409, 411, 413, 415, 422})  # the server will never accept this batch
_UNAVAILABLE = 503  # the server says "later": not the batch's fault
_LONGEST_PAUSE_S = 3600.0  # whatever the server asks for


class Suspicion:
    """Decides whether a batch, and not the server, causes answers such as 500.

    It does if it got such an answer ``STRIKES`` times, then the server accepted or rejected another batch, and then
    it got such an answer once more. An outage, in which every batch fails, costs none. The others are tried in turn,
    as several may be bad.
    """

    STRIKES = 20

    def __init__(self) -> None:
        self._acquit()

    def _acquit(self) -> None:
        self.suspect: int | None = None
        self._strikes = 0
        self._others_pass = False
        self.another = 0  # the last one tried
        self._tried_another = False

    def wants_another(self) -> bool:
        """Return whether to try one after the suspect now: every other time until one is dealt with."""
        if self._strikes < self.STRIKES or self._others_pass:
            return False
        self._tried_another = not self._tried_another
        return self._tried_another

    def dealt_with(self, number: int) -> None:
        """Note that the server accepted the batch, or rejected it for its content."""
        if number == self.suspect:
            self._acquit()
        elif self._strikes >= self.STRIKES:
            self._others_pass = True

    def unavailable(self) -> None:
        """Note that the server is unavailable: its earlier answers prove nothing now."""
        self._others_pass = False

    def convicts(self, number: int) -> bool:
        """Note that the server failed on the batch; return whether that is the batch's fault."""
        if number != self.suspect:
            if self._strikes < self.STRIKES:
                self.suspect, self._strikes = number, 1
            return False
        if self._others_pass:
            self._acquit()
            return True
        self._strikes += 1
        return False


class Pusher:
    """The sending thread. ``accepted`` and ``refused`` count batches, ``failures`` attempts."""

    def __init__(self, spool: Spool, target: Target, spool_lock: threading.Lock, rng: random.Random) -> None:
        self.failures = 0
        self.accepted = 0
        self.refused = 0
        self.last_error: str | None = None
        self.last_refusal = ""
        self._suspicion = Suspicion()
        self._spool, self._target, self._lock, self._rng = spool, target, spool_lock, rng
        self._sender = Sender(target)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pusher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Wake the sender after a batch was closed."""
        self._wake.set()

    def finish(self, seconds: float) -> None:
        """Send spooled batches without pauses between attempts, for ``seconds`` at most; the rest stays spooled."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        tries = 0
        while True:
            last_try = self._stopping.is_set()
            try:
                pause = self._send_next(tries)
            except OSError as error:  # the spool's disk
                self.last_error = f"spool: {error}"
                pause = self._target.pause_s(tries, self._rng)
            if pause is None:
                tries = 0
                continue
            tries += 1
            if last_try:
                break
            if pause > 0:
                self._stopping.wait(pause)
            else:
                tries = 0
                self._wake.wait()
                self._wake.clear()
        self._sender.close()

    def _send_next(self, tries: int) -> float | None:
        """Send the next batch; return None if done, else the seconds to wait: 0 if there is none to send."""
        batch = self._choose()
        if batch is None:
            return 0.0
        number, body = batch
        try:
            answer = self._sender.send(body)
        except (OSError, ValueError) as error:
            self.last_error = f"{self._target.url}: {error}"
            self.failures += 1
            self._suspicion.unavailable()
            return self._target.pause_s(tries, self._rng)
        if answer.code == 200 and answer.word in ACKNOWLEDGED:
            self.accepted += 1
            self.last_error = None
            self._suspicion.dealt_with(number)
            with self._lock:
                self._spool.remove(number)
            return None
        if answer.code in _FOR_GOOD:
            self._suspicion.dealt_with(number)
            self._set_aside(number, str(answer))
            return None
        self.last_error = f"{self._target.url} answered {answer}"
        self.failures += 1
        if answer.code < 500 or answer.code == _UNAVAILABLE or answer.wait_s is not None:
            self._suspicion.unavailable()
        elif self._suspicion.convicts(number):
            self._set_aside(number, f"{answer}, {Suspicion.STRIKES} times, while other batches were accepted")
            return None
        return max(min(answer.wait_s or 0.0, _LONGEST_PAUSE_S), self._target.pause_s(tries, self._rng))

    def _choose(self) -> tuple[int, bytes] | None:
        with self._lock:
            oldest = self._spool.oldest()
            if oldest is None or oldest[0] != self._suspicion.suspect or not self._suspicion.wants_another():
                return oldest
            after = max(oldest[0], self._suspicion.another)
            another = self._spool.oldest(after) or self._spool.oldest(oldest[0]) or oldest
            self._suspicion.another = another[0]
            return another

    def _set_aside(self, number: int, reason: str) -> None:
        with self._lock:
            self._spool.set_aside(number, reason)
        self.refused += 1
        self.last_refusal = reason


class TroubleReport:
    """Logs problems of sending, their end, and losses: each change once, though called at every interval."""

    def __init__(self, log: Log, spool: Spool, pusher: Pusher) -> None:
        self._log, self._spool, self._pusher = log, spool, pusher
        self._reported: str | None = None
        self._said_lost = (spool.dropped, 0)
        self._greeted = False

    def say(self) -> None:
        """Log each new kind of problem once, and its end; the first accepted batch; losses and rejected batches,
        once a minute."""
        error = self._pusher.last_error
        if error != self._reported:
            self._log.say(error or "the server accepts batches again")
            self._reported = error
            self._spool.note_error(error)
        if self._pusher.accepted and not self._greeted:
            self._greeted = True
            self._log.say("the server accepted the first batch")
            self._spool.note_error(error)  # not an earlier agent's
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
