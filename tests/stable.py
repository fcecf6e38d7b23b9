"""What is stable since 0.4.0, as lines: routes, parameters and fields of the API, command lines, settings.

    python tests/stable.py > tests/golden/stable.txt

A line that goes, or reads otherwise, is a change that breaks somebody's script; new lines are additions.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jobsight_agent.config import OPTIONS
from jobsight_server.cli import all_commands
from jobsight_server.cli import main as jobsight
from jobsight_server.serve.app import ROUTES
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.settings.load import SETTINGS
from jobsight_server.settings.measurements import MeasurementSource
from jobsight_server.settings.tables import Access, AdjustLimits, Mail, WeeklyMail
from jobsight_server.web.openapi import openapi

ROOT = Path(__file__).parents[1]
TABLES = (AccountingSource, MeasurementSource, AdjustLimits, Access, Mail, WeeklyMail)
OF_SUBCOMMANDS = {"token": ("create", "list", "revoke", "login")}


def api() -> Iterator[str]:
    """Each parameter and body of each route, its answer, and each field of what these name."""
    spec = openapi(ROUTES)
    for path, methods in spec["paths"].items():
        for method, route in methods.items():
            at = f"{method.upper()} {path}"
            for one in route.get("parameters", ()):
                yield f"{at} {one['in']} {one['name']}: {_kind(one['schema'])}{_need(one.get('required'))}"
            if body := route.get("requestBody"):
                yield from (f"{at} body: {_kind(of['schema'])}" for of in body["content"].values())
            for kind, of in route["responses"]["200"].get("content", {}).items():
                yield f"{at} answers {kind}: {_kind(of['schema'])}"
    for name, schema in spec["components"]["schemas"].items():
        needed = schema.get("required", ())
        yield from (f"{name}.{one}: {_kind(of)}{_need(one in needed)}" for one, of in schema["properties"].items())


def _need(required: Any) -> str:
    return ", required" if required else ""


def _kind(schema: dict[str, Any]) -> str:
    """The schema's type; bounds and choices are no part of it, since more may be taken and answered."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(sorted({_kind(each) for each in schema["anyOf"]}))
    if "items" in schema:
        return f"[{_kind(schema['items'])}]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{{_kind(schema['additionalProperties'])}}}"
    return str(schema.get("type", "text" if "enum" in schema else "any"))


def command_lines() -> Iterator[str]:
    """The options of each command, with what they take, and their defaults."""
    manual = _manual()
    agent = {f"jobsight-agent {name}": (manual.agent, name) for name in manual.AGENT_COMMANDS}
    own = {f"jobsight {name}": (jobsight, name) for name in all_commands()}
    own |= {f"jobsight {of} {name}": (jobsight, of, name) for of, names in OF_SUBCOMMANDS.items() for name in names}
    for command, (program, *words) in (own | agent).items():
        text = manual._help(program, *words)
        usage = re.sub(r"--[a-z0-9-]+ [A-Z{]\S*", "", text.partition("\n\n")[0])
        yield from (command, *(f"{command} {name}" for name in re.findall(r"\b[A-Z]{2,}\b", usage)))
        for flag, takes in re.findall(r"^  (--[a-z][a-z0-9-]*)(?: ([A-Z{]\S*))?", text, re.MULTILINE):
            choices = takes[1:-1].split(",") if takes.startswith("{") else [takes]
            yield from (f"{command} {flag} {one}".rstrip() for one in choices)


def _manual() -> Any:
    """Load docs/manual.py, which has the help of every command."""
    spec = importlib.util.spec_from_file_location("manual", ROOT / "docs" / "manual.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings() -> Iterator[str]:
    """Each setting of the server, its tables, and the agent, with type and default."""
    for one in SETTINGS:
        yield f"setting {one.name}: {type(one.default).__name__} = {one.default_text}"
        yield from (f"setting {one.name} takes {choice}" for choice in one.choices)
    for table in TABLES:
        for field in msgspec.structs.fields(table):
            if field.name not in getattr(table, "FIXED", ()):
                default = "required" if field.required else _default(field.default)
                yield f"setting [{table.__name__}] {field.name} = {default}"
    for option in OPTIONS:
        yield f"agent's setting {option.name}: {type(option.default).__name__} = {_default(option.default)}"


def _default(value: Any) -> str:
    if value is msgspec.NODEFAULT:  # made for each
        return "{}"
    return msgspec.json.encode(value, enc_hook=str).decode()


def lines() -> list[str]:
    """Every line, sorted."""
    return sorted({*api(), *command_lines(), *settings()})


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
