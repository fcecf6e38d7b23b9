"""Names and numbers in the paths of routes."""

from __future__ import annotations

from werkzeug.routing import BaseConverter, IntegerConverter

from jobsight_server.ground.parameters import whole_number
from jobsight_server.storage.engine import LARGEST_ID

ID = whole_number(LARGEST_ID, least=0)


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
