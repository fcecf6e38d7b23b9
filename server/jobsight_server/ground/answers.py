"""Typed records, the source of an answer's JSON and its OpenAPI description."""

from __future__ import annotations

from collections.abc import Sequence
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
        """Make the record from the columns of ``row``, or from ``more`` by name."""
        columns = row._mapping
        return cls(**{name: more[name] if name in more else columns[name] for name in cls.__struct_fields__})

    @classmethod
    def of_rows(cls, rows: Sequence[Row[*tuple[Any, ...]]], **more: Sequence[Any]) -> list[Self]:
        """Make the records of many rows, by column, which is faster."""
        if not rows:
            return []
        columns = dict(zip(rows[0]._fields, zip(*rows, strict=True), strict=True)) | more
        return list(map(cls, *(columns[name] for name in cls.__struct_fields__)))
