"""Nodes of several memory sizes, and the free ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jobsight_server.replay.machines import nodes_of_classes

Taken = tuple[tuple[int, int], ...]
"""(class, nodes) of a job."""
MIB = 2.0**20


@dataclass(frozen=True, slots=True)
class NodeClass:
    """``count`` nodes with ``memory_bytes`` each."""

    count: int
    memory_bytes: float


def parse_classes(text: str) -> list[NodeClass]:
    """Node classes in order of their memory, from text such as ``512x32M,512x24M``; those of one size are joined.

    Raises:
        ValueError: the text is malformed, or a class has no nodes or no memory.
    """
    sizes, counts = np.unique(nodes_of_classes(text).memory_bytes, return_counts=True)
    return [NodeClass(count, memory) for memory, count in zip(sizes.tolist(), counts.tolist(), strict=True)]


class Nodes:
    """Free nodes by class, in order of memory. A job of class k may take nodes of class k and above."""

    def __init__(self, classes: Sequence[NodeClass]) -> None:
        self.memory_bytes = [entry.memory_bytes for entry in classes]
        self.nodes = [entry.count for entry in classes]
        self.free = list(self.nodes)

    def available(self, needed: int) -> int:
        """Return the number of free nodes of class ``needed`` and above."""
        return sum(self.free[needed:])

    def take(self, taken: Taken) -> None:
        """Take nodes that are free."""
        for place, count in taken:
            self.free[place] -= count

    def give(self, taken: Taken) -> None:
        """Give nodes back."""
        for place, count in taken:
            self.free[place] += count


def smallest_fit(free: Sequence[int], needed: int, count: int) -> Taken:
    """Return ``count`` free nodes of class ``needed`` and above, the smallest first."""
    taken = []
    for place in range(needed, len(free)):
        here = free[place]
        if here >= count:
            taken.append((place, count))
            break
        if here:
            taken.append((place, here))
            count -= here
    return tuple(taken)
