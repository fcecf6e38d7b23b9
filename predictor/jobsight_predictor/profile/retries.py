"""The waste of a job that runs out of its reservation and is run again with twice as much, until it fits."""

from __future__ import annotations

from math import log

RETRIES = 10  # doublings; after this many the job gets exactly what it needs

RETRIED = 2.0 / log(2.0) - 1.0
"""A job that needs y and is tried with b, 2 b, 4 b .. until it fits holds 2 / ln 2 y - b idly, if y may be anything."""


def wasted(reserved: float, value: float) -> float:
    """What one job's attempts reserve beyond ``value``, per second, in the unit of both."""
    held = 0.0
    for _ in range(RETRIES):
        if value <= reserved:
            break
        held += reserved
        reserved *= 2.0
    return held + max(reserved, value) - value
