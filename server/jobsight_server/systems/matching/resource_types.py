"""Types of resources, with the attributes and capacities of their instances; checks of reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, field

from jobsight_predictor.metrics import METRICS
from jobsight_scheduler.matching.records import InvalidProblemError, decoded
from jobsight_server.forecasts.record import Metric, Record
from jobsight_server.storage.errors import RefusedError

MOST_FIELDS = 100
LONGEST_NAME = 200

_IDENTIFIER = "^[A-Za-z_][A-Za-z0-9_]{0,62}$"
Identifier = Annotated[str, Meta(pattern=_IDENTIFIER)]
Kind = Literal["text", "number", "flag", "list"]


class ResourceError(RefusedError):
    """A resource, type, policy or match that cannot be stored or found."""


class AttributeType(Record):
    """An attribute of all instances of a type; ``changes``: reports of its state may change it."""

    name: Identifier
    kind: Kind = "text"
    changes: bool = False


class CapacityType(Record):
    """A capacity of all instances. An amount that is ``predicted`` is ``scale`` times the bound of
    ``metric`` for the whole job.
    """

    name: Identifier
    unit: Annotated[str, Meta(max_length=40)] = ""
    metric: Metric | None = None
    scale: Annotated[float, Meta(gt=0, le=1e18)] = 1.0


class ResourceType(Record):
    """A type of resource. Instances may have further attributes and capacities; predicates read all of them."""

    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    attributes: Annotated[list[AttributeType], Meta(max_length=MOST_FIELDS)] = field(default_factory=list)
    capacities: Annotated[list[CapacityType], Meta(max_length=MOST_FIELDS)] = field(default_factory=list)
    description: Annotated[str, Meta(max_length=500)] = ""


RESERVED = ("state", "rank")
"""Names under ``/api/v1/resources`` that no resource may have."""


def check_type(kind: ResourceType) -> None:
    """Check the definition of a type.

    Raises:
        ResourceError: two attributes or capacities have the same name, the name cannot be part of an address, or a
            metric is not forecast.
    """
    check_name(kind.name, "name")
    names = [entry.name for entry in kind.attributes] + [entry.name for entry in kind.capacities]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ResourceError(f"type {kind.name!r} has {twice[0]!r} more than once; give each name once")
    for entry in kind.capacities:
        if entry.metric is not None and entry.metric not in METRICS:
            known = ", ".join(METRICS)
            raise ResourceError(
                f"metric {entry.metric[:60]!r} of {entry.name!r} is not forecast; choose one of {known}"
            )


def check_name(name: str, place: str) -> None:
    """Check a name.

    Raises:
        ResourceError: not 1 to 200 printable characters, or a path cannot contain it.
    """
    if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME or "\\" in name:
        raise ResourceError(f"{place} = {name[:60]!r}: give 1 to {LONGEST_NAME} printable characters, no backslash")
    if name in RESERVED:
        raise ResourceError(f"{place} = {name!r} is an address of the API; choose another name")
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise ResourceError(f"{place} = {name[:60]!r}: no address can have `.`, `..` or an empty part between slashes")


def _shipped(name: str, description: str, attributes: str, *capacities: CapacityType) -> ResourceType:
    """Return a built-in type; ``attributes`` are words ``name`` or ``name:kind``."""
    words = (word.partition(":") for word in attributes.split())
    return ResourceType(
        name,
        [AttributeType(attribute, msgspec.convert(kind or "text", Kind)) for attribute, _, kind in words],
        list(capacities),
        description,
    )


_BANDWIDTH = CapacityType("bandwidth_mbps", "Mb/s", "bandwidth", 1e-6)
_COMPUTE = (
    CapacityType("slots", "application slots"),
    CapacityType("memory_gib", "GiB", "memory", 2.0**-30),
    _BANDWIDTH,
)
_NODE = "location os os_version cpu_type cpu_mhz:number applications:list"
_LICENCES = CapacityType("licences", "licences")
SHIPPED = {
    kind.name: kind
    for kind in (
        _shipped("compute", "A machine that runs jobs", _NODE, *_COMPUTE),
        _shipped("filesystem", "Space for files", "location fs_type size_gb:number", CapacityType("capacity_gb", "GB")),
        _shipped("database", "A database server", "location db_type", CapacityType("connections", "connections")),
        _shipped("network", "A network subsystem", "domain network_type", _BANDWIDTH),
        _shipped("application", "An application or its licences", "location version applications:list", _LICENCES),
    )
}
"""The built-in types; a definition of the same name replaces one."""


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
    """``used`` is measured on the whole resource; ``available`` is the total less ``used``."""

    total: Amount | None = None
    used: Amount | None = None
    available: Amount | None = None

    def __post_init__(self) -> None:
        if self.used is not None and self.available is not None:
            raise InvalidProblemError("give used or available, not both")


Capacities = Annotated[dict[Identifier, CapacityReport | Amount], Meta(max_length=MOST_FIELDS)]
"""Take a number alone for the total."""


class ResourceReport(msgspec.Struct, forbid_unknown_fields=True):
    """The state of a resource; omitted fields stay unchanged.

    With its ``type``, an unknown resource is created. ``time``: time of the measurement (default: now).
    """

    name: Name
    type: Name | None = None
    time: Annotated[float, Meta(ge=0, le=LATEST_TIME_S)] | None = None
    attributes: Attributes = {}
    capacities: Capacities = {}
    owner_present: bool | None = None


class ResourceBody(msgspec.Struct, forbid_unknown_fields=True):
    """A resource as an administrator defines it. ``static``: without reports; its state does not expire."""

    type: Name
    attributes: Attributes = {}
    capacities: Capacities = {}
    cost: Amount = 1.0
    static: bool = False


def sent(value: object, kind: type[T], place: str) -> T:
    """Convert ``value``, at ``place``, to a record of this kind.

    Raises:
        ResourceError: it is none; the message has the place and the value.
    """
    try:
        return decoded(value, kind, place)
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


def state_row(report: ResourceBody | ResourceReport, kind: ResourceType, before: Stored) -> dict[str, str]:
    """Return the columns of attributes and capacities after a report.

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
