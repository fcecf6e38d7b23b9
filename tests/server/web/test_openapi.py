"""``openapi.json`` says what is served: the routes, the parameters, and the shape of real answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

from jobsight_server.web.kit.moved import MOVED

HOSTILE = "<script>alert(1)</script>"


def test_it_is_valid_openapi(served: Any) -> None:
    spec = served.client("agent").get("/api/v1/openapi.json").json
    assert spec["openapi"].startswith("3.1")
    validate(spec)


def test_it_names_every_route_that_is_served_and_no_other(served: Any) -> None:
    spec = served.client("agent").get("/api/v1/openapi.json").json
    declared = {(method, path) for path, methods in spec["paths"].items() for method in methods}
    rules = {
        (method.lower(), re.sub(r"<[^>]*?(\w+)>", r"{\1}", rule.rule))
        for rule in served.app.url_map.iter_rules()
        for method in rule.methods or ()
        if method not in {"HEAD", "OPTIONS"} and rule.rule not in MOVED
    }
    api = {(m, path) for m, path in rules if path.startswith("/api") or path in {"/health", "/ready", "/metrics"}}
    assert declared == api


def requests() -> Iterator[tuple[str, str, Any, int]]:
    """Method, URL, JSON body, expected status: at least one of each route, of full and of empty answers."""
    yield "get", "/health", None, 200
    yield "get", "/ready", None, 503
    yield "get", "/metrics", None, 200
    api = "/api/v1"
    yield "get", f"{api}/predictions?user=ada", None, 200
    yield "get", f"{api}/predictions?user=nobody", None, 200
    question = {"cluster": "alpha", "user": HOSTILE, "metric": None}
    yield "post", f"{api}/predictions", {"questions": [question]}, 200
    known = "application=run_7&queue=q&processors=4&memory_bytes=1e9&walltime_s=60"
    yield "get", f"{api}/predictions?user=ada&{known}", None, 200
    ran_out = {"cluster": "alpha", "user": "ada", "processors": 4, "value": 500.0, "lower_bound": True}
    yield "post", f"{api}/outcomes", ran_out, 200
    yield "get", f"{api}/users", None, 200
    yield (
        "get",
        f"{api}/user?name=ada&cluster=alpha&application=cfd&processors=4&memory_bytes=8G&walltime_s=01:00:00",
        None,
        200,
    )
    yield "get", f"{api}/user/applications?name=ada&cluster=alpha&range=1y", None, 200
    yield "get", f"{api}/user/history?name=ada&cluster=alpha&limit=2&five=1", None, 200
    yield "get", f"{api}/jobs", None, 200
    yield "get", f"{api}/efficiency?name=77.server", None, 200
    yield "get", f"{api}/job?name=77.server", None, 200
    yield "get", f"{api}/user/jobs?user=ada&outcome=running", None, 200
    yield "get", f"{api}/find?text=ada", None, 200
    yield "post", f"{api}/forecasts", {"ids": ["77.server"], "cluster": "alpha"}, 200
    waiting = {"job_id": "w1", "user": "ada", "submitted": 1.6e9, "processors": 4, "memory_bytes": "4gb"}
    yield "post", f"{api}/jobs", {"cluster": "alpha", "jobs": [waiting]}, 200
    yield "get", f"{api}/changes?since=3", None, 200
    yield "get", f"{api}/nodes", None, 200
    yield "get", f"{api}/node?name=n1&since=2023-11-14T21:56:40Z", None, 200
    for noun, name in (("user", "group/bob"), ("job", "77.server"), ("node", "n1")):
        yield "get", f"{api}/{noun}?name={name}&cluster={'beta' if noun == 'user' else 'alpha'}", None, 200
    yield "get", f"{api}/accuracy?by=cluster&metric=memory&range=1y&sort=held&order=desc&limit=3", None, 200
    yield "get", f"{api}/network?cluster=alpha&limit=2", None, 200
    yield "get", f"{api}/applications?user=ada&uplink_bps=1e9&sort=jobs&order=asc", None, 200
    yield "get", f"{api}/now", None, 200
    yield "get", f"{api}/queue?cluster=alpha", None, 200
    yield "get", f"{api}/start", None, 200
    yield "get", f"{api}/waste", None, 200
    yield "get", f"{api}/savings?node_hour=0.9&cluster=alpha", None, 200
    yield "get", f"{api}/waste?by=account&cluster=alpha&range=1y&sort=memory_improved&order=asc&limit=3", None, 200
    yield "get", f"{api}/rejected", None, 200
    advised = {"cluster": "alpha", "user": "ada", "slurm": {"num_tasks": 4, "mem": "4G", "time_limit": 60}}
    yield "post", f"{api}/advice", advised, 200
    yield "post", f"{api}/advice", {"cluster": "alpha", "user": "ada", "pbs": {"select": "2:ncpus=2"}}, 200
    yield from matching_requests(api)
    yield "get", f"{api}/resources/rank?for=6h&include=all", None, 200
    yield "get", f"{api}/resources/rank?for=6h&cluster=alpha&processors=4&limit=3", None, 200
    yield from plan_requests(api)
    yield "get", f"{api}/openapi.json", None, 200


def plan_requests(api: str) -> Iterator[tuple[str, str, Any, int]]:
    job = {"cluster": "alpha", "user": HOSTILE, "nodes": 1, "walltime_s": "01:00:00"}
    yield "post", f"{api}/risk", {**job, "hours": 0.5, "start": 1_700_000_000}, 200
    place = {**job, "deadline": 1_700_009_000}
    yield "post", f"{api}/offers", {**place, "job_id": HOSTILE}, 200
    yield "post", f"{api}/offers", place, 200
    yield "post", f"{api}/offers", {**place, "nodes": 2}, 200
    yield "post", f"{api}/offers", {**place, "cluster": "nowhere"}, 409
    yield "get", f"{api}/offers/1", None, 200
    yield "post", f"{api}/offers/1/confirm", {"job_id": "1.a"}, 200
    yield "post", f"{api}/offers/1/started", {}, 200
    yield "post", f"{api}/offers/2/started", {}, 409
    yield "post", f"{api}/offers/1/ended", {"outcome": "killed"}, 200
    yield "post", f"{api}/offers/1/cancel", {}, 409
    yield "post", f"{api}/offers/2/cancel", {}, 200
    yield "get", f"{api}/plan", None, 200


def matching_requests(api: str) -> Iterator[tuple[str, str, Any, int]]:
    resource = {"type": "compute", "capacities": {"slots": {"total": 4}}, "attributes": {"os": HOSTILE}}
    need = {"name": "c", "type": "compute", "amounts": {"slots": 1}}
    jobs = {
        "jobs": [
            {"name": HOSTILE, "user": "ada", "class": "x", "dependencies": [need]},
            {"name": "b", "dependencies": [need | {"count": 2}]},
        ]
    }
    yield "put", f"{api}/resources/n1", resource, 200
    yield "put", f"{api}/resources/rack/1", resource | {"static": True}, 200
    reports = [{"name": "n1", "capacities": {"slots": {"used": 1}}}, {"name": HOSTILE}]
    yield "post", f"{api}/resources/state", {"resources": reports}, 200
    yield "put", f"{api}/policies", {"policies": [{"effect": "deny", "classes": ["y"], "hours": [1, 2]}]}, 200
    yield "get", f"{api}/policies", None, 200
    yield ("put", f"{api}/objectives", {"objectives": ["throughput", {"name": "own", "X": "price"}]}, 200)
    yield "get", f"{api}/objectives", None, 200
    yield "post", f"{api}/matches?dry_run=1", jobs, 200
    yield "post", f"{api}/matches", jobs, 200
    yield "post", f"{api}/matches/queue", jobs, 200
    yield "get", f"{api}/matches", None, 200
    yield "get", f"{api}/matches/1", None, 200
    yield "put", f"{api}/matches/1", {"duration_s": 60}, 200
    yield "delete", f"{api}/matches/1", None, 200
    yield "put", f"{api}/matches/1", {"duration_s": 60}, 409
    yield "post", f"{api}/matches/release", {"ids": [2, 3, 4]}, 200
    yield "get", f"{api}/resources?type=compute&page=1&size=10", None, 200
    yield "get", f"{api}/resources/rack/1", None, 200
    yield "delete", f"{api}/resources/n1", None, 200


@pytest.mark.systems
def test_real_answers_have_the_declared_shape(served: Any) -> None:
    client = served.client("admin")
    spec = client.get("/api/v1/openapi.json").json
    asked = set()
    for method, url, body, status in requests():
        answer = client.open(url, method=method.upper(), json=body)
        assert answer.status_code == status, (url, answer.text)
        path = _path_of(spec, method, url)
        declared = spec["paths"][path][method]["responses"][str(status)]["content"]
        [(media_type, content)] = declared.items()
        assert answer.mimetype == media_type.partition(";")[0]
        if answer.mimetype == "application/json":
            schema = {**content["schema"], "components": spec["components"]}
            jsonschema.validate(answer.json, schema, cls=jsonschema.Draft202012Validator)
        asked.add((method, path))
    declared_routes = {(method, path) for path, methods in spec["paths"].items() for method in methods}
    assert asked == declared_routes, "each route is asked here"


def _path_of(spec: Any, method: str, url: str) -> str:
    path = url.partition("?")[0]
    if path in spec["paths"]:
        return path
    for declared in sorted(spec["paths"], key=len, reverse=True):  # the most specific first, as the server does
        if re.fullmatch(re.escape(declared).replace(r"\{name\}", ".+").replace(r"\{id\}", "[0-9]+"), path):
            return str(declared)
    raise AssertionError(f"{method} {path} is not declared")


@pytest.mark.storage
def test_declared_parameters_are_taken_and_others_are_not(served: Any) -> None:
    client = served.client("admin")
    spec = client.get("/api/v1/openapi.json").json
    for path, methods in spec["paths"].items():
        if "get" not in methods:
            continue
        url = path.replace("{name}", "x").replace("{id}", "1")
        for parameter in methods["get"]["parameters"]:
            if parameter["in"] == "query":
                answer = client.get(url, query_string={parameter["name"]: "1"}).text
                assert "is unknown; /api" not in answer
        assert "'nothing' is unknown" in client.get(f"{url}?nothing=1").json["error"], path
