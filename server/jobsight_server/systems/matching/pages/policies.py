"""Policies: who may use which resource, and when."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Response
from msgspec import Meta

from jobsight_server.systems.matching.edit import put_policies
from jobsight_server.systems.matching.queries.resources import ResourcePolicies
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.matching.stored_resource import MOST_POLICIES, ResourcePolicy
from jobsight_server.web.kit.context import context, part
from jobsight_server.web.kit.inputs import DEFINITION_BYTES, parsed_body
from jobsight_server.web.kit.routes import BODY_ERRORS, Route, record_reply


class PoliciesBody(msgspec.Struct, forbid_unknown_fields=True):
    """All policies, in the order in which they apply."""

    policies: Annotated[list[ResourcePolicy], Meta(max_length=MOST_POLICIES)]


def policies() -> ResourcePolicies:
    return ResourcePolicies(part(Matcher).look(lambda catalogue, now: list(catalogue.policies)))


def define_policies() -> Response:
    body = parsed_body(PoliciesBody, '{"policies": [{"effect": "deny", ...}]}', DEFINITION_BYTES)
    put_policies(context().write_engine, body.policies)
    return record_reply(ResourcePolicies(body.policies))


POLICIES = Route("GET", "/api/v1/policies", policies, ("scheduler",), "Who may use which resource, and when")
ROUTES = (
    POLICIES,
    Route(
        "PUT",
        "/api/v1/policies",
        define_policies,
        (),
        "Replaces all policies; what is matched stays matched",
        answer=ResourcePolicies,
        body=PoliciesBody,
        errors=BODY_ERRORS,
    ),
)
