"""Workload traces, which the repository does not contain: ``JOBSIGHT_TRACES`` names their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def trace(name: str) -> Path:
    """Return a file of the folder of traces, or with ``../`` one beside it; without it, skip the test."""
    folder = os.environ.get("JOBSIGHT_TRACES")
    if not folder:
        pytest.skip("no workload traces: set JOBSIGHT_TRACES to their folder")
    file = Path(folder, name)
    if not file.exists():
        pytest.skip(f"{name} is not in {folder}; set JOBSIGHT_TRACES to the folder of the traces")
    return file
