"""Takes the batches of ``POST /api/v1/samples``: authenticates, checks, stores, and answers once they are durable.

It runs in the event loop. Look-ups in the database and the decoding of large batches have threads.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jobsight_server.auth.tokens import AuthError, TokenCache
from jobsight_server.ground.outage import driver_outage, outage
from jobsight_server.ground.seldom import Seldom
from jobsight_server.ingest.checks import check_sender, check_times, judge_again, submission_of
from jobsight_server.ingest.committer import Found, GroupCommitter
from jobsight_server.ingest.retry import retry_next
from jobsight_server.ingest.store import Refusal, SampleStore
from jobsight_server.ingest.waiting import MemoryBudget, Outcomes
from jobsight_server.ingest.wire import (
    Batch,
    BatchOutcome,
    RefusedBatchError,
    Submission,
    UnavailableError,
    WireError,
    stated_length,
)
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.clusters import KnownClusters
from jobsight_server.storage.lock import Fence, take_over
from jobsight_server.storage.quarantined import mark_for_retry
from jobsight_server.storage.readings.late_batches import late_after

log = logging.getLogger(__name__)

_BUDGET_BYTES = 40 * 2**20  # for all batches being unpacked, decoded and committed
ORDINARY_BYTES, _UNPACKED_BYTES = 64 * 1024, 128 * 1024
"""Of an ordinary batch's body, as sent and unpacked: decoding it blocks the event loop for a millisecond or two."""

_EXAMPLE_S, _MOST_EXAMPLES = 3600.0, 20  # refusals of a cluster and node: in the log and the list of rejected data
_SENDERS = ("agent",)

_Found = TypeVar("_Found")


class IngestReply(NamedTuple):
    """The answer to a request: the JSON ``content`` of its body, and further headers."""

    status: int
    content: dict[str, Any]
    headers: Mapping[str, str] = {}

    @property
    def body(self) -> bytes:
        """Return the body."""
        return msgspec.json.encode(self.content)


