"""Templates as text, as in settings, commands and answers."""

from __future__ import annotations

from .templates import FIELDS, Template

SITE = "site"


def parse_template(text: str) -> Template:
    """The template written as ``user+queue`` in settings and answers, fields in any order; ``site`` groups all jobs.

    Raises:
        ValueError: a field does not exist or is given twice.
    """
    if text.strip() == SITE:
        return ()
    fields = [field.strip() for field in text.split("+")]
    if unknown := [field for field in fields if field not in FIELDS]:
        raise ValueError(f"template {text!r}: no field {unknown[0]!r}; join {', '.join(FIELDS)} by +, or write {SITE}")
    if len(set(fields)) < len(fields):
        raise ValueError(f"template {text!r} has a field twice")
    return tuple(field for field in FIELDS if field in fields)


def template_text(template: Template) -> str:
    """The text that ``parse_template`` reads: ``user+queue``, ``site``."""
    return "+".join(template) or SITE
