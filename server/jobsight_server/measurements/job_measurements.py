"""Measurements of one job, by node, from all queries of its cluster."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jobsight_server.measurements.joining import (
    ContradictionError,
    Labels,
    Things,
    same_traffic,
    things,
    zero_after_end,
)
from jobsight_server.measurements.memory import job_memory
from jobsight_server.measurements.presets import NODE_LABELS, PRESETS, VIRTUAL, Part, PresetQuery, is_part
from jobsight_server.measurements.prometheus import MetricSeries, QueryError, TooMuchError, evaluated, scraped
from jobsight_server.settings.measurements import MeasurementSource, Preset, Quantity

AROUND_S = 300.0
"""Time to query before and after the life, for the node's use without the job."""

_COUNTERS = ("cpu_s", "received_bytes", "sent_bytes")  # ends of quantities
_GPUS: tuple[Quantity, ...] = ("gpu_memory_bytes", "gpus_busy")
_CARDS: tuple[Quantity, Quantity] = ("node_received_bytes", "node_sent_bytes")
# In a site's own queries, labels that say where a series comes from; all others tell things apart.
_OF_SOURCES = {
    "instance", "job", "pod", "port", "replica", "prometheus_replica", "__replica__", "prometheus", "receive_replica",
    "monitor",
}  # fmt: skip

_Series = dict[Quantity, list[MetricSeries]]


