"""The nodes of a cluster by memory per processor, as simulations take them."""

from __future__ import annotations

import math
from collections import Counter

from sqlalchemy import Connection, select

from jobsight_scheduler.memory.nodes import MIB
from jobsight_server.errors import UserError
from jobsight_server.storage.schema import nodes

_DIGITS = 2


def node_classes(connection: Connection, cluster: str) -> str:
    """Processors by memory in MB, such as ``512x32M,512x24M``. A request is per processor, so a node of 8 processors
    counts as 8 of an eighth of its memory, rounded up to two digits: nodes of one model differ by a little.

    Raises:
        UserError: no agent has reported a node of the cluster with its memory.
    """
    columns = (nodes.c.cpus, nodes.c.memory_total_bytes)
    known = connection.execute(
        select(*columns).where(nodes.c.cluster == cluster, nodes.c.memory_total_bytes > 0, nodes.c.cpus > 0)
    )
    processors: Counter[float] = Counter()
    for cpus, memory in known:
        processors[_rounded_up(memory / cpus / MIB)] += cpus
    if not processors:
        raise UserError(f"no node of {cluster!r} with known memory; give --classes, such as 512x32M,512x24M")
    return ",".join(f"{count}x{size:g}M" for size, count in sorted(processors.items(), reverse=True))


def _rounded_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    return math.ceil(value / unit - 1e-9) * unit
