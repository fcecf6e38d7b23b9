"""Which earlier jobs a job resembles: groups by what is known at submission, from specific to general."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

FIELDS = ("user", "application", "queue", "processors", "requested_memory_bytes", "requested_time_s")
"""What a template may group by."""

Template = tuple[str, ...]
Key = tuple[int, tuple[Any, ...]]
"""Which fields (a bit each, in the order of FIELDS) and their values."""

DEFAULT_TEMPLATES: tuple[Template, ...] = (
    ("user", "application", "queue", "processors", "requested_memory_bytes", "requested_time_s"),
    ("user", "application", "processors", "requested_memory_bytes"),
    ("user", "processors", "requested_time_s"),
    ("user", "application"),
    ("user", "queue", "processors"),
    ("user", "requested_memory_bytes"),
    ("user", "requested_time_s"),
    ("user", "processors"),
    ("user", "queue"),
    ("user",),
    ("application", "queue", "processors", "requested_memory_bytes", "requested_time_s"),
    ("queue", "processors"),
    (),
)
"""From the most specific to the whole site."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is known about a job when it is submitted; None is unknown, and no template groups by it."""

    user: str | None = None
    application: str | None = None
    queue: str | None = None
    processors: int | None = None
    requested_memory_bytes: float | None = None
    requested_time_s: float | None = None


_known = attrgetter(*FIELDS)


def label(template: Template) -> str:
    """How answers name a level: ``user + queue``, ``site``."""
    return " + ".join(template) if template else "site"


class Templates:
    """The groups of a job under each template.

    Unknown fields are left out of a job's templates, and templates that then coincide count once, as the one with the
    fewest fields left out: if applications are never known, users do not vote twice, and if only the user is known,
    the forecast weighs the past success of users alone.

    Raises:
        ValueError: a template groups by something else than ``FIELDS``, or there is none at all.
    """

    def __init__(self, templates: Sequence[Template] = DEFAULT_TEMPLATES) -> None:
        for template in templates:
            if unknown := set(template) - set(FIELDS):
                raise ValueError(f"template {template} groups by {sorted(unknown)}; choose from {', '.join(FIELDS)}")
        if not templates:
            raise ValueError("no templates: give at least one, for instance () for the whole site")
        self.templates = tuple(tuple(template) for template in templates)
        self._levels: dict[int, list[tuple[int, int, Any]]] = {}

    def keys(self, question: Question) -> list[tuple[int, Key]]:
        """(index of the template, key of the group) for each level that applies, in the order of the templates."""
        values = _known(question)
        known = 0
        bit = 1
        for value in values:
            if value is not None:
                known |= bit
            bit <<= 1
        levels = self._levels.get(known)
        if levels is None:
            levels = self._levels[known] = self._levels_for(known)
        return [(index, (mask, values_of(values))) for index, mask, values_of in levels]

    def level(self, key: Key) -> str:
        """The group's name in an answer: the template's fields that are known of the job."""
        return label(tuple(field for bit, field in enumerate(FIELDS) if key[0] >> bit & 1))

    def _levels_for(self, known: int) -> list[tuple[int, int, Any]]:
        levels: dict[int, tuple[int, int, Any]] = {}
        left_out: dict[int, int] = {}
        for index, template in enumerate(self.templates):
            bits = [bit for bit in sorted(FIELDS.index(field) for field in template) if known >> bit & 1]
            mask = sum(1 << bit for bit in bits)
            if mask in levels and left_out[mask] <= len(template) - len(bits):
                continue
            left_out[mask] = len(template) - len(bits)
            if len(bits) > 1:
                values_of: Any = itemgetter(*bits)
            else:  # an item alone would come bare; a slice comes as a tuple
                values_of = itemgetter(slice(bits[0], bits[0] + 1) if bits else slice(0))
            levels[mask] = (index, mask, values_of)
        return list(levels.values())
