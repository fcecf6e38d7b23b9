"""A document of sections for the terminal and for a page of its own: one file, without a server or a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby

from jinja2 import Environment, PackageLoader

from jobsight_server import web

MADE_BY = '<meta name="generator" content="jobsight report">'
"""In the head of each page: only such a file is replaced."""


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """One of the two answers: a figure, and how it comes about."""

    title: str
    figure: str
    unit: str
    detail: str


@dataclass(frozen=True, slots=True)
class DocumentTable:
    """Rows under their heads; the first ``names`` columns are text, the others numbers."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1


@dataclass(frozen=True, slots=True)
class Paste:
    """Text to copy, under a title if it has one."""

    text: str
    title: str = ""


Block = str | DocumentAnswer | DocumentTable | Paste


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """Blocks under a title; the first section has none."""

    title: str
    blocks: Sequence[Block]


def _kind(block: Block) -> str:
    return type(block).__name__


def page_of(title: str, parts: Sequence[DocumentSection]) -> str:
    """Return the report as a page: one file, without a server or a network."""
    templates = Environment(loader=PackageLoader(web.__name__), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    # Answers stand side by side.
    templates.filters["by_kind"] = lambda blocks: [(kind, [*of]) for kind, of in groupby(blocks, _kind)]
    place = files(web) / "static"
    return templates.get_template("report.html").render(
        heading=title,
        sections=parts,
        made_by=MADE_BY,
        style=(place / "jobsight.css").read_text(),
        script=(place / "copy.js").read_text(),
    )
