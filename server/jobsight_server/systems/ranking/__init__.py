"""Reliability of machines: presence, outcomes of jobs, and rank."""

from __future__ import annotations

from jobsight_server.systems.listed import PlacingSystem

SYSTEM = PlacingSystem(__name__, {"ranks": "rank machines for a job, for HTCondor and Slurm too"}, rates_machines=True)
