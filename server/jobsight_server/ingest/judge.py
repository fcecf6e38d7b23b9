"""Judges a received body: the batch in it, or why it is rejected or refused."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import partial

from jobsight_server.auth.tokens import Token
from jobsight_server.ingest.retry import RefusalError
from jobsight_server.ingest.submission import Submission
from jobsight_server.ingest.unpacking import check_size, unpack
from jobsight_server.ingest.wire import Batch, TooLargeError, WireError, decode
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters, listed

_GZIP = b"\x1f\x8b"


class RefusedBatchError(RefusalError):
    """A request to be answered with ``status``; ``body`` goes to quarantine, unless None."""

    def __init__(self, status: int, reason: str, label: str, batch: Batch | None = None, *, keep: bool = True) -> None:
        super().__init__(reason)
        self.status, self.reason, self.label, self.batch, self.keep = status, reason, label, batch, keep


def judge(settings: Settings, body: bytes, encoding: str, now: float, permitted: Callable[[Batch], None]) -> Submission:
    """Return the batch to store; ``permitted`` refuses one that its sender may not send."""
    try:
        payload = unpack(body, encoding, settings.max_unpacked_bytes)
    except TooLargeError as error:
        raise RefusedBatchError(413, str(error), "too large", keep=False) from error
    except WireError as error:
        raise RefusedBatchError(400, str(error), "not readable") from error
    try:
        check_size(payload)
        batch = decode(payload)
    except WireError as error:
        raise RefusedBatchError(422, str(error), "wrong content") from error
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
            keep=False,
        )
    if collected is not None and batch.cluster not in collected:
        raise RefusedBatchError(
            403,
            f"cluster {batch.cluster[:100]!r} is collected by another server, this one collects {listed(collected)}: "
            "correct the agent's --server",
            "collected by another server",
            batch,
            keep=False,
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
        keep=False,
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
