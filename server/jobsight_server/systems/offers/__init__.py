"""Time slots in a plan: offered, confirmed and watched, with the probability that jobs succeed there."""

from __future__ import annotations

from jobsight_server.systems.listed import PlacingSystem

SYSTEM = PlacingSystem(__name__)
