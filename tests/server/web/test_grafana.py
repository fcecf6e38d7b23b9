"""The board of Grafana: what it asks for is in ``/metrics`` of a site, with these labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage import schema

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


def test_every_name_and_label_of_the_board_is_in_the_metrics(served: Any) -> None:
    with served.engine.begin() as connection:
        add_event_counts(connection, COUNTED)
        run = connection.execute(schema.jobs.select().limit(1)).one().id
        learned = {"run_id": run, "metric": "cpu", "learn_seq": 10**6, "value": 0.5, "forecast": 0.5, "bound": 0.6}
        connection.execute(insert(schema.profiles).values(learned))
    body = served.client("scheduler").get("/metrics").text
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    asked = queries()
    assert len(asked) > 15
    for query in asked:
        names = re.findall(r"jobsight_\w+", query)
        assert names, query
        for name in names:
            assert name in labels, f"{query}: /metrics has no {name}"
            used = set(re.findall(r"(\w+)=~?\"", query)) | set(re.findall(r"by \((\w+)\)", query))
            assert used <= labels[name], (query, labels[name])


def test_the_counters_are_those_of_the_source() -> None:
    source = "".join(path.read_text() for path in (ROOT / "server/jobsight_server").rglob("*.py"))
    for name, _ in COUNTED:
        assert name in source, name
