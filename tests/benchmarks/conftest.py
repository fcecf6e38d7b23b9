"""Benchmarks are found after all else: one of them has the name of a module of Python."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
