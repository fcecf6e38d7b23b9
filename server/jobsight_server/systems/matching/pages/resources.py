"""Resources of matching, reports of their state, and the page with their policies."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from flask import Response
from msgspec import Meta

from jobsight_scheduler.matching.records import decoded
from jobsight_server.systems.matching.edit import delete_resource, put_resource
from jobsight_server.systems.matching.pages.definitions import definition, policies
from jobsight_server.systems.matching.queries import (
    RESOURCES,
    Removed,
    ResourceDetail,
    ResourceList,
    resource_detail,
    resource_list,
)
from jobsight_server.systems.matching.reports import ReportsTaken, take_reports
from jobsight_server.systems.matching.resource_state import ResourceBody, ResourceReport, refused
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.web.kit.inputs import (
    DEFINITION_BYTES,
    name_text,
    parsed_body,
    required_name,
)
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.routes import Route, context, record_reply
from jobsight_server.web.kit.system_parts import part

REPORTS_AT_MOST = 20_000


class StateReports(msgspec.Struct, forbid_unknown_fields=True):
    """Reports of many resources, each judged by itself; ``source`` is the sender."""

    resources: Annotated[list[ResourceReport], Meta(max_length=REPORTS_AT_MOST)]
    source: Annotated[str, Meta(min_length=1, max_length=60)] = "reported"


class EachReport(StateReports, forbid_unknown_fields=True):
    """The same, decoded one by one, so that a wrong report does not affect the others."""

    resources: Annotated[list[dict[str, Any]], Meta(max_length=REPORTS_AT_MOST)]  # type: ignore[assignment]


def resources() -> ResourceList:
    asked = asked_of(RESOURCES)
    return part(Matcher).look(lambda catalogue, now: resource_list(catalogue, now, asked))


def resource() -> ResourceDetail:
    name = required_name("name")
    return part(Matcher).look(lambda catalogue, now: resource_detail(catalogue, name, now))


def define_resource() -> Response:
    name = required_name("name")
    shape = '{"type": T, "attributes": {...}, "capacities": {NAME: TOTAL}}'
    with refused():
        body = decoded(parsed_body(dict[str, Any], shape, DEFINITION_BYTES), ResourceBody, "resource")
    here = context()
    put_resource(here.write_engine, name, body, here.clock())
    return record_reply(resource())


def remove_resource() -> Response:
    name, here = required_name("name"), context()
    lost = delete_resource(here.write_engine, name, here.clock())
    return record_reply(Removed(name, lost))


def report_state() -> Response:
    here = context()
    shape = '{"resources": [{"name": N, "capacities": {"slots": {"used": 2}}}]}'
    body = parsed_body(EachReport, shape, here.settings.max_body_bytes)
    name_text(body.source, "source")
    taken = take_reports(here.write_engine, body.resources, body.source, here.clock(), here.settings.max_future_s)
    return record_reply(taken)


def _shown(_: ResourceList) -> dict[str, Any]:
    types, expiry_s = part(Matcher).look(lambda catalogue, now: catalogue.types()), part(Matcher).settings.expiry_s
    return {"types": types, "policies": policies().policies, "bar": holding_bar, "expiry_s": expiry_s}


ROUTES = (
    Route(
        "/api/v1/resources",
        resources,
        "Resources: attributes, capacities, free capacity and holds; 50 a page",
        listing=RESOURCES,
        page="resources",
        shown=_shown,
    ),
    Route(
        "/api/v1/resources/state",
        report_state,
        f"Reports of the state of up to {REPORTS_AT_MOST} resources, each stored or rejected by itself",
        method="POST",
        errors=(409,),
        answer=ReportsTaken,
        body=StateReports,
    ),
    Route("/api/v1/resources/{name}", resource, "One resource and its holds"),
    definition(
        "/api/v1/resources/{name}",
        define_resource,
        "Defines a resource; its holds stay",
        answer=ResourceDetail,
        body=ResourceBody,
    ),
    Route(
        "/api/v1/resources/{name}",
        remove_resource,
        "Removes a resource; its matches are lost",
        method="DELETE",
        roles=(),
        answer=Removed,
    ),
)


WIDTH = 100.0
COLOURS = 8


class BarSegment(NamedTuple):
    """A part of the bar from ``x`` on; ``kind`` is its style."""

    x: float
    width: float
    kind: str
    title: str


def holding_bar(resource: ResourceDetail, capacity: str) -> list[BarSegment]:
    """Return a segment for each match, then the measured use that no match explains; the rest of the bar is free."""
    state = resource.capacities[capacity]
    if state.total <= 0:
        return []
    found, x = [], 0.0
    parts = [(hold.amounts.get(capacity, 0.0), f"line-{hold.match % COLOURS}", hold.job) for hold in resource.holds]
    parts.append((max(0.0, state.used - state.held), "others", "used by others"))
    for amount, kind, title in parts:
        width = min(amount / state.total * WIDTH, WIDTH - x)
        if width > 0:
            found.append(BarSegment(x, width, kind, f"{title}: {amount:g}"))
            x += width
    return found
