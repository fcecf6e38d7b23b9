"""Simulations, their traces and their files."""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, LargeBinary, Table, Text

from jobsight_server.storage.schema.metadata import metadata

# Workloads that were simulated: Standard Workload Format, gzip; one row however many runs use it.
simulation_traces = Table(
    "simulation_traces",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# state: queued, running, done, failed, stopped. ``parameters`` and ``figures`` (of done ones) are JSON.
simulations = Table(
    "simulations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Column("state", Text, nullable=False),
    Column("trace", Text, ForeignKey("simulation_traces.digest"), nullable=False),
    Column("parameters", Text, nullable=False),
    Column("progress", Double, nullable=False),
    Column("figures", Text),
    Column("error", Text),
    Index(None, "state"),
    Index(None, "trace"),
    sqlite_autoincrement=True,  # the address of a deleted one is never reused
)

# Plots and the table of jobs of finished ones, gzip.
simulation_files = Table(
    "simulation_files",
    metadata,
    Column("run_id", Integer, ForeignKey("simulations.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
