"""``docs/use/http-api.md`` names what is served."""

from __future__ import annotations

import re
from pathlib import Path

from jobsight_predictor.forecasters import FIVE
from jobsight_server.serve.app import ROUTES
from jobsight_server.web.openapi import openapi

DOCS = (Path(__file__).parents[3] / "docs" / "use" / "http-api.md").read_text(encoding="utf-8")


def test_every_route_with_its_parameters_stands_in_the_table() -> None:
    documented = {}
    for method, path, query in re.findall(r"`(GET|POST|PUT|DELETE) (/[^?`]*)(\?[^`]*)?`", DOCS):
        documented[method, path] = set(re.findall(r"(\w+)=", query))
    served = {(route.method, route.path): {p.name for p in route.parameters} for route in ROUTES}
    assert documented == served


def test_the_example_has_the_fields_of_an_answer() -> None:
    block = DOCS.partition("```json\n")[2].partition("```")[0]
    names = set(re.findall(r'"([\w-]+)":', block)) - {"predictions"}
    schemas = openapi(ROUTES)["components"]["schemas"]
    fields = {name for schema in ("Prediction", "MeanError", "RunnerUp") for name in schemas[schema]["properties"]}
    assert names == {*fields, *FIVE}