class Reception:
    """Receives batches and stores them by its ``committer``, which must be closed.

    ``fences``: those of the process with the writer's locks; without them, it takes over from any other writer.
    ``collected``: the clusters collected here; None is all. ``lane``: the threads.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        lane: ThreadPoolExecutor,
        clock: Callable[[], float] = time.time,
        fences: Sequence[Fence] = (),
        collected: frozenset[str] | None = None,
    ) -> None:
        guarded, fences = engine, fences or [take_over(engine, "writer", lambda: None)]
        for fence in fences:
            guarded = fence.guard(guarded)
        late_s = late_after(settings.profile_grace_s)
        store = SampleStore(guarded, settings.assumed_speed_bps, settings.quarantine_bytes, late_s, clock, collected)
        clusters = KnownClusters(engine, settings.declared_clusters | (collected or frozenset()))
        with guarded.begin() as connection:  # what refused them may be corrected: a clock, or a release
            mark_for_retry(connection, collected)
        again = partial(retry_next, guarded, store, lambda it: judge_again(settings, it, clock(), clusters), collected)
        self.committer = GroupCommitter(store, chores=(again, store.joiner.step), on_fault=fences[0].end)
        self._settings, self._lane, self._clock = settings, lane, clock
        self._clusters, self._collected = clusters, collected
        self._tokens, self._driver_error = TokenCache(engine), engine.dialect.loaded_dbapi.Error
        self._budget, self._outcomes = MemoryBudget(_BUDGET_BYTES), Outcomes()
        self._examples = Seldom(_EXAMPLE_S, _MOST_EXAMPLES)
        self._refusing: set[asyncio.Task[IngestReply]] = set()

    async def take(self, authorization: str, encoding: str, read: Callable[[int], Awaitable[bytes]]) -> IngestReply:
        """Return the answer to a body in this ``Content-Encoding``, in lower case; ``read`` returns the body, given the
        longest accepted."""
        now, body = self._clock(), b""
        try:
            token = self._tokens.cached(authorization, _SENDERS, now)
            if token is None:
                token = await self._aside(self._tokens.authenticate, authorization, _SENDERS, now)
            body = await read(self._settings.max_body_bytes)
            limit = self._settings.max_unpacked_bytes
            length = stated_length(body, encoding, limit)
            taken = await self._budget.take(length)
            try:
                if len(body) <= ORDINARY_BYTES and 0 < length <= _UNPACKED_BYTES:
                    submission = submission_of(body, encoding, limit, now)
                else:
                    submission = await self._aside(submission_of, body, encoding, limit, now)
                batch, known = submission.batch, self._clusters.known
                if batch.cluster not in known:
                    known = await self._aside(self._clusters.all)
                check_sender(batch, token, known, self._collected)
                check_times(batch, self._settings, now)
                outcome = await self._outcomes.of(partial(self.committer.submit, submission))
            finally:
                self._budget.give_back(taken)
            if outcome.status == "conflict":
                raise _conflict(batch)
        except AuthError as error:
            self.committer.refuse(Refusal(str(error), "not authorised", now, None))
            return IngestReply(error.status, {"error": str(error)}, error.headers)
        except RefusedBatchError as refused:
            return await self._refuse(refused, body, now)
        except (SQLAlchemyError, self._driver_error) as error:  # of a look-up
            reason = outage(error) if isinstance(error, SQLAlchemyError) else driver_outage(error)
            if reason is None:
                raise
            self.committer.report(reason)
            return await self._refuse(UnavailableError(reason), b"", now)
        return _stored(outcome)

    def take_now(self, authorization: str, encoding: str, body: bytes, answer: Callable[[IngestReply], None]) -> bool:
        """Take a small batch of a known sender, and call ``answer`` later; return False if ``take`` must, as the batch
        has to be looked up, waited for, or refused."""
        now, limit = self._clock(), self._settings.max_unpacked_bytes
        token = self._tokens.cached(authorization, _SENDERS, now)
        length = stated_length(body, encoding, limit)
        if token is None or not 0 < length <= _UNPACKED_BYTES or len(body) > self._settings.max_body_bytes:
            return False
        taken = self._budget.take_now(length)
        try:
            submission = submission_of(body, encoding, limit, now)
            check_sender(submission.batch, token, self._clusters.known, self._collected)
            check_times(submission.batch, self._settings, now)
            if taken:
                end = partial(self._end, submission, body, taken, answer)
                self._outcomes.submit(partial(self.committer.submit, submission), end)
                return True
        except RefusedBatchError:
            self._budget.give_back(taken)
        return False

    def _end(
        self, submission: Submission, body: bytes, taken: int, answer: Callable[[IngestReply], None], found: Found
    ) -> None:
        self._budget.give_back(taken)
        if isinstance(found, BatchOutcome) and found.status != "conflict":
            answer(_stored(found))
            return
        refused = _conflict(submission.batch) if isinstance(found, BatchOutcome) else found
        refusing = asyncio.get_running_loop().create_task(self._refuse(refused, body, submission.received_at))
        self._refusing.add(refusing)  # the loop itself keeps no reference
        refusing.add_done_callback(self._refusing.discard)
        refusing.add_done_callback(lambda done: answer(done.result()))

    def health(self) -> IngestReply:
        """Return whether batches are stored now."""
        trouble = self.committer.unready
        if trouble is None:
            return IngestReply(200, {"status": "ok", "reason": None})
        return IngestReply(503, {"status": "unavailable", "reason": trouble}, {"Retry-After": "5"})

    async def _aside(self, function: Callable[..., _Found], *given: Any) -> _Found:
        return await asyncio.get_running_loop().run_in_executor(self._lane, function, *given)

    async def _refuse(self, refused: RefusedBatchError, body: bytes, now: float) -> IngestReply:
        """IngestReply only once the body is in quarantine: the agent will not send it again."""
        batch = refused.batch
        sender: tuple[str | None, str | None] = (batch.cluster, batch.node) if batch else (None, None)
        kept = body if refused.is_kept else None
        refusal = Refusal(str(refused), refused.label, now, kept, *sender, self._is_example(refused, now))
        try:
            await self._outcomes.of(partial(self.committer.refuse, refusal))
        except UnavailableError as error:
            return await self._refuse(error, b"", now)
        except RefusedBatchError:  # it cannot be kept either
            self.committer.refuse(replace(refusal, body=None))
        headers = {"Retry-After": "5"} if refused.status == 503 else {}
        return IngestReply(refused.status, {"error": str(refused)}, headers)

    def _is_example(self, refused: RefusedBatchError, now: float) -> bool:
        """Return whether to list a refusal without a body, which is seldom for each sender, and log it if so."""
        batch = refused.batch
        if batch is None or refused.is_kept:
            return False
        if not self._examples.lets((refused.label, batch.cluster, batch.node), now):
            return False
        shown = batch.cluster[:100], batch.node[:100], refused.status, str(refused), self._examples.others()
        log.warning("a batch of cluster %r, node %r was refused with %d: %s%s", *shown)
        return True


def _stored(outcome: BatchOutcome) -> IngestReply:
    samples = {"samples": outcome.samples} if outcome.samples else {}
    return IngestReply(200, {"status": outcome.status, **samples})


def _conflict(batch: Batch) -> WireError:
    return WireError(
        f"sequence {batch.sequence} of boot {batch.boot_id} was already used with other content; "
        "give each batch a number of its own",
        "conflict",
        batch,
    )
