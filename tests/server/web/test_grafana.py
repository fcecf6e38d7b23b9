"""The board of Grafana: what it asks for is in ``/metrics`` of a site, with these labels."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests import make

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import open_engine
from site_run import JOBSIGHT

ROOT = Path(__file__).parents[3]
BOARD = json.loads((ROOT / "deploy/grafana/jobsight.json").read_text())

# Counters appear with the first event; each stands in the source under this name.
COUNTED = {
    ("batches_received", ""): 1,
    ("batches_rejected", "not JSON"): 1,
    ("batches_quarantined", ""): 1,
    ("batches_duplicate", ""): 1,
    ("samples_stored", ""): 1,
    ("profiles", "memory"): 1,
    ("profiles_missing", "memory: no samples of a node"): 1,
    ("accounting_rejected_because", "no key=value"): 1,
}


def queries() -> list[str]:
    found = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    return [*found, *(each["query"]["query"] for each in BOARD["templating"]["list"] if each["type"] == "query")]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> list[Metric]:
    """Those of a real server that has learned a log, with a node and an event of each kind."""
    directory = tmp_path_factory.mktemp("site")
    lines = [
        "job_id,user,name,start_epoch_s,end_epoch_s,processors,requested_memory_gib,used_memory_gib,used_cpu_s,failure"
    ]
    for number in range(20):
        start = 1_790_000_000 + 7200 * number
        lines.append(
            f"{number},ann,fit,{start},{start + 3600},1,8,{2 if number else 8},3600,{'' if number else 'memory'}"
        )
    lines.append(f"20,ann,fit,{time.time() - 60:.0f},,1,8,,,")  # still runs
    log = directory / "log.csv"
    log.write_text("\n".join(lines) + "\n")
    site = make.site(directory)
    command = [*JOBSIGHT, "import", "table", str(log), "--cluster", "alpha", "--database", site.database]
    subprocess.run(command, check=True, capture_output=True)
    engine = open_engine(site.database)
    with engine.begin() as connection:
        add_event_counts(connection, COUNTED)
        make.node(connection, "n1", cluster="alpha", id=1, received_at=1.79e9)
    engine.dispose()
    with site.serve():
        return list(text_string_to_metric_families(site.metrics()))


def test_every_name_and_label_of_the_board_is_in_the_metrics(metrics: list[Metric]) -> None:
    labels: dict[str, set[str]] = {}
    for family in metrics:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    asked = queries()
    assert len(asked) > 20
    for query in asked:
        names = re.findall(r"jobsight_\w+", query)
        assert names, query
        for name in names:
            assert name in labels, f"{query}: /metrics has no {name}"
            used = set(re.findall(r"(\w+)=~?\"", query)) | set(re.findall(r"by \((\w+)\)", query))
            assert used <= labels[name], (query, labels[name])


def test_unused_memory_and_killed_jobs_are_those_of_the_log(metrics: list[Metric]) -> None:
    """19 jobs left 6 of their 8 GiB unused, the killed one nothing."""
    found = {sample.name: sample.value for family in metrics for sample in family.samples}
    assert (found["jobsight_month_jobs"], found["jobsight_month_jobs_killed"]) == (20, 1)
    assert found["jobsight_month_memory_unused_ratio"] == pytest.approx(19 * 6 / (20 * 8))


def test_the_counters_are_those_of_the_source() -> None:
    source = "".join(path.read_text() for path in (ROOT / "server/jobsight_server").rglob("*.py"))
    for name, _ in COUNTED:
        assert name in source, name


def test_panels_stand_beside_each_other_and_ask_the_chosen_source() -> None:
    """Grafana has 24 columns; panels with an id of another, or over another, are drawn wrong."""
    cells: set[tuple[int, int]] = set()
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert max(x for x, _ in own) < 24
        assert not own & cells, panel["title"]
        cells |= own
        assert panel["type"] in ("stat", "timeseries")
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
