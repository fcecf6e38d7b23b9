"""Who starts when: one policy a file, and a table of them by the name that commands use."""

from __future__ import annotations

from .base import NEVER, Policy, Requests
from .conservative import Conservative
from .easy import Easy
from .fcfs import Fcfs

POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in (Fcfs, Easy, Conservative)}

__all__ = ["NEVER", "POLICIES", "Conservative", "Easy", "Fcfs", "Policy", "Requests"]
