"""What is known about similar jobs, which forecasts to follow, how much to reserve, and how certain that is."""

from __future__ import annotations

from .profile import Profile

__all__ = ["Profile"]