@dataclass(frozen=True, slots=True)
class JobMeasurements:
    """Series by node and quantity, in the quantity's unit; each is of a thing of its own.

    By quantity: ``refused`` is the reason for a query without a result, ``too_low`` why its series may lack some of it.
    """

    nodes: Mapping[str, Mapping[Quantity, Sequence[MetricSeries]]]
    refused: Mapping[Quantity, str] = field(default_factory=dict)
    too_low: Mapping[Quantity, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Found:
    """The series of a query by the host that their label names."""

    query: PresetQuery
    label: str
    hosts: Mapping[str, Sequence[MetricSeries]]

    @property
    def is_of_node(self) -> bool:
        return self.query.quantity.startswith("node_")


def job_measurements(
    source: MeasurementSource, job_id: str, nodes: Sequence[str], start: float, end: float
) -> JobMeasurements:
    """Query each metric; leave out series of nodes that the job did not have.

    Raises:
        UnavailableError: the server does not answer now.
    """
    found: list[_Found] = []
    refused: dict[Quantity, str] = {}
    known: dict[Quantity, Preset | None] = {}  # the first that has any series
    for query, label, preset in _queries(source):
        if known.get(query.quantity, preset) != preset:
            continue
        try:
            one = _asked(source, query, label, _filled(source, query, job_id, nodes, start, end), start, end)
        except QueryError as error:
            refused[query.quantity] = str(error)
            continue
        found.append(one)
        if one.hosts:
            known[query.quantity] = preset
    by_node: dict[str, _Series] = {}
    too_low: dict[Quantity, str] = {}
    for is_of_node in (False, True):
        kind = [one for one in found if one.is_of_node is is_of_node]
        hosts = _lives_of(kind)
        for node in nodes:
            names, why = _names_of(node, nodes, hosts, is_of_node=is_of_node)
            if why is not None:
                refused |= {one.query.quantity: why for one in kind if one.hosts}
            try:
                series, lacking = _on_node(kind, names, source)
            except ContradictionError as error:
                refused |= {one.query.quantity: str(error) for one in kind if one.hosts}
                continue
            if series:
                by_node.setdefault(node, {}).update(series)
            too_low |= lacking
    for quantity in _GPUS:
        holders = [series for series in by_node.values() if quantity in series]
        gauges = iter(zero_after_end([one for series in holders for one in series[quantity]]))
        for series in holders:
            series[quantity] = [next(gauges) for _ in series[quantity]]
    return JobMeasurements(by_node, refused, too_low)


def _queries(source: MeasurementSource) -> Iterator[tuple[PresetQuery, str, Preset | None]]:
    """Yield the site's own queries, and those of presets for other quantities, each with the label of nodes' names."""
    own = source.node_label or "instance"
    yield from ((PresetQuery(of, text, is_expression=True), own, None) for of, text in source.queries.items())
    for preset in source.presets:
        label = source.node_label or NODE_LABELS.get(preset, "instance")
        yield from ((query, label, preset) for query in PRESETS[preset] if query.quantity not in source.queries)


def _filled(
    source: MeasurementSource, query: PresetQuery, job_id: str, nodes: Iterable[str], start: float, end: float
) -> str:
    short = sorted(set(map(_short, nodes)))
    values = {
        "job": _quoted(job_id),
        "job_regex": _quoted(re.escape(job_id)),
        "nodes": _quoted(f"({'|'.join(map(re.escape, short))})([.][^:]*)?(:[0-9]+)?"),
        "devices": f'device=~"{_quoted(source.devices)}"' if source.devices else f'device!~"{VIRTUAL}"',
        "start": f"{start:.0f}",
        "end": f"{end:.0f}",
        "labels": "".join(f',{name}="{_quoted(value)}"' for name, value in source.labels.items()),
    }
    return _PLACE.sub(lambda match: values[match[1]], query.text)


_PLACE = re.compile(r"\{(job|job_regex|nodes|devices|start|end|labels)\}")


def _quoted(text: str) -> str:
    """Escape ``text`` for the double quotes of a query."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _asked(source: MeasurementSource, query: PresetQuery, label: str, text: str, start: float, end: float) -> _Found:
    around_s = AROUND_S if query.quantity.startswith("node_") else 0.0
    since, until = start - around_s, end + around_s
    try:
        series = (evaluated if query.is_expression else scraped)(source, text, since, until)
    except TooMuchError:
        if not query.labels.summed:
            raise
        # A job of very many processors: the server adds them up.
        series = evaluated(source, f"sum without ({', '.join(query.labels.summed)}) ({text})", since, until)
    hosts: dict[str, list[MetricSeries]] = defaultdict(list)
    for one in series:
        if len(one.time) and not (query.of_whole and is_part(one.labels)):
            host = re.sub(r":\d+$", "", one.labels.get(label, ""))
            hosts[host].append(MetricSeries(one.labels, one.time, one.value * query.scale))
    return _Found(query, label, hosts)


def _lives_of(found: Sequence[_Found]) -> dict[str, tuple[float, float]]:
    """Return the first and last time at which each host has values."""
    times: dict[str, list[float]] = defaultdict(list)
    for one in found:
        for host, series in one.hosts.items():
            times[host] += [edge for each in series for edge in (float(each.time[0]), float(each.time[-1]))]
    return {host: (min(edges), max(edges)) for host, edges in times.items()}


def _names_of(
    node: str, nodes: Sequence[str], hosts: Mapping[str, tuple[float, float]], *, is_of_node: bool
) -> tuple[list[str], str | None]:
    """Return the ``hosts`` that are this one of the job's ``nodes``, its own name first; without any, maybe why.

    Hosts of one short name in two domains are two. Where a job's only node has no series, those of another name
    count, such as an address, or of several one after the other; series without a name are always its own.
    """
    short = _short(node)
    if sum(_short(one) == short for one in nodes) > 1:
        names = [node] if node in hosts else []
    else:
        names = [host for host in hosts if host == node or (_short(host) == short and short in (host, node))]
    domains = [name for name in names if name != short]
    why = None
    if node == short and len(domains) > 1:
        names = [short] if short in hosts else []
        why = None if names else f"{' and '.join(sorted(domains))} are two hosts: name one by labels"
    if len(nodes) == 1 and not is_of_node:
        others = sorted((host for host in hosts if host), key=lambda host: hosts[host])
        if not names and why is None and all(hosts[one][1] <= hosts[next_][0] for one, next_ in pairwise(others)):
            names = others
        names += [""] if "" in hosts else []
    return sorted(names, key=lambda name: (name != node, name)), why


def _short(name: str) -> str:
    """Return a host's name without its domain; an address as it is."""
    return name if re.fullmatch(r"[0-9.]+|\[?[0-9a-fA-F]*:.*", name) else name.partition(".")[0]


def _on_node(
    found: Sequence[_Found], names: Sequence[str], source: MeasurementSource
) -> tuple[_Series, dict[Quantity, str]]:
    """Return the node's series by quantity, and why some may lack something.

    Raises:
        ContradictionError: some are of several jobs or hosts.
    """
    series: _Series = {}
    parts: dict[Part, MetricSeries] = {}
    cards: dict[Quantity, Things] = {}
    too_low: dict[Quantity, str] = {}
    for one in found:
        hosts, quantity = [one.hosts[name] for name in names if name in one.hosts], one.query.quantity
        if not hosts:
            continue
        is_own = quantity in source.queries
        labels = _labels_of(hosts, one.label) if is_own else one.query.labels
        is_counter, is_steady = quantity.endswith(_COUNTERS), quantity != "gpus_busy" and not is_own
        each = things(hosts, labels, is_counter=is_counter, is_steady=is_steady)
        if one.query.part:
            parts[one.query.part] = each[()]
        elif quantity in _CARDS and not is_own:
            cards[quantity] = each
        else:
            series.setdefault(quantity, []).extend(each.values())
    memory = job_memory(parts)
    if memory is not None:
        series["memory_bytes"] = [memory.used]
        series |= {} if memory.cache is None else {"cache_bytes": [memory.cache]}
        too_low |= {} if memory.too_low is None else {"memory_bytes": memory.too_low}
    same = {} if source.devices else same_traffic(*(cards.get(quantity, {}) for quantity in _CARDS))
    for quantity, devices in cards.items():
        series[quantity] = [one for device, one in devices.items() if device not in same]
        for (device, *_), (larger, *_) in same.items():
            too_low[quantity] = f"a lower bound: {device} and {larger} move alike and count once; set devices"
    return series, too_low


def _labels_of(hosts: Sequence[Sequence[MetricSeries]], label: str) -> Labels:
    names = {name for series in hosts for one in series for name in one.labels}
    return Labels(apart=[(name,) for name in sorted(names - _OF_SOURCES - {label})])
