"""Takes the body of ``POST /api/v1/samples``: authenticates, judges, stores, and answers once it is durable."""

from __future__ import annotations

import json
import logging
import math
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import Any

from flask import Response
from sqlalchemy import Engine

from jobsight_server.auth.tokens import AuthError, Token, TokenCache
from jobsight_server.ingest.committer import GroupCommitter
from jobsight_server.ingest.store import Refusal
from jobsight_server.ingest.wire import (
    Batch,
    BatchOutcome,
    RefusedBatchError,
    Submission,
    UnavailableError,
    UnpackingBudget,
    decode,
    stated_length,
    unpack,
)
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters, listed
from jobsight_server.storage.seldom import Seldom

_GZIP = b"\x1f\x8b"


def judge(settings: Settings, body: bytes, encoding: str, now: float, permitted: Callable[[Batch], None]) -> Submission:
    """Return the batch to store; ``permitted`` refuses one that its sender may not send."""
    payload = unpack(body, encoding, settings.max_unpacked_bytes)
    batch = decode(payload)
    permitted(batch)
    _check_times(batch, settings, now)
    return Submission(batch, zlib.crc32(payload), now)


def judge_again(settings: Settings, body: bytes, now: float, clusters: KnownClusters) -> Submission:
    """Return the same for a body in quarantine; JSON cannot begin like gzip."""
    encoding = "gzip" if body.startswith(_GZIP) else ""
    return judge(settings, body, encoding, now, partial(_check_cluster, clusters))


def check_sender(token: Token, clusters: KnownClusters, collected: frozenset[str] | None, batch: Batch) -> None:
    """Refuse batches that the token does not allow, of undeclared clusters, and of clusters not ``collected`` here.

    403 and not 422: the agent keeps the batch, which is stored once the token or the settings are corrected.
    """
    if not token.may_write(batch.cluster, batch.node):
        raise RefusedBatchError(
            403,
            f"this token is for {token.scope}, the batch is of cluster {batch.cluster[:100]!r}, node "
            f"{batch.node[:100]!r}: correct the agent's --cluster or --node, or give it a token of its own",
            "not this token's cluster or node",
            batch,
        )
    if collected is not None and batch.cluster not in collected:
        raise RefusedBatchError(
            403,
            f"cluster {batch.cluster[:100]!r} is collected by another server, this one collects {listed(collected)}: "
            "correct the agent's --server",
            "collected by another server",
            batch,
        )
    _check_cluster(clusters, batch)


def _check_cluster(clusters: KnownClusters, batch: Batch) -> None:
    if batch.cluster in clusters:
        return
    known = listed(clusters.all())
    raise RefusedBatchError(
        403,
        f"cluster {batch.cluster[:100]!r} is not declared; declared: {known}. Correct the agent's --cluster, or "
        "declare it on the server, with its accounting directory or in the setting clusters",
        "cluster not declared",
        batch,
    )


def _check_times(batch: Batch, settings: Settings, now: float) -> None:
    first, last = batch.time[0], batch.time[-1]
    if not (math.isfinite(last) and last <= now + settings.max_future_s):
        ahead = last - now
        raise RefusedBatchError(
            422,
            f"time {last:.3f} lies {ahead:.0f} s ahead of the server's clock; at most {settings.max_future_s:g} s "
            "are allowed: set the node's clock",
            "time in the future",
            batch,
        )
    if first < now - settings.retention_days * 86400:
        raise RefusedBatchError(
            422,
            f"time {first:.3f} is older than the retention of {settings.retention_days:g} days",
            "too old",
            batch,
        )


log = logging.getLogger(__name__)

_COMMIT_TIMEOUT_S = 30.0
_BUDGET_BYTES = 40 * 2**20  # for all batches being unpacked, decoded and committed
_LOGGED_S, _MOST_LOGGED = 60.0, 100  # a cluster and node whose batches are refused; lines within that time
_EXAMPLE_S, _MOST_EXAMPLES = 3600.0, 20  # the same in the list of rejected data
_SENDERS = ("agent",)

Committing = Future[BatchOutcome]


