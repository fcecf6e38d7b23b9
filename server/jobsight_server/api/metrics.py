"""``/metrics`` in the Prometheus text format 0.0.4."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from flask import Response
from sqlalchemy import Connection, func, select

from jobsight_server.api.routes import Route
from jobsight_server.site import site
from jobsight_server.storage.schema import series
from jobsight_server.storage.tallies import read_tallies
from jobsight_server.views.overview import overview

Sample = tuple[Mapping[str, str], float]
_TYPE = "text/plain; version=0.0.4"


def show_metrics() -> Response:
    with site().read_engine.connect() as connection:
        text = "".join(_families(connection, site().clock()))
    return Response(text, content_type=f"{_TYPE}; charset=utf-8")


def _families(connection: Connection, now: float) -> Iterable[str]:
    counted: dict[str, list[Sample]] = {}
    for (name, label), value in read_tallies(connection).items():
        counted.setdefault(re.sub(r"[^a-zA-Z0-9_]", "_", name), []).append(({"label": label}, value))
    for name, samples in sorted(counted.items()):
        yield family(f"jobsight_{name}_total", "counter", f"Counted as {name}, by label", samples)
    figures = overview(connection, now)["clusters"]
    for name, states in (("nodes", ("up", "late", "silent")), ("jobs", ("running", "profiled", "waiting"))):
        samples = [
            ({"cluster": figure["cluster"], "state": state}, figure[name][state])
            for figure in figures
            for state in states
        ]
        yield family(f"jobsight_{name}", "gauge", f"{name.capitalize()} by state", samples)
    ages = [
        ({"cluster": figure["cluster"]}, figure["nodes"]["oldest_age_s"])
        for figure in figures
        if figure["nodes"]["total"]
    ]
    yield family("jobsight_oldest_node_age_seconds", "gauge", "Since the node longest unheard of last sent", ages)
    known = connection.execute(select(series.c.cluster, func.count()).group_by(series.c.cluster)).all()
    yield family("jobsight_series", "gauge", "Series of a user and a metric", [({"cluster": c}, n) for c, n in known])


def family(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> str:
    """One metric with its samples, as text."""
    lines = [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{inside}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


ROUTES = tuple(
    Route(
        "GET",
        f"{prefix}/metrics",
        show_metrics,
        ("scheduler",),
        "Everything counted, for Prometheus",
        "Text",
        media_type=_TYPE,
    )
    for prefix in ("", "/api/v1")
)
