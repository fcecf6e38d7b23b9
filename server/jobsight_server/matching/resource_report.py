"""Resources and reports of their state as they are sent, and the checks that a schema cannot express."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from jobsight_server.matching.resource_types import (
    LONGEST_NAME,
    MOST_FIELDS,
    Kind,
    ResourceError,
    ResourceType,
    is_identifier,
)

LARGEST_AMOUNT = 1e15
LATEST_TIME_S = 1e11
_LONGEST_TEXT = 1000
_SHOWN = 60

Amount = Annotated[float, Meta(ge=0, le=LARGEST_AMOUNT)]
CapacityAmount = Annotated[float, Meta(description=f"from 0 to {LARGEST_AMOUNT:g}")]
"""Checked by ``checked_capacities``: it can say of which capacity it is, and a wrong report keeps no other one out."""

Value = str | float | bool | list[str | float | bool]
Attributes = dict[str, Value]


class CapacityReport(msgspec.Struct, forbid_unknown_fields=True):
    """``used`` is measured, on the whole resource; ``available`` says the same, as the total less what is used."""

    total: CapacityAmount | None = None
    used: CapacityAmount | None = None
    available: CapacityAmount | None = None


Capacities = dict[str, CapacityReport | CapacityAmount]
"""A number alone is the total."""


class ResourceReport(msgspec.Struct, forbid_unknown_fields=True):
    """The state of a resource; what is left out stays as it is.

    One that is not there yet is created if its ``type`` is given. ``time``: when it was measured; now, if left out.
    """

    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    type: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)] | None = None
    time: Annotated[float, Meta(ge=0, le=LATEST_TIME_S)] | None = None
    attributes: Attributes = {}
    capacities: Capacities = {}
    owner_present: bool | None = None


class ResourceBody(msgspec.Struct, forbid_unknown_fields=True):
    """A resource as an administrator defines it. ``static``: no state is reported for it, so it does not expire."""

    type: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    attributes: Attributes = {}
    capacities: Capacities = {}
    cost: Amount = 1.0
    static: bool = False


def checked_attributes(sent: Mapping[str, Any], kind: ResourceType, place: str) -> dict[str, Value]:
    """The attributes, as they may be stored.

    Raises:
        ResourceError: too many, a name that no predicate can have, or a value of another kind than declared.
    """
    if len(sent) > MOST_FIELDS:
        raise ResourceError(f"{place} has {len(sent)} entries; at most {MOST_FIELDS} are kept")
    kinds: dict[str, Kind] = {field.name: field.kind for field in kind.attributes}
    for name, value in sent.items():
        _check_field_name(name, place)
        values = value if isinstance(value, list) else [value]
        if len(values) > _LONGEST_TEXT or any(not _is_plain(item) for item in values):
            raise ResourceError(
                f"{place}.{name} = {str(value)[:_SHOWN]!r}: give finite numbers, or printable text of at most "
                f"{_LONGEST_TEXT} characters"
            )
        declared = kinds.get(name)
        if declared is not None and _kind_of(value) != declared:
            raise ResourceError(
                f"{place}.{name} = {str(value)[:_SHOWN]!r} is a {_kind_of(value)}; {kind.name} has a {declared} there"
            )
    return dict(sent)


def checked_capacities(
    sent: Mapping[str, CapacityReport | float], before: Mapping[str, tuple[float, float]], place: str
) -> dict[str, tuple[float, float]]:
    """All capacities after the report, as pairs (total, measured use).

    Raises:
        ResourceError: too many, a name that no predicate can have, a negative or too large amount, no total, or more
            than one measure of use.
    """
    found = dict(before)
    for name, given in sent.items():
        _check_field_name(name, place)
        report = given if isinstance(given, CapacityReport) else CapacityReport(given)
        for field in report.__struct_fields__:
            amount = getattr(report, field)
            if amount is not None and not 0 <= amount <= LARGEST_AMOUNT:
                raise ResourceError(f"{place}.{name}.{field} = {amount:g} is not between 0 and {LARGEST_AMOUNT:g}")
        total, used = found.get(name, (None, 0.0))
        total = total if report.total is None else report.total
        if total is None:
            raise ResourceError(f"{place}.{name} has no total yet; give it")
        if report.used is not None and report.available is not None:
            raise ResourceError(f"{place}.{name}: give used or available, not both")
        if report.available is not None:
            used = max(0.0, total - report.available)
        elif report.used is not None:
            used = report.used
        found[name] = total, used
    if len(found) > MOST_FIELDS:
        raise ResourceError(f"{place} has {len(found)} entries; at most {MOST_FIELDS} are kept")
    return found


def as_row(value: Mapping[str, Any]) -> str:
    """JSON of attributes or capacities."""
    return json.dumps(value, separators=(",", ":"))


def _check_field_name(name: str, place: str) -> None:
    if not is_identifier(name):
        raise ResourceError(
            f"{place}: the name {name[:_SHOWN]!r} is not letters, digits and _ (at most 63), as predicates need"
        )


def _kind_of(value: Any) -> Kind:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, list):
        return "list"
    return "text" if isinstance(value, str) else "number"


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and (not value or value.isprintable())
    return isinstance(value, bool) or (math.isfinite(value) and abs(value) <= LARGEST_AMOUNT)
