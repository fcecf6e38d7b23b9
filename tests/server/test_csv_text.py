"""CSV that a spreadsheet may open: no text of a user is a formula, numbers stay numbers."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from jobsight_server.ground.csv_text import write_csv

CELLS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9))


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_a_cell_that_begins_like_a_formula_is_a_number(rows: list[tuple[object, object]]) -> None:
    out = io.StringIO(newline="")
    assert write_csv(out, ["a", "b"], rows) == len(rows)
    read = list(csv.reader(io.StringIO(out.getvalue(), newline="")))
    for cells, values in zip(read[1:], rows, strict=True):
        for cell, value in zip(cells, values, strict=True):
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert float(cell) == value
            assert isinstance(value, int | float) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_times_lists_and_what_is_unknown() -> None:
    out = io.StringIO(newline="")
    write_csv(out, ["start", "tags", "none"], [(1.0, ["=1", "b"], None)], ["start"])
    assert out.getvalue() == "start,tags,none\r\n1970-01-01T00:00:01Z,'=1 b,\r\n"
