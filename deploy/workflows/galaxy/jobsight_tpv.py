"""Asks Jobsight for the memory of a Galaxy job, in a rule of TPV, the Total Perspective Vortex (docs/use/workflows.md).

Beside ``jobsight_resources.py``, which asks, in the PYTHONPATH of Galaxy's job handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from types import SimpleNamespace
from typing import Any

from jobsight_resources import jobsight

_MIB_OF_A_GIB = 1024


def memory_gib(context: Mapping[str, Any], input_gib: float) -> float:
    """Return the memory for this attempt of a job, in GiB as TPV's ``mem``.

    ``context`` is that of the rule, its ``globals()``. TPV's own amount, with its limits, is the request of the
    question, and the answer where there is no other.
    """
    own = context["entity"].evaluate_resources(dict(context))
    again = [each for each in getattr(context["job"], "state_history", ()) if each.state == "resubmitted"]
    ask = jobsight(mem_mib=ceil(own.mem * _MIB_OF_A_GIB))["mem_mib"]
    size = SimpleNamespace(size=ceil(input_gib * 2**30))
    found: float = ask({}, size, ceil(own.cores or 1), 1 + len(again), context["tool"].old_id)
    return found / _MIB_OF_A_GIB
