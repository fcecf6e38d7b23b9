"""Resources that jobs are matched to: types, instances, policies, reports of their state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from flask import Blueprint, Response, redirect, request, url_for
from msgspec import Meta
from werkzeug.exceptions import BadRequest, NotFound
from werkzeug.wrappers import Response as AnyResponse

from jobsight_scheduler.matching.problem import OBJECTIVES
from jobsight_server.errors import UserError
from jobsight_server.matching.batch import read_chosen_objectives
from jobsight_server.matching.edit import (
    delete_resource,
    delete_type,
    put_objectives,
    put_policies,
    put_resource,
    put_type,
)
from jobsight_server.matching.policy import MOST_POLICIES, ResourcePolicy
from jobsight_server.matching.reports import take_reports
from jobsight_server.matching.resource_report import ResourceBody, ResourceReport
from jobsight_server.matching.resource_types import (
    MOST_FIELDS,
    AttributeType,
    CapacityType,
    ResourceError,
    ResourceType,
)
from jobsight_server.queries.resources import (
    ChosenObjectives,
    ResourceDetail,
    ResourceList,
    ResourcePolicies,
    ResourceTypes,
    resource_detail,
    resource_list,
)
from jobsight_server.record import Record
from jobsight_server.web.context import context
from jobsight_server.web.guard import require_same_origin
from jobsight_server.web.holding_bars import holding_bar
from jobsight_server.web.inputs import PAGES_AT_MOST, given, integer_argument, json_body, name_argument, name_text
from jobsight_server.web.pages import page
from jobsight_server.web.resource_forms import policies_of, resource_of, type_of
from jobsight_server.web.routes import NAME, PAGE, Parameter, Route, error_reply, record_reply

REPORTS_AT_MOST = 20_000
SIZE_AT_MOST = 20_000
_PAGE_SIZE = 50
_DEFINITION_BYTES = 256 * 1024
_OBJECTIVES_AT_MOST = 10

T = TypeVar("T")


class StateReports(msgspec.Struct, forbid_unknown_fields=True):
    """Reports of many resources, each for itself; ``source`` says whose they are."""

    resources: Annotated[list[ResourceReport], Meta(max_length=REPORTS_AT_MOST)]
    source: Annotated[str, Meta(min_length=1, max_length=60)] = "reported"


class RejectedReport(Record):
    """A report that was not stored, and why."""

    name: str
    reason: str


class ReportsTaken(Record):
    """How many reports changed a resource, how many made a new one, and those that did neither."""

    stored: int
    created: int
    rejected: list[RejectedReport]


class TypeBody(msgspec.Struct, forbid_unknown_fields=True):
    """Attributes and capacities of all resources of a type."""

    attributes: Annotated[list[AttributeType], Meta(max_length=MOST_FIELDS)] = []
    capacities: Annotated[list[CapacityType], Meta(max_length=MOST_FIELDS)] = []
    description: Annotated[str, Meta(max_length=500)] = ""


class PoliciesBody(msgspec.Struct, forbid_unknown_fields=True):
    """All policies, in the order in which they apply."""

    policies: Annotated[list[ResourcePolicy], Meta(max_length=MOST_POLICIES)]


class ObjectivesBody(msgspec.Struct, forbid_unknown_fields=True):
    """Objectives in order of importance: names of those that ship, or objects (docs/matching.md)."""

    objectives: Annotated[list[str | dict[str, Any]], Meta(min_length=1, max_length=_OBJECTIVES_AT_MOST)]


class Removed(Record):
    """What was removed, and how many matches were lost with it."""

    name: str
    lost_matches: int


def refused(error: ResourceError) -> Response:
    """The answer to a request that cannot be done like this."""
    return error_reply(str(error), error.status)


def decoded(kind: type[T], shape: str, limit: int) -> T:
    """The body as ``kind``.

    Raises:
        BadRequest: it has another shape.
    """
    body = json_body(limit)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{error or 'nested too deep'}; send {shape}") from error


def types() -> ResourceTypes:
    return _looked(lambda catalogue, now: ResourceTypes(list(catalogue.types.values())))


def define_type() -> Response:
    body = decoded(TypeBody, '{"attributes": [...], "capacities": [...]}', _DEFINITION_BYTES)
    kind = ResourceType(_path_name(), body.attributes, body.capacities, body.description)
    try:
        put_type(context().write_engine, kind)
    except ResourceError as error:
        return refused(error)
    return record_reply(kind)


def remove_type() -> Response:
    name = _path_name()
    try:
        delete_type(context().write_engine, name)
    except ResourceError as error:
        return refused(error)
    return record_reply(Removed(name, 0))


def resources() -> ResourceList:
    kind, page = name_argument("type"), integer_argument("page", 1, PAGES_AT_MOST)
    size = integer_argument("size", _PAGE_SIZE, SIZE_AT_MOST)
    return _looked(lambda catalogue, now: resource_list(catalogue, now, kind, page, size))


def resource() -> ResourceDetail:
    name = _path_name()
    found = _looked(lambda catalogue, now: resource_detail(catalogue, name, now))
    if found is None:
        raise NotFound(f"no resource {name[:60]!r}; it may have been removed")
    return found


def define_resource() -> Response:
    name = _path_name()
    body = decoded(ResourceBody, '{"type": T, "attributes": {...}, "capacities": {...}}', _DEFINITION_BYTES)
    here = context()
    try:
        put_resource(here.write_engine, name, body, here.clock())
    except ResourceError as error:
        return refused(error)
    return record_reply(resource())


def remove_resource() -> Response:
    name, here = _path_name(), context()
    try:
        lost = delete_resource(here.write_engine, name, here.clock())
    except ResourceError as error:
        return refused(error)
    return record_reply(Removed(name, lost))


def report_state() -> Response:
    here = context()
    shape = '{"resources": [{"name": N, "capacities": {"slots": {"used": 2}}}]}'
    sent = decoded(StateReports, shape, here.settings.max_body_bytes)
    name_text(sent.source, "source")
    try:
        taken = take_reports(here.write_engine, sent.resources, sent.source, here.clock(), here.matcher.config.future_s)
    except ResourceError as error:
        return refused(error)
    rejected = [RejectedReport(entry.name, entry.reason) for entry in taken.refused]
    return record_reply(ReportsTaken(taken.stored, taken.created, rejected))


def policies() -> ResourcePolicies:
    return _looked(lambda catalogue, now: ResourcePolicies([policy.body for policy in catalogue.policies]))


def define_policies() -> Response:
    body = decoded(PoliciesBody, '{"policies": [{"effect": "deny", ...}]}', _DEFINITION_BYTES)
    try:
        put_policies(context().write_engine, body.policies)
    except ResourceError as error:
        return refused(error)
    return record_reply(ResourcePolicies(body.policies))


def objectives() -> ChosenObjectives:
    return _looked(lambda catalogue, now: ChosenObjectives(catalogue.objectives, list(OBJECTIVES)))


def choose_objectives() -> Response:
    body = decoded(ObjectivesBody, '{"objectives": ["throughput"]}', _DEFINITION_BYTES)
    try:
        read_chosen_objectives(body.objectives)
    except ResourceError as error:
        return refused(error)
    put_objectives(context().write_engine, body.objectives)
    return record_reply(ChosenObjectives(list(body.objectives), list(OBJECTIVES)))


def _looked(read: Callable[[Any, float], T]) -> T:
    return context().matcher.look(read)


def _path_name() -> str:
    return name_text(str((request.view_args or {})["name"]), "name in the path")


_ERRORS = (400, 404, 409, 413, 415)

RESOURCES = Route(
    "GET",
    "/api/v1/resources",
    resources,
    ("scheduler",),
    "Resources: attributes, capacities, what is free, who holds what; 50 a page",
    (
        Parameter("type", "only resources of this type", NAME),
        Parameter("page", "from 1", PAGE),
        Parameter(
            "size",
            f"resources a page, up to {SIZE_AT_MOST}",
            {"type": "integer", "minimum": 1, "maximum": SIZE_AT_MOST},
        ),
    ),
)
TYPES = Route("GET", "/api/v1/resource-types", types, ("scheduler",), "Types of resources")
POLICIES = Route("GET", "/api/v1/policies", policies, ("scheduler",), "Who may use which resource, and when")
OBJECTIVES_CHOSEN = Route("GET", "/api/v1/objectives", objectives, ("scheduler",), "What matching optimises")
ROUTES = (
    RESOURCES,
    TYPES,
    POLICIES,
    OBJECTIVES_CHOSEN,
    Route(
        "POST",
        "/api/v1/resources/state",
        report_state,
        ("scheduler",),
        f"Reports of the state of up to {REPORTS_AT_MOST} resources, each stored or rejected for itself",
        answer=ReportsTaken,
        body=StateReports,
        errors=_ERRORS,
    ),
    Route(
        "GET", "/api/v1/resources/{name}", resource, ("scheduler",), "One resource and who holds it", errors=(400, 404)
    ),
    Route(
        "PUT",
        "/api/v1/resources/{name}",
        define_resource,
        (),
        "Defines a resource; its holds stay",
        answer=ResourceDetail,
        body=ResourceBody,
        errors=_ERRORS,
    ),
    Route(
        "DELETE",
        "/api/v1/resources/{name}",
        remove_resource,
        (),
        "Removes a resource; its matches are lost",
        answer=Removed,
        errors=(400, 404),
    ),
    Route(
        "PUT",
        "/api/v1/resource-types/{name}",
        define_type,
        (),
        "Defines a type of resource, or defines it differently",
        answer=ResourceType,
        body=TypeBody,
        errors=_ERRORS,
    ),
    Route(
        "DELETE",
        "/api/v1/resource-types/{name}",
        remove_type,
        (),
        "Deletes a type without resources; one that ships gets its own definition again",
        answer=Removed,
        errors=(400, 404, 409),
    ),
    Route(
        "PUT",
        "/api/v1/policies",
        define_policies,
        (),
        "Replaces all policies; what is matched stays matched",
        answer=ResourcePolicies,
        body=PoliciesBody,
        errors=_ERRORS,
    ),
    Route(
        "PUT",
        "/api/v1/objectives",
        choose_objectives,
        (),
        "Chooses what matching optimises, in order of importance, from the next batch on",
        answer=ChosenObjectives,
        body=ObjectivesBody,
        errors=_ERRORS,
    ),
)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/resources", endpoint="resources")
    def show() -> AnyResponse:
        return _page({}, None)

    @pages.post("/resources/define", endpoint="resource_define")
    def define() -> AnyResponse:
        def store(form: dict[str, str]) -> None:
            put_resource(context().write_engine, form.get("name", "").strip(), resource_of(form), context().clock())

        return _posted(store)

    @pages.post("/resources/remove", endpoint="resource_remove")
    def remove() -> AnyResponse:
        def store(form: dict[str, str]) -> None:
            delete_resource(context().write_engine, form.get("name", ""), context().clock())

        return _posted(store)

    @pages.post("/resources/types", endpoint="resource_type_define")
    def define_kind() -> AnyResponse:
        return _posted(lambda form: put_type(context().write_engine, type_of(form)))

    @pages.post("/resources/policies", endpoint="resource_policies")
    def save_policies() -> AnyResponse:
        return _posted(lambda form: put_policies(context().write_engine, policies_of(form)))


def _posted(store: Callable[[dict[str, str]], None]) -> AnyResponse:
    """Stores what a form sends, and shows the list again, with the problem where there is one."""
    require_same_origin()
    form = request.form.to_dict()
    try:
        for name, value in form.items():
            if "\0" in value:
                raise UserError(f"{name} contains a NUL character")
        store(form)
    except UserError as error:
        return _page(form, str(error), 400)
    return redirect(url_for("pages.resources"), 303)


def _page(form: dict[str, str], problem: str | None, status: int = 200) -> AnyResponse:
    return page(
        "resources.html",
        resources(),
        RESOURCES,
        status,
        types=types().types,
        policies=form.get("policies") or msgspec.json.format(msgspec.json.encode(policies().policies)).decode(),
        kind=given("type"),
        bar=holding_bar,
        expiry_s=context().settings.resource_expiry_s,
        form=form,
        problem=problem,
    )
