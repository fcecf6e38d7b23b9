"""Resources and reports of their state as they are sent, and what is stored of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from jobsight_scheduler.matching.records import InvalidProblemError, decoded
from jobsight_server.systems.matching.resource_types import (
    LONGEST_NAME,
    MOST_FIELDS,
    Identifier,
    Kind,
    ResourceError,
    ResourceType,
)

LARGEST_AMOUNT = 1e15
LATEST_TIME_S = 1e11

T = TypeVar("T")

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Amount = Annotated[float, Meta(ge=0, le=LARGEST_AMOUNT)]
Number = Annotated[float, Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT)]
Plain = bool | Number | Annotated[str, Meta(max_length=1000, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
Value = Plain | Annotated[tuple[Plain, ...], Meta(max_length=1000)]
Attributes = Annotated[dict[Identifier, Value], Meta(max_length=MOST_FIELDS)]
Stored = tuple[dict[str, Value], dict[str, tuple[float, float]]]
"""Attributes, and capacities as pairs (total, measured use)."""


class CapacityReport(msgspec.Struct, forbid_unknown_fields=True):
    """``used`` is measured, on the whole resource; ``available`` says the same, as the total less what is used."""

    total: Amount | None = None
    used: Amount | None = None
    available: Amount | None = None

    def __post_init__(self) -> None:
        if self.used is not None and self.available is not None:
            raise InvalidProblemError("give used or available, not both")


Capacities = Annotated[dict[Identifier, CapacityReport | Amount], Meta(max_length=MOST_FIELDS)]
"""A number alone is the total."""


class ResourceReport(msgspec.Struct, forbid_unknown_fields=True):
    """The state of a resource; what is left out stays as it is.

    One that is not there yet is created if its ``type`` is given. ``time``: when it was measured; now, if left out.
    """

    name: Name
    type: Name | None = None
    time: Annotated[float, Meta(ge=0, le=LATEST_TIME_S)] | None = None
    attributes: Attributes = {}
    capacities: Capacities = {}
    owner_present: bool | None = None


class ResourceBody(msgspec.Struct, forbid_unknown_fields=True):
    """A resource as an administrator defines it. ``static``: no state is reported for it, so it does not expire."""

    type: Name
    attributes: Attributes = {}
    capacities: Capacities = {}
    cost: Amount = 1.0
    static: bool = False


def sent(value: object, kind: type[T], place: str) -> T:
    """``value``, at ``place``, as a record of this kind.

    Raises:
        ResourceError: it is none; the message has the place and the value.
    """
    try:
        return decoded(value, kind, place)
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


def state_row(report: ResourceBody | ResourceReport, kind: ResourceType, before: Stored) -> dict[str, str]:
    """The columns of attributes and capacities after a report.

    Raises:
        ResourceError: too many, an attribute of another kind than declared, or a capacity without a total.
    """
    attributes, capacities = before[0] | report.attributes, dict(before[1])
    kinds: Mapping[str, Kind] = {field.name: field.kind for field in kind.attributes}
    for name, value in report.attributes.items():
        if (found := _kind_of(value)) != kinds.get(name, found):
            raise ResourceError(
                f"attributes.{name} = {str(value)[:60]!r} is a {found}; {kind.name} has a {kinds[name]} there"
            )
    for name, given in report.capacities.items():
        one = given if isinstance(given, CapacityReport) else CapacityReport(given)
        total, used = capacities.get(name, (None, 0.0))
        total = total if one.total is None else one.total
        if total is None:
            raise ResourceError(f"capacities.{name} has no total yet; give it")
        used = used if one.used is None else one.used
        capacities[name] = total, used if one.available is None else max(0.0, total - one.available)
    for place, fields in (("attributes", attributes), ("capacities", capacities)):
        if len(fields) > MOST_FIELDS:
            raise ResourceError(f"{place} has {len(fields)} entries; at most {MOST_FIELDS} are kept")
    return {
        name: msgspec.json.encode(of).decode() for name, of in (("attributes", attributes), ("capacities", capacities))
    }


def _kind_of(value: Any) -> Kind:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, tuple):
        return "list"
    return "text" if isinstance(value, str) else "number"
