"""Which jobs start when, on nodes of several memory sizes: one policy per file."""

from __future__ import annotations

from .base import MemoryPolicy, PolicyInput
from .conservative import MemoryConservative
from .easy import MemoryEasy
from .fcfs import MemoryFcfs

MEMORY_POLICIES: dict[str, type[MemoryPolicy]] = {
    "fcfs": MemoryFcfs,
    "easy": MemoryEasy,
    "conservative": MemoryConservative,
}

__all__ = ["MEMORY_POLICIES", "MemoryPolicy", "PolicyInput"]
