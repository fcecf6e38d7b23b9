"""``docs/use/http-api.md`` names what is served."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from jobsight_predictor.forecasters import FIVE
from jobsight_server.serve.app import ROUTES
from jobsight_server.web.openapi import openapi

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "use" / "http-api.md").read_text(encoding="utf-8")


@pytest.mark.systems
def test_the_table_of_routes_is_that_of_the_declarations() -> None:
    routes = runpy.run_path(str(ROOT / "docs" / "routes.py"))
    assert routes["document"]() == DOCS, "run python docs/routes.py"


def test_the_example_has_the_fields_of_an_answer() -> None:
    block = DOCS.partition("```json\n")[2].partition("```")[0]
    names = set(re.findall(r'"([\w-]+)":', block)) - {"predictions"}
    schemas = openapi(ROUTES)["components"]["schemas"]
    fields = {
        name
        for schema in ("Prediction", "MeanError", "RunnerUp", "SimilarUse")
        for name in schemas[schema]["properties"]
    }
    assert names == {*fields, *FIVE}
