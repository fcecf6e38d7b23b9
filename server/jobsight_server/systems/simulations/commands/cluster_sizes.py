"""Several clusters: the argument KxP, and their uplinks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.workload.canonical import LARGEST_MACHINE

CLUSTERS_AT_MOST = 1000


def cluster_sizes(text: str) -> tuple[int, ...]:
    """The processors of each cluster, of ``4x32`` or ``64,32,32``.

    Raises:
        argparse.ArgumentTypeError: something else, or more than can be simulated.
    """
    try:
        if "x" in text:
            count, size = map(int, text.split("x"))
            sizes = (size,) * min(count, CLUSTERS_AT_MOST + 1)
        else:
            sizes = tuple(map(int, text.split(",")))
    except ValueError:
        sizes = ()
    if len(sizes) > CLUSTERS_AT_MOST or sum(sizes) > LARGEST_MACHINE:
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r}: give at most {CLUSTERS_AT_MOST:,} clusters of {LARGEST_MACHINE:,} processors in all"
        )
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of clusters: give 4x32, or sizes such as 64,32,32")
    return sizes


def clusters_with(sizes: tuple[int, ...], uplinks_bps: Sequence[float]) -> Clusters:
    """Clusters of these sizes, with one rate for all uplinks or one for each.

    Raises:
        ValueError: the number of rates is wrong, or a rate is not above 0.
    """
    if len(uplinks_bps) not in (1, len(sizes)):
        raise ValueError(f"--uplink has {len(uplinks_bps)} rates for {len(sizes)} clusters: give one, or one for each")
    return Clusters(sizes, tuple(uplinks_bps) if len(uplinks_bps) > 1 else tuple(uplinks_bps) * len(sizes))
