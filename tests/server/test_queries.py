"""Read models: exact figures from constructed readings, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict
from sqlalchemy import Connection, Engine
from tests import make
from tests.make import not_none

from jobsight_server.forecasts import AnswerReader, ForecastConfig
from jobsight_server.queries.job_detail import NODES_DRAWN, job_detail
from jobsight_server.queries.nodes import NODES, node_list
from jobsight_server.queries.now import JOBS, now_page, samples_per_s
from jobsight_server.queries.timeline import timeline
from jobsight_server.storage.job_counts import count_all

NOW = 1_000_000.0


def reader_of(engine: Engine) -> AnswerReader:
    return AnswerReader(ForecastConfig())


def add_node(connection: Connection, number: int, name: str, cluster: str = "alpha", age_s: float = 0.0) -> None:
    make.node(connection, name, id=number, cluster=cluster, last_time=NOW, received_at=NOW - age_s)


def add_readings(connection: Connection, node: int, readings: list[dict[str, Any]]) -> None:
    names = ("net_in_bytes", "net_out_bytes", "cpu_busy_s", "memory_used_bytes")
    rows = [(row["time"], *map(row.get, names), row.get("gap_s", 0.0)) for row in readings]
    make.readings(connection, node, rows)


def add_job(connection: Connection, job_id: str, user: str, **fields: Any) -> int:
    row = {"start": 0.0, "end": 10.0, "state": "ended", "recorded_at": 0.0, "profiled": False, **fields}
    number = make.job(connection, job_id, user=user, **row)
    count_all(connection)
    return number


def test_a_timeline_gives_rates_between_readings(engine: Engine) -> None:
    with engine.begin() as connection:
        readings = [
            {"time": 10.0, "net_in_bytes": 50, "net_out_bytes": 0, "cpu_busy_s": 5.0, "memory_used_bytes": 8},
            {"time": 20.0, "net_in_bytes": 150, "net_out_bytes": 0, "cpu_busy_s": 15.0, "memory_used_bytes": 9},
            {"time": 30.0, "net_in_bytes": None, "net_out_bytes": 25, "cpu_busy_s": 35.0},
            {"time": 40.0, "net_in_bytes": 350, "net_out_bytes": 25, "cpu_busy_s": 35.0, "gap_s": 4.0},
            {"time": 50.0, "net_in_bytes": 350, "net_out_bytes": 25, "cpu_busy_s": 35.0, "gap_s": 14.0},
        ]
        add_readings(connection, 1, readings)
        add_readings(connection, 2, [{"time": 25.0, "net_in_bytes": 10**15, "net_out_bytes": 0}])
        found = timeline(connection, 1, 15.0, 60.0, cpus=2, points=500)
    # The reading at 10, before the begin, is where the first interval starts.
    assert found.time == [20, 30, 40, 50]
    assert found.in_bps == [pytest.approx(80), None, None, None]
    assert found.out_bps == [0, pytest.approx(20), 0, None], "the last 10 s are a gap"
    assert found.cpu_utilisation == [pytest.approx(0.5), pytest.approx(1), 0, None]
    assert found.memory_used_bytes == [9, None, None, None]


def test_thinning_keeps_all_traffic(engine: Engine) -> None:
    total = [0]
    for i in range(1, 1000):
        total.append(total[-1] + (i * 7919) % 1000)
    with engine.begin() as connection:
        readings = [{"time": float(i), "net_in_bytes": total[i], "memory_used_bytes": i} for i in range(1000)]
        add_readings(connection, 1, readings)
        found = timeline(connection, 1, 0.0, 999.0, cpus=1, points=10)
        everything = timeline(connection, 1, 0.0, 999.0, cpus=1, points=100_000)
    assert len(found.time) <= 11
    assert len(everything.time) == 999
    ends = found.time
    begins = [99.0, *ends[:-1]]  # the last reading of the first tenth, which has no rate of its own
    traffic = sum(rate * (end - begin) for rate, begin, end in zip(found.in_bps, begins, ends, strict=True))
    assert traffic == pytest.approx(8 * (total[int(ends[-1])] - total[int(begins[0])]))
    assert ends[-1] == 999


@pytest.mark.storage
def test_nodes_are_up_late_or_silent(engine: Engine) -> None:
    with engine.begin() as connection:
        add_node(connection, 1, "up", age_s=60)
        add_node(connection, 2, "late", age_s=600)
        add_node(connection, 3, "silent", cluster="beta", age_s=7200)
        found = {node.name: node.status for node in node_list(connection, NOW, NODES.asked()).nodes}
        figures = now_page(connection, NOW, JOBS.asked())[0]
        assert [node.name for node in node_list(connection, NOW, NODES.asked(cluster="beta")).nodes] == ["silent"]
    assert found == {"up": "up", "late": "late", "silent": "silent"}
    assert asdict(figures.nodes) == {"total": 3, "up": 1, "late": 1, "silent": 1}


def test_the_rate_of_samples_counts_each_sample_once(engine: Engine) -> None:
    times = [NOW - 900, NOW - 1, NOW - 15, NOW - 14.999, NOW - 901, NOW]
    with engine.begin() as connection:
        for sequence, received in enumerate(times):
            row = {"samples": 10**sequence, "first_time": 0.0, "last_time": 0.0, "received_at": received}
            make.readings(connection, 1, [], sequence=sequence, **row)
        rate = samples_per_s(connection, NOW)
    assert rate[0] * 15 == pytest.approx(1)
    assert rate[-1] * 15 == pytest.approx(10 + 100 + 1000)
    assert sum(rate) * 15 == pytest.approx(1111)
    assert len(rate) == 60


def test_a_job_shows_its_runs_values_reasons_and_nodes(engine: Engine) -> None:
    with engine.begin() as connection:
        add_node(connection, 1, "n1")
        add_readings(connection, 1, [{"time": float(t), "net_in_bytes": 100 * t} for t in range(0, 40, 10)])
        used = {"memory": {"value": None, "reason": "no samples of n9"}}
        add_job(connection, "7", "ada", state="requeued", on={"n9": 2}, used=used)
        add_job(connection, "7", "ada", start=20.0, end=None, state="running", on={"n1.example.org": 2})
        found = job_detail(connection, reader_of(engine), "alpha", "7", now=30.0)
    before, after = not_none(found).runs
    assert [entry.metric for entry in before.profile] == ["bandwidth", "memory", "cpu", "runtime"]
    assert before.profile[1].reason == "no samples of n9"
    assert before.profile[0].reason == "a run that is requeued is not profiled"
    assert after.profile[0].reason == "the job still runs"
    assert after.profile[1].reason == "so far: its samples have not been read yet"
    assert before.nodes[0].series is None
    assert "never sent" in (before.nodes[0].reason or "")
    drawn = not_none(after.nodes[0].series)
    assert drawn.time == [20, 30], "the short name is the node's"
    assert drawn.in_bps == [pytest.approx(800), pytest.approx(800)]


def test_of_a_job_on_many_nodes_the_first_are_drawn_and_it_says_so(engine: Engine) -> None:
    with engine.begin() as connection:
        names = [f"n{number:03}" for number in range(1, NODES_DRAWN + 3)]
        add_job(connection, "7", "ada", on=dict.fromkeys(names, 1))
        for number, name in enumerate(names, 1):
            add_node(connection, number, name)
        found = not_none(job_detail(connection, reader_of(engine), "alpha", "7", now=30.0))
    nodes = found.runs[0].nodes
    assert len(nodes) == NODES_DRAWN + 2
    assert found.runs[0].nodes_drawn == NODES_DRAWN
    assert [node.reason for node in nodes[-2:]] == [f"only the first {NODES_DRAWN} nodes are drawn"] * 2