class Reception:
    """``take`` blocks until the answer is known. ``begin`` and ``conclude`` are its two halves for a caller that must
    not wait; ``budget`` is the memory that both ways share."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        committer: GroupCommitter,
        clusters: KnownClusters,
        clock: Callable[[], float] = time.time,
        collected: frozenset[str] | None = None,
    ) -> None:
        self.budget = UnpackingBudget(_BUDGET_BYTES)
        self._clock = clock
        self._settings, self._committer = settings, committer
        self._clusters, self._collected = clusters, collected
        self._tokens = TokenCache(engine)
        self._logged, self._listed_before = Seldom(_LOGGED_S, _MOST_LOGGED), Seldom(_EXAMPLE_S, _MOST_EXAMPLES)

    def take(self, authorization: str | None, encoding: str, read: Callable[[int], bytes]) -> Response:
        """Return the answer to a body in this ``Content-Encoding``, in lower case; ``read`` returns the body, given the
        longest accepted."""
        now = self._clock()
        try:
            token = self._tokens.authenticate(authorization, _SENDERS, now)
        except AuthError as error:
            self._committer.refuse(Refusal(str(error), "not authorised", now, 0, None))
            return as_response(error.status, {"error": str(error)}, error.headers)
        body = b""
        try:
            body = read(self._settings.max_body_bytes)
            permitted = partial(check_sender, token, self._clusters, self._collected)
            with self.budget.batch(stated_length(body, encoding, self._settings.max_unpacked_bytes)):
                submission = judge(self._settings, body, encoding, now, permitted)
                return self.conclude(submission, self._committer.submit(submission), body)
        except RefusedBatchError as refused:
            return self._refuse(refused, body, now)

    def begin(self, authorization: str, encoding: str, body: bytes) -> tuple[Submission, Committing] | None:
        """Submit the batch in ``body`` if it is valid and neither its sender nor its cluster needs a look-up; otherwise
        do nothing and return None."""
        now = self._clock()
        token = self._tokens.cached(authorization, _SENDERS, now)
        if token is None:
            return None

        def permitted(batch: Batch) -> None:
            if not self._clusters.recalls(batch.cluster):
                raise UnavailableError("its cluster must be looked up")
            check_sender(token, self._clusters, self._collected, batch)

        try:
            submission = judge(self._settings, body, encoding, now, permitted)
            return submission, self._committer.submit(submission)
        except RefusedBatchError:
            return None

    def conclude(self, submission: Submission, committing: Committing, body: bytes) -> Response:
        """Return the answer to a submitted batch, once it is durable or has failed."""
        batch, now = submission.batch, submission.received_at
        try:
            outcome = _done(committing)
            if outcome.status == "conflict":
                raise RefusedBatchError(
                    422,
                    f"sequence {batch.sequence} of boot {batch.boot_id} was already used with other content; "
                    "give each batch a number of its own",
                    "conflict",
                    batch,
                )
        except RefusedBatchError as refused:
            return self._refuse(refused, body, now)
        return as_response(200, outcome_content(outcome))

    def reject(self, reason: str, label: str, now: float) -> Response:
        """Answer that the batch should be sent again later: it is counted, not kept."""
        self._committer.refuse(Refusal(reason, label, now, 0, None))
        return as_response(503, {"error": reason}, {"Retry-After": "5"})

    def _refuse(self, refused: RefusedBatchError, body: bytes, now: float) -> Response:
        """Answer only once the body is in quarantine: the agent will not send it again."""
        batch = refused.batch
        refusal = Refusal(
            str(refused),
            refused.label,
            now,
            len(body),
            body if refused.is_kept else None,
            batch.cluster if batch else None,
            batch.node if batch else None,
            self._is_example(refused, now),
        )
        try:
            _done(self._committer.refuse(refusal))
        except UnavailableError as error:
            return self.reject(str(error), error.label, now)
        except RefusedBatchError:  # it cannot be kept either
            self._committer.refuse(Refusal(str(refused), refused.label, now, len(body), None))
        headers = {"Retry-After": "5"} if refused.status == 503 else {}
        return as_response(refused.status, {"error": str(refused)}, headers)

    def _is_example(self, refused: RefusedBatchError, now: float) -> bool:
        """Return whether to list a refusal without a body; log it; both seldom for each sender."""
        batch = refused.batch
        if batch is None or refused.is_kept:
            return False
        sender = (refused.label, batch.cluster, batch.node)
        if self._logged.lets(sender, now):
            whose = batch.cluster[:100], batch.node[:100]
            log.warning("a batch of cluster %r, node %r was refused with %d: %s", *whose, refused.status, str(refused))
        return self._listed_before.lets(sender, now)


def outcome_content(outcome: BatchOutcome) -> dict[str, Any]:
    """Return the answer to a batch that is stored, now or before."""
    return {"status": outcome.status, **({"samples": outcome.samples} if outcome.samples else {})}


def as_response(status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """Return ``content`` as JSON."""
    return Response(json.dumps(content), status, headers, mimetype="application/json")


def _done(committing: Committing) -> BatchOutcome:
    """Return the outcome, once it is durable."""
    try:
        return committing.result(timeout=_COMMIT_TIMEOUT_S)
    except FutureTimeout as error:
        raise UnavailableError(f"the batch was not written within {_COMMIT_TIMEOUT_S:g} s") from error
