"""The forms of the pages Resources and Matches, read into what the API takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from jobsight_server.errors import UserError
from jobsight_server.systems.matching.catalogue import ResourcePolicy
from jobsight_server.systems.matching.resource_types import ResourceBody, ResourceType, Value

T = TypeVar("T")

_SHOWN = 60
_OBJECTIVE_FIELDS = 3


def resource_of(form: Mapping[str, str]) -> ResourceBody:
    """The resource that a form defines: a line ``name = value`` for each attribute and capacity.

    Raises:
        UserError: a line without ``=``, or a value that should be a number and is not.
    """
    body = {
        "type": form.get("type", ""),
        "attributes": {name: _value(text) for name, text in _lines(form, "attributes")},
        "capacities": {name: {"total": _number(text, name)} for name, text in _lines(form, "capacities")},
        "cost": _number(form.get("cost") or "1", "cost"),
        "static": form.get("static") == "on",
    }
    return _converted(body, ResourceBody)


def type_of(form: Mapping[str, str]) -> ResourceType:
    """The type that a form defines: a line ``name = kind`` for each attribute, ``name = unit`` for each capacity.

    Raises:
        UserError: a line without ``=``, or an unknown kind.
    """
    body = {
        "name": form.get("name", "").strip(),
        "attributes": [{"name": name, "kind": kind} for name, kind in _lines(form, "attributes")],
        "capacities": [{"name": name, "unit": unit} for name, unit in _lines(form, "capacities")],
        "description": form.get("description", ""),
    }
    return _converted(body, ResourceType)


def policies_of(form: Mapping[str, str]) -> list[ResourcePolicy]:
    """The policies of a form, which are JSON.

    Raises:
        UserError: they are not.
    """
    return _converted(decoded_text(form.get("policies", ""), "policies"), list[ResourcePolicy])


def job_of(form: Mapping[str, str]) -> dict[str, Any]:
    """The job that a form submits; its dependencies are JSON.

    Raises:
        UserError: they are not, or a value that should be a number is not.
    """
    job: dict[str, Any] = {"name": form.get("name", "").strip()}
    for name in ("user", "class"):
        if form.get(name, "").strip():
            job[name] = form[name].strip()
    for name in ("priority", "duration_s"):
        if form.get(name, "").strip():
            job[name] = _number(form[name], name)
    job["dependencies"] = decoded_text(form.get("dependencies", ""), "dependencies")
    return job


def decoded_text(text: str, place: str) -> Any:
    """JSON in a field of a form.

    Raises:
        UserError: it is not JSON.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UserError(f"{place}: {error}; give JSON") from error


def _converted(body: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise UserError(str(error)) from error


def _lines(form: Mapping[str, str], field: str) -> list[tuple[str, str]]:
    found = []
    for line in form.get(field, "").splitlines():
        if line.strip():
            name, equals, text = line.partition("=")
            if not equals:
                raise UserError(f"{field}: {line[:_SHOWN]!r}: write name = value, one a line")
            found.append((name.strip(), text.strip()))
    return found


def _value(text: str) -> Value:
    """A number, true or false, a list in brackets, or text."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("[") and text.endswith("]"):
        return tuple(part.strip() for part in text[1:-1].split(",") if part.strip())
    try:
        return float(text)
    except ValueError:
        return text


def _number(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"{place} = {text[:_SHOWN]!r} is not a number") from error


def objective_of(text: str) -> Any:
    """The name of a built-in objective, or a custom one as JSON.

    Raises:
        UserError: neither.
    """
    if not text.startswith("{"):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UserError(f"objective {text[:_SHOWN]}: not JSON: {error}") from error


def objective_fields(objectives: list[Any]) -> list[str]:
    """The current objectives as the form shows them, with empty fields for more."""
    found = [entry if isinstance(entry, str) else msgspec.json.encode(entry).decode() for entry in objectives]
    return [*found, *[""] * max(1, _OBJECTIVE_FIELDS - len(found))]
