"""Writes the table of routes in docs/use/http-api.md from their declarations.

python docs/routes.py
"""

from __future__ import annotations

from pathlib import Path

from jobsight_server.serve.app import ROUTES

DOCUMENT = Path(__file__).parent / "use/http-api.md"
BEGIN, END = "<!-- python docs/routes.py -->\n", "<!-- end of routes -->\n"


def routes() -> str:
    """Return the table: method, path and parameters, roles of programs, answer."""
    rows = ["| method and path | role | answers |\n|---|---|---|\n"]
    for route in ROUTES:
        query = "".join(f"{parameter.name}=&" for parameter in route.takes).rstrip("&")
        path = f"`{route.method} {route.path}{'?' if query else ''}{query}`"
        roles = "open" if route.roles is None else ", ".join(route.roles) or "admin"
        rows.append(f"| {path} | {roles} | {route.summary} |\n")
    return "".join(rows)


def document() -> str:
    """Return the document with today's table."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    return before + BEGIN + routes() + END + rest.partition(END)[2]


if __name__ == "__main__":
    DOCUMENT.write_text(document())
