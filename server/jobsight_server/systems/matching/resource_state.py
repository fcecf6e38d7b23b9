"""Resources as administrators define them and as reports change them, with the checks of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import msgspec
from msgspec import Meta

from jobsight_scheduler.matching.problem import AttributeValue
from jobsight_scheduler.matching.records import InvalidProblemError
from jobsight_server.ground.errors import RefusedError
from jobsight_server.ground.parameters import LATEST_TIME_S

MOST_FIELDS = 100
LONGEST_NAME = 200

_IDENTIFIER = "^[A-Za-z_][A-Za-z0-9_]{0,62}$"
Identifier = Annotated[str, Meta(pattern=_IDENTIFIER)]


class ResourceError(RefusedError):
    """A resource, policy, batch or match that cannot be stored or found."""


@contextmanager
def refused() -> Iterator[None]:
    """Raise an ``InvalidProblemError`` as a ``ResourceError``."""
    try:
        yield
    except InvalidProblemError as error:
        raise ResourceError(str(error)) from error


RESERVED = ("state", "rank")
"""Names under ``/api/v1/resources`` that no resource may have."""


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


LARGEST_AMOUNT = 1e15

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Amount = Annotated[float, Meta(ge=0, le=LARGEST_AMOUNT)]
Number = Annotated[float, Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT)]
Plain = bool | Number | Annotated[str, Meta(max_length=1000, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
Value = Plain | Annotated[tuple[Plain, ...], Meta(max_length=1000)]
Attributes = Annotated[dict[Identifier, Value], Meta(max_length=MOST_FIELDS)]
Stored = tuple[Mapping[str, AttributeValue | None], dict[str, tuple[float, float]]]
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


def state_row(report: ResourceBody | ResourceReport, before: Stored) -> dict[str, str]:
    """Return the columns of attributes and capacities after a report.

    Raises:
        ResourceError: too many, or a capacity without a total.
    """
    attributes, capacities = {**before[0], **report.attributes}, dict(before[1])
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
