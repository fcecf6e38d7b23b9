"""Decodes a received body and decides whether its batch is stored."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection

from jobsight_server.auth.tokens import Token
from jobsight_server.ingest.wire import Batch, ForbiddenError, Submission, WireError, decode, unpack
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.clusters import KnownClusters, listed

_GZIP = b"\x1f\x8b"


def submission_of(body: bytes, encoding: str, max_unpacked_bytes: int, now: float) -> Submission:
    """Return the batch in a body in this ``Content-Encoding``, received at ``now``.

    Raises:
        RefusedBatchError: it cannot be unpacked or decoded.
    """
    payload = unpack(body, encoding, max_unpacked_bytes)
    return Submission(decode(payload), zlib.crc32(payload), now)


def judge_again(settings: Settings, body: bytes, now: float, clusters: KnownClusters) -> Submission:
    """Return the batch of a body in quarantine, with the checks of one that arrives; JSON cannot begin like gzip."""
    encoding = "gzip" if body.startswith(_GZIP) else ""
    submission = submission_of(body, encoding, settings.max_unpacked_bytes, now)
    _check_cluster(submission.batch, clusters.all())
    check_times(submission.batch, settings, now)
    return submission


def check_sender(batch: Batch, token: Token, known: Collection[str], collected: frozenset[str] | None) -> None:
    """Refuse batches that the token does not allow, and of clusters not ``collected`` here or not ``known``."""
    if not token.may_write(batch.cluster, batch.node):
        raise ForbiddenError(
            f"this token is for {token.scope}, the batch is of cluster {batch.cluster[:100]!r}, node "
            f"{batch.node[:100]!r}: correct the agent's --cluster or --node, or give it a token of its own",
            "not this token's cluster or node",
            batch,
        )
    if collected is not None and batch.cluster not in collected:
        raise ForbiddenError(
            f"cluster {batch.cluster[:100]!r} is collected by another server, this one collects {listed(collected)}: "
            "correct the agent's --server",
            "collected by another server",
            batch,
        )
    _check_cluster(batch, known)


def _check_cluster(batch: Batch, known: Collection[str]) -> None:
    if batch.cluster not in known:
        raise ForbiddenError(
            f"cluster {batch.cluster[:100]!r} is not declared; declared: {listed(known)}. Correct the agent's "
            "--cluster, or declare it on the server, with its accounting directory or in the setting clusters",
            "cluster not declared",
            batch,
        )


def check_times(batch: Batch, settings: Settings, now: float) -> None:
    """Refuse readings from the future, and those older than the retention."""
    first, last = batch.time[0], batch.time[-1]
    if not (math.isfinite(last) and last <= now + settings.max_future_s):
        ahead = last - now
        raise WireError(
            f"time {last:.3f} lies {ahead:.0f} s ahead of the server's clock; at most {settings.max_future_s:g} s "
            "are allowed: set the node's clock",
            "time in the future",
            batch,
        )
    if first < now - settings.retention_days * 86400:
        raise WireError(
            f"time {first:.3f} is older than the retention of {settings.retention_days:g} days",
            "too old",
            batch,
        )
