"""InfiniBand and Ethernet apart: the value of each, and which one is learned."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import update
from tests import make
from tests.make import not_none

from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import ForecastConfig
from jobsight_server.learning.finished import LearningOptions, profile_finished
from jobsight_server.profiler.runs import to_readings
from jobsight_server.profiler.usage import by_fabric, fastest, link_speeds
from jobsight_server.queries.job_detail import job_detail
from jobsight_server.settings.declared import Fabric
from jobsight_server.storage.readings.sample_columns import SampleColumns
from jobsight_server.storage.schema import nodes

ETHERNET = {"name": "eth0", "kind": "ethernet", "width_bits": 64, "speed_bps": 1e9}
INFINIBAND = {"name": "mlx5_0/1", "kind": "infiniband", "width_bits": 64, "speed_bps": 1e11}


def a_node(site: Any, name: str, ethernet: int, infiniband: int | None, *links: dict[str, Any]) -> None:
    """A node that receives this many bytes a second on each network from 900 on."""
    both = ethernet + (infiniband or 0)
    rows = [
        (
            t,
            int(both * (t - 900)),
            0,
            0.0,
            10**9,
            0.0,
            *(() if infiniband is None else (int(infiniband * (t - 900)), 0)),
        )
        for t in (900.0 + 10 * i for i in range(50))
    ]
    node_id = site.node(name, rows)
    make.execute(site.engine, update(nodes).where(nodes.c.id == node_id).values(interfaces=json.dumps(links)))


def bandwidth(site: Any, fabric: Fabric, *on: str) -> Any:
    run = site.run(f"{fabric}.s", 1000.0, 1200.0, dict.fromkeys(on, 2))
    profile_finished(site.engine, 0.0, lambda: 5000.0, LearningOptions(config=ForecastConfig(fabric=fabric)))
    return site.profile(run)["bandwidth"]


@pytest.mark.parametrize(
    ("fabric", "name", "value"), [("fastest", "infiniband", 5e6 * 8 / 2), ("sum", "sum", 5.001e6 * 8 / 2)]
)
def test_the_setting_chooses_and_the_page_shows_each(site: Any, fabric: Fabric, name: str, value: float) -> None:
    a_node(site, "n1", 1000, 5_000_000, ETHERNET, INFINIBAND)
    row = bandwidth(site, fabric, "n1")
    assert (row.fabric, row.value, row.attribution) == (name, pytest.approx(value), "exclusive")
    assert row.peak == pytest.approx(value)
    with site.engine.connect() as connection:
        job = job_detail(connection, AnswerReader(ForecastConfig()), "alpha", f"{fabric}.s", 5000.0)
    shown = not_none(job).runs[0].profile[0]
    assert shown.fabric == name
    assert shown.fabrics == {"infiniband": pytest.approx(2e7), "ethernet": pytest.approx(4000.0)}


UNCOUNTED = {**INFINIBAND, "uncounted": True}
WHY = "a lower bound: a network device of its nodes does not count bytes"


@pytest.mark.storage
@pytest.mark.parametrize(
    ("moved", "links", "wanted", "fabric", "value", "reason"),
    [
        ((1_000_000, 100), (ETHERNET, INFINIBAND), "fastest", "ethernet", 4e6, None),  # the other keeps itself up only
        ((10, 100), (ETHERNET, INFINIBAND), "fastest", "infiniband", 400.0, None),  # no traffic: next to none
        ((1000, None), (ETHERNET,), "fastest", "ethernet", 4000.0, None),
        ((1000, None), (ETHERNET,), "sum", "ethernet", 4000.0, None),
        ((1000, None), (ETHERNET, INFINIBAND), "fastest", "sum", 4000.0, None),  # read before they were kept apart
        ((1000, None), (ETHERNET, UNCOUNTED), "fastest", "sum", 4000.0, WHY),
    ],
)
def test_the_fastest_with_traffic_counts(
    site: Any, moved: tuple[int, int | None], links: Any, wanted: Fabric, fabric: str, value: float,
    reason: str | None,
) -> None:  # fmt: skip
    a_node(site, "n1", *moved, *links)
    row = bandwidth(site, wanted, "n1")
    assert (row.fabric, row.value, row.reason) == (fabric, pytest.approx(value), reason)
    assert row.lower_bound is (reason == WHY)
    assert (row.fabrics is None) is (moved[1] is None)


def test_over_two_nodes_each_network_adds_up(site: Any) -> None:
    a_node(site, "n1", 1000, 5_000_000, ETHERNET, INFINIBAND)
    a_node(site, "n2", 2000, 3_000_000, ETHERNET, INFINIBAND)
    row = bandwidth(site, "fastest", "n1", "n2")
    assert row.value == pytest.approx(8e6 * 8 / 4)
    assert json.loads(row.fabrics) == {"infiniband": pytest.approx(1.6e7), "ethernet": pytest.approx(6000.0)}


def test_the_faster_link_is_the_fastest_whatever_its_kind() -> None:
    speeds = link_speeds(json.dumps([{**ETHERNET, "speed_bps": 1e11}, {**INFINIBAND, "speed_bps": 4e10}]))
    assert fastest({"infiniband": 1e9, "ethernet": 1e9}, speeds, 1) == "ethernet"
    unknown = link_speeds(json.dumps([{**ETHERNET, "speed_bps": None}, {**INFINIBAND, "speed_bps": None}]))
    assert fastest({"ethernet": 1e9, "infiniband": 1e9}, unknown, 1) == "infiniband"


def test_a_node_with_omni_path_alone_has_no_other_part() -> None:
    rows = [(float(t), 5 * t, 4 * t, 0.0, 1, 0.0, 5 * t, 4 * t) for t in range(3)]
    readings = to_readings(SampleColumns.of_rows(rows))
    (name, part), *others = by_fabric(readings, {"opa": 1e11}).items()
    assert (name, others) == ("opa", [])
    assert part.net_in_bytes.tolist() == [0.0, 5.0, 10.0]
