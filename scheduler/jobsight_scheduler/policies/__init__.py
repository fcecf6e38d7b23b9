"""Policies, which decide when jobs start: one per file, a table of them by name, and the use of custom ones."""

from __future__ import annotations

from .easy_by_key import EasyByKey

__all__ = ["EasyByKey"]
