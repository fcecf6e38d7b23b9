"""Resources, matches and waiting jobs in the database."""

from __future__ import annotations

from jobsight_server.systems.listed import PlacingSystem

SYSTEM = PlacingSystem(__name__, {"match": "match the jobs of a file to its resources"})
