"""What is known of jobs alike, which forecasts to follow, how much to reserve and how sure that is."""

from __future__ import annotations

from .profile import Profile

__all__ = ["Profile"]
