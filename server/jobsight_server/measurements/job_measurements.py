"""Measurements of one job, by node, from all queries of its cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobsight_server.measurements.presets import NODE_LABELS, PRESETS, PresetQuery
from jobsight_server.measurements.prometheus import MetricSeries, QueryError, evaluated, scraped
from jobsight_server.settings.measurements import MeasurementSource, Quantity

AROUND_S = 300.0
"""Time to query before and after the life, for the node's use without the job."""


@dataclass(frozen=True, slots=True)
class JobMeasurements:
    """Series by node and quantity, in the quantity's unit.

    By quantity: ``refused`` is the reason for a query without a result, ``too_low`` why its series may lack some of it.
    """

    nodes: Mapping[str, Mapping[Quantity, Sequence[MetricSeries]]]
    refused: Mapping[Quantity, str] = field(default_factory=dict)
    too_low: Mapping[Quantity, str] = field(default_factory=dict)


def job_measurements(
    source: MeasurementSource, job_id: str, nodes: Sequence[str], start: float, end: float
) -> JobMeasurements:
    """Query each metric; leave out series of nodes that the job did not have.

    Raises:
        UnavailableError: the server does not answer now.
    """
    found: dict[str, dict[Quantity, list[MetricSeries]]] = {}
    refused: dict[Quantity, str] = {}
    for query, label in _queries(source):
        text = _filled(source, query, job_id, nodes, start, end)
        is_of_node = query.quantity.startswith("node_")
        since, until = (start - AROUND_S, end + AROUND_S) if is_of_node else (start, end)
        try:
            series = (evaluated if query.is_expression else scraped)(source, text, since, until)
        except QueryError as error:
            refused[query.quantity] = str(error)
            continue
        for one in series:
            node = _node_of(one.labels.get(label, ""), nodes, is_of_node)
            if node is not None:
                scaled = MetricSeries(one.labels, one.time, one.value * query.scale)
                found.setdefault(node, {}).setdefault(query.quantity, []).append(scaled)
    return JobMeasurements(found, refused)


def _queries(source: MeasurementSource) -> Iterator[tuple[PresetQuery, str]]:
    """Yield the site's own queries, and those of presets for other quantities, each with the label of nodes' names."""
    own = source.node_label or "instance"
    yield from ((PresetQuery(quantity, text, is_expression=True), own) for quantity, text in source.queries.items())
    known = set[str](source.queries)
    for preset in source.presets:
        label = source.node_label or NODE_LABELS.get(preset, "instance")
        yield from ((query, label) for query in PRESETS[preset] if query.quantity not in known)
        known |= {query.quantity for query in PRESETS[preset]}


def _filled(
    source: MeasurementSource, query: PresetQuery, job_id: str, nodes: Iterable[str], start: float, end: float
) -> str:
    short = sorted({node.partition(".")[0] for node in nodes})
    values = {
        "job": _quoted(job_id),
        "job_regex": _quoted(re.escape(job_id)),
        "nodes": _quoted(f"({'|'.join(map(re.escape, short))})([.][^:]*)?(:[0-9]+)?"),
        "start": f"{start:.0f}",
        "end": f"{end:.0f}",
        "labels": "".join(f',{name}="{_quoted(value)}"' for name, value in source.labels.items()),
    }
    return _PLACE.sub(lambda match: values[match[1]], query.text)


_PLACE = re.compile(r"\{(job|job_regex|nodes|start|end|labels)\}")


def _quoted(text: str) -> str:
    """Escape ``text`` for the double quotes of a query."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _node_of(name: str, nodes: Sequence[str], is_of_node: bool) -> str | None:
    """Return the one of ``nodes`` with this ``name``, which may have a port or a domain."""
    host = re.sub(r":\d+$", "", name)
    for node in nodes:
        if host == node or host.partition(".")[0] == node.partition(".")[0]:
            return node
    # A job's processes ran on its only node, whatever the label.
    return nodes[0] if len(nodes) == 1 and not is_of_node else None
