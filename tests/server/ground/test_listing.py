"""A list's page: the same from the values near it as from all."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jobsight_server.ground.listing import Listing

NUMBERS = st.lists(st.one_of(st.none(), st.integers(0, 5).map(float)), max_size=40)


@given(NUMBERS, st.integers(1, 6), st.integers(1, 9), st.sampled_from(["asc", "desc"]))
def test_the_values_near_a_page_give_the_page_of_all(
    values: list[float | None], page: int, limit: int, order: str
) -> None:
    asked = Listing(("size",)).asked(order=order, page=page, limit=limit)
    rows = list(enumerate(values))
    near = asked.near(np.array([np.nan if value is None else value for value in values], dtype=np.float64))
    of_all = asked.page_of(rows, lambda row: row[1], lambda row: (row[0],))
    assert asked.page_of([rows[at] for at in near], lambda row: row[1], lambda row: (row[0],), len(rows)) == of_all
