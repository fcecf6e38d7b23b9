"""The definitions of matching: types of resources, policies and objectives."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from flask import Response
from msgspec import Meta

from jobsight_scheduler.matching.problem import OBJECTIVES
from jobsight_server.systems.matching.batch import read_chosen_objectives
from jobsight_server.systems.matching.catalogue import MOST_POLICIES, ResourcePolicy
from jobsight_server.systems.matching.edit import delete_type, put_objectives, put_policies, put_type
from jobsight_server.systems.matching.queries import (
    ChosenObjectives,
    Removed,
    ResourcePolicies,
    ResourceTypes,
)
from jobsight_server.systems.matching.resource_types import MOST_FIELDS, AttributeType, CapacityType, ResourceType
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.web.kit.context import context, part
from jobsight_server.web.kit.inputs import DEFINITION_BYTES, parsed_body, required_name
from jobsight_server.web.kit.routes import BODY_ERRORS, Route, record_reply


class TypeBody(msgspec.Struct, forbid_unknown_fields=True):
    """Attributes and capacities of all resources of a type."""

    attributes: Annotated[list[AttributeType], Meta(max_length=MOST_FIELDS)] = []
    capacities: Annotated[list[CapacityType], Meta(max_length=MOST_FIELDS)] = []
    description: Annotated[str, Meta(max_length=500)] = ""


def types() -> ResourceTypes:
    return part(Matcher).look(lambda catalogue, now: ResourceTypes(list(catalogue.types.values())))


def define_type() -> Response:
    body = parsed_body(TypeBody, '{"attributes": [...], "capacities": [...]}', DEFINITION_BYTES)
    kind = ResourceType(required_name("name"), body.attributes, body.capacities, body.description)
    put_type(context().write_engine, kind)
    return record_reply(kind)


def remove_type() -> Response:
    name = required_name("name")
    delete_type(context().write_engine, name)
    return record_reply(Removed(name, 0))


TYPES = Route("GET", "/api/v1/resource-types", types, ("scheduler",), "Types of resources")
TYPE_ROUTES = (
    TYPES,
    Route(
        "PUT",
        "/api/v1/resource-types/{name}",
        define_type,
        (),
        "Defines a type of resource, or changes its definition",
        answer=ResourceType,
        body=TypeBody,
        errors=BODY_ERRORS,
    ),
    Route(
        "DELETE",
        "/api/v1/resource-types/{name}",
        remove_type,
        (),
        "Deletes a type without resources; a built-in type returns to its original definition",
        answer=Removed,
        errors=(400, 404, 409),
    ),
)


class PoliciesBody(msgspec.Struct, forbid_unknown_fields=True):
    """All policies, in the order in which they apply."""

    policies: Annotated[list[ResourcePolicy], Meta(max_length=MOST_POLICIES)]


def policies() -> ResourcePolicies:
    return ResourcePolicies(part(Matcher).look(lambda catalogue, now: list(catalogue.policies)))


def define_policies() -> Response:
    body = parsed_body(PoliciesBody, '{"policies": [{"effect": "deny", ...}]}', DEFINITION_BYTES)
    put_policies(context().write_engine, body.policies)
    return record_reply(ResourcePolicies(body.policies))


POLICIES = Route(
    "GET", "/api/v1/policies", policies, ("scheduler",), "Policies: which jobs may use which resource, and when"
)
POLICY_ROUTES = (
    POLICIES,
    Route(
        "PUT",
        "/api/v1/policies",
        define_policies,
        (),
        "Replaces all policies; existing matches stay",
        answer=ResourcePolicies,
        body=PoliciesBody,
        errors=BODY_ERRORS,
    ),
)


_OBJECTIVES_AT_MOST = 10


class ObjectivesBody(msgspec.Struct, forbid_unknown_fields=True):
    """Objectives in order of importance: names of built-in ones, or objects (docs/use/matching.md)."""

    objectives: Annotated[list[str | dict[str, Any]], Meta(min_length=1, max_length=_OBJECTIVES_AT_MOST)]


def objectives() -> ChosenObjectives:
    return part(Matcher).look(lambda catalogue, now: ChosenObjectives(catalogue.objectives, list(OBJECTIVES)))


def choose_objectives() -> Response:
    body = parsed_body(ObjectivesBody, '{"objectives": ["throughput"]}', DEFINITION_BYTES)
    read_chosen_objectives(body.objectives)
    put_objectives(context().write_engine, body.objectives)
    return record_reply(ChosenObjectives(list(body.objectives), list(OBJECTIVES)))


OBJECTIVES_CHOSEN = Route("GET", "/api/v1/objectives", objectives, ("scheduler",), "Objectives of matching")
OBJECTIVE_ROUTES = (
    OBJECTIVES_CHOSEN,
    Route(
        "PUT",
        "/api/v1/objectives",
        choose_objectives,
        (),
        "Chooses the objectives, in order of importance, from the next batch on",
        answer=ChosenObjectives,
        body=ObjectivesBody,
        errors=BODY_ERRORS,
    ),
)

ROUTES = (*TYPE_ROUTES, *POLICY_ROUTES, *OBJECTIVE_ROUTES)
