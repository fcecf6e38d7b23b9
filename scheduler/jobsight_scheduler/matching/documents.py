"""A batch as JSON: what it may contain, checked by msgspec; every error names the place and the value."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from .problem import Amount, Capacity, Hold, InvalidProblemError, Name

T = TypeVar("T")

_SHOWN = 60
_PATH = re.compile(r"^(.*) - at `\$(.*?)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

Number = float
Text = Annotated[str, Meta(max_length=255, pattern=r"\A[^\0]*\Z")]
Scalar = bool | Number | Text
Hour = Annotated[float, Meta(ge=0, le=24)]
Many = Meta(max_length=1_000)
Kinds = Meta(max_length=32)


class RuleDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """``{"classes": ["batch"], "hours": [18, 8], "when": "matches_running <= 3", "effect": "allow"}``."""

    effect: Literal["allow", "deny", "prefer"]
    preference: Annotated[float, Meta(ge=0, le=1)] | None = None
    classes: Annotated[list[Name], Many] = []
    hours: tuple[Hour, Hour] | None = None
    when: str | None = None


class ResourceDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A capacity is ``{"total": 8, "used": 2}`` or, where nothing is used, the total alone."""

    name: Name
    type: Name
    attributes: Annotated[dict[Name, Scalar | Annotated[list[Scalar], Many] | None], Meta(max_length=200)] = {}
    capacities: Annotated[dict[Name, Amount | Capacity], Kinds] = {}
    cost: Annotated[float, Meta(ge=0, le=1e15)] = 1.0
    held: bool | None = None
    holds: Annotated[tuple[Hold, ...], Many] = ()
    policies: Annotated[list[RuleDocument], Many] = []
    matches_running: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    unavailable: Name | None = None


class OrderDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A preference by the values of an attribute, as pairs (better, worse)."""

    attribute: Name
    better: Annotated[list[tuple[Scalar, Scalar]], Many]


class DependencyDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """``prefer`` is ``"speed"``, ``"lowest price"``, ``"highest speed / price"``, or an order of values."""

    name: Name
    type: Name
    where: str | None = None
    amounts: Annotated[dict[Name, Amount], Kinds] | None = None
    count: Annotated[int, Meta(ge=1, le=100_000)] = 1
    prefer: str | OrderDocument | None = None


class RelationDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """``between`` two dependencies: the ``same`` attribute, or ``pairs`` of names of resources."""

    between: tuple[Name, Name]
    same: Name | None = None
    pairs: Annotated[list[tuple[Name, Name]], Meta(max_length=100_000)] | None = None


class JobDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """``executable`` and ``inputs`` are allowed and not looked at."""

    name: Name
    dependencies: Annotated[list[DependencyDocument], Meta(max_length=64)]
    user: Name | None = None
    job_class: Text = field(default="", name="class")
    priority: Annotated[float, Meta(ge=0, le=1e12)] = 1.0
    duration_s: Annotated[float, Meta(ge=0, le=1e10)] | None = None
    relations: Annotated[list[RelationDocument], Many] | None = None
    executable: Any = None
    inputs: Any = None


class ObjectiveDocument(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"z": "Z", "x": "X", "s": "S", "f": "F"}
):
    """One that ships, ``balance`` of these ``resources`` or this ``type`` only; or an own one, linear in Z, X, S, F."""

    name: Name
    resources: Annotated[frozenset[Name], Meta(max_length=100_000)] | None = None
    type: Name | None = None
    sense: Literal["max", "min"] | None = None
    z: str | None = None
    x: str | None = None
    s: str | None = None
    f: str | None = None


Objectives = Annotated[list[str | ObjectiveDocument], Meta(min_length=1, max_length=10)]


class BatchDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """``types``, where given, are the only ones that there may be; ``hour`` and ``now_s`` are the present."""

    resources: Annotated[list[ResourceDocument], Meta(max_length=20_000)]
    jobs: Annotated[list[JobDocument], Meta(max_length=10_000)]
    objectives: Objectives = field(default_factory=lambda: ["throughput"])
    types: Annotated[list[Name], Many] | None = None
    hour: Hour | None = None
    now_s: float = 0.0


def decoded(value: object, kind: type[T], place: str = "") -> T:
    """``value``, a JSON document as Python has it, as a record of this kind.

    Raises:
        InvalidProblemError: it is none; the message has the place and the value.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        found = _PATH.match(str(error))
        problem, path = (found[1], found[2]) if found else (str(error), "")
        at = value
        for key, index in _STEP.findall(path):
            at = at[key] if key and isinstance(at, dict) else at[int(index)] if isinstance(at, list) else at
        where = f"{place}{path}".lstrip(".") or "the batch"
        raise InvalidProblemError(f"{where}: {problem}; it is {shown(at)}") from error


def shown(value: object) -> str:
    """``value`` as an error message has it: short, and without characters that a terminal cannot show."""
    text = repr(value).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
