"""Typed records, from which an answer's JSON and its OpenAPI description are made."""

from __future__ import annotations

from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta
from sqlalchemy import Row

from jobsight_predictor.metrics import METRICS

Share = Annotated[float, Meta(ge=0, le=1)]
Metric = Annotated[str, Meta(extra_json_schema={"enum": [*METRICS]})]


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """A record with exactly these fields. Times are UTC epoch seconds, units are in names; None means no value."""

    @classmethod
    def of_row(cls, row: Row[*tuple[Any, ...]], **more: Any) -> Self:
        """The record whose fields are the columns of ``row``, or given by name in ``more``."""
        columns = row._mapping
        return cls(**{name: more[name] if name in more else columns[name] for name in cls.__struct_fields__})


PAGE_SIZE = 50


class Page(Record):
    """The position in a list; ``page`` counts from 1, ``total`` is the number of entries."""

    page: int
    pages: int
    total: int


def pages_of(total: int, size: int = PAGE_SIZE) -> int:
    """How many pages of ``size`` a list of ``total`` entries has; an empty one has one."""
    return max(1, -(-total // size))
