"""Shares of saturated links: by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsight_scheduler.coallocation.clusters import Clusters, LinkDemand, demand, proportional, saturation


def test_traffic_from_all_to_all_counted_pair_by_pair() -> None:
    where = ((0, 3), (2, 4), (3, 1))
    home = [cluster for cluster, count in where for _ in range(count)]
    # Each processor sends its bandwidth in equal parts to each of the others.
    for link, rate in demand(where, 70.0):
        outgoing = sum(70.0 / 7 for i, a in enumerate(home) for j, b in enumerate(home) if i != j and a == link != b)
        assert rate == pytest.approx(outgoing)
    assert demand(((1, 8),), 70.0) == ()
    assert demand(((1, 4), (2, 4)), 0.0) == ()


def test_the_worst_link_of_a_job_decides() -> None:
    demands: list[LinkDemand] = [((0, 60.0), (1, 60.0)), ((0, 90.0), (1, 40.0), (2, 50.0)), ((2, 10.0), (3, 5.0))]
    links = (100.0, 200.0, 50.0, 100.0)
    assert saturation(demands, links) == [1.5, 0.5, 1.2, 0.05]
    assert proportional(demands, links) == [1.5, 1.5, 1.2]


@st.composite
def contentions(draw: st.DrawFn) -> tuple[list[LinkDemand], tuple[float, ...]]:
    count = draw(st.integers(2, 5))
    links = tuple(draw(st.lists(st.floats(1e3, 1e10), min_size=count, max_size=count)))
    places = st.lists(st.tuples(st.integers(0, count - 1), st.integers(1, 64)), min_size=2, unique_by=lambda x: x[0])
    demands = [demand(tuple(draw(places)), draw(st.floats(1e-3, 1e12))) for _ in range(draw(st.integers(1, 12)))]
    return demands, links


@given(contentions())
def test_no_link_carries_more_than_it_can(found: tuple[list[LinkDemand], tuple[float, ...]]) -> None:
    demands, links = found
    factors = proportional(demands, links)
    assert min(factors) >= 1.0
    carried = np.zeros(len(links))
    for wanted, factor in zip(demands, factors, strict=True):
        for link, rate in wanted:
            carried[link] += rate / factor
    assert (carried <= np.array(links) * (1 + 1e-9)).all()


def test_machines_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="uplink of cluster 1 carries 0 bit/s"):
        Clusters((32, 32), (1e9, 0))
    with pytest.raises(ValueError, match="uplink of cluster 0 carries nan"):
        Clusters((32,), (float("nan"),))
