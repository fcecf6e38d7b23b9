"""Parts of the application that the core does not know: what the views of a placing system use."""

from __future__ import annotations

from typing import TypeVar

from flask import Flask, current_app

SystemPart = TypeVar("SystemPart")


def add_part(app: Flask, part: object) -> None:
    """Add the part that the views of one system use."""
    app.extensions.setdefault("jobsight_parts", []).append(part)


def part(kind: type[SystemPart]) -> SystemPart:
    """Return the part of this type of the application that handles the current request."""
    return next(made for made in current_app.extensions["jobsight_parts"] if isinstance(made, kind))
