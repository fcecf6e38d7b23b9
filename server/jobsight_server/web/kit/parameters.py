"""Parameters of routes: in a query, with a name, a description and a JSON Schema; and in a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from werkzeug.routing import BaseConverter, IntegerConverter

from jobsight_server.storage.engine import LARGEST_ID

LATEST_TIME_S = 1e11
PAGES_AT_MOST = 10**6
NAME: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]+$"}
TIME: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": LATEST_TIME_S}
ID: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": LARGEST_ID}
PAGE: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": PAGES_AT_MOST}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; ``schema`` is JSON Schema."""

    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False


ITS_NAME = Parameter("name", "its name", NAME, required=True)
"""The name of a user, a job or a node. No path can carry every name: browsers resolve ``..``, proxies merge ``//``."""


def choice_of(values: Sequence[str]) -> dict[str, Any]:
    """Return the schema of one of ``values``."""
    return {"type": "string", "enum": list(values)}


class NameConverter(BaseConverter):
    """Any text, slashes and line ends included: names of users, jobs and nodes come from outside."""

    regex = r"[\s\S]+?"
    part_isolating = False


class IdConverter(IntegerConverter):
    """A row's number; one too large for the database is 0, which no row has.

    A converter that refused it would have Werkzeug answer 405 where the path has several methods.
    """

    def to_python(self, value: str) -> int:
        number = int(value) if len(value) <= len(str(LARGEST_ID)) else 0
        return number if number <= LARGEST_ID else 0
