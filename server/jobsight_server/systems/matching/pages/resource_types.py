"""Types of resources: which attributes and capacities their instances have."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Response
from msgspec import Meta

from jobsight_server.systems.matching.edit import delete_type, put_type
from jobsight_server.systems.matching.queries.resources import Removed, ResourceTypes
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
ROUTES = (
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
