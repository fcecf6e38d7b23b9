"""Statements are SQLAlchemy's, and rows are read by name; raw SQL stands only in the modules named here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobsight_server

PACKAGE = Path(jobsight_server.__file__).parent

HOT = {
    "advice/recommendation.py": "an asked question",
    "auth/tokens.py": "storing a batch",
    "ground/event_counts.py": "storing a batch, learning of a job",
    "ingest/earlier.py": "storing a batch",
    "ingest/group_writer.py": "storing a batch",
    "ingest/joining.py": "storing a batch",
    "queries/node_states.py": "sampled readings of all nodes",
    "storage/job_counts.py": "a chunk of a log, learning of a job",
    "storage/lock.py": "the begin of each transaction that writes",
    "storage/readings/samples.py": "sampled readings",
}
"""Modules with raw statements that run for each batch, job or question, and what these belong to."""

JOINED_IN_ORDER = {
    "profiler/runs.py": "runs by their end before their nodes",
    "profiler/sampled.py": "asked jobs before their readings",
    "queries/accuracy.py": "asked groups before their weeks",
    "queries/network.py": "links before the days that they were full",
    "queries/prometheus.py": "the last learned values before their runs",
    "savings/sums/read.py": "asked days before their groups",
}
"""Modules with CROSS JOIN, by which SQLite keeps the order of tables, and which SQLAlchemy does not write."""

OF_ONE_DATABASE = {
    "commands/backup.py": "runs on SQLite's own connection",
    "commands/database.py": "runs on SQLite's own connection",
    "storage/engine.py": "has the differences of the two databases, and builds statements for the driver",
    "upgrade/migrations/versions/release_0_4.py": "has tables as they were in earlier releases",
}
"""Other modules with raw statements, and why."""

_RAW = re.compile(r"\b(SELECT|INSERT INTO|DELETE FROM)\s|\bUPDATE\s+\S*\s*SET\b|\bFROM [a-z_]+\b|\bCASE WHEN\b")
_READ = {"execute", "exec_driver_sql", "by_driver", "fetch", "fetch_by_keys", "of_runs", "rows_of"}
_SAME = {"all", "fetchall", "tuples", "list", "sorted", "tuple", "iter"}
_ONE = {"one", "first", "one_or_none", "fetchone", "next"}


def test_raw_statements_stand_in_the_modules_named_here() -> None:
    found = {name for name, tree in _modules() if any(raw_statements(tree))}
    assert found == {*HOT, *JOINED_IN_ORDER, *OF_ONE_DATABASE}


def test_no_row_of_a_query_is_read_by_its_position() -> None:
    found = {f"{name}:{place}" for name, tree in _modules() for place in read_by_position(tree)}
    assert found == set()


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("for row in connection.execute(query):\n  use(row[0])", True),
        ("rows = fetch(connection, query, ())\n return rows[0][1]", True),
        ("last = connection.execute(query).all()[-1]\n return last.id", False),
        ("row = connection.execute(query).one()\n return row[2:]", True),
        (
            "found = [row for row in rows_of(c, query, column, keys)]\n return [one[_AT + 1] for one in found]",
            True,
        ),
        ("for number, name in connection.execute(query):\n  use(number, name)", False),
        ("for row in csv.reader(file):\n  use(row[0])", False),
        ("for row in connection.execute(query).mappings():\n  use(row[name])", False),
    ],
)
def test_a_position_is_seen(code: str, is_found: bool) -> None:
    assert any(read_by_position(ast.parse(f"def function():\n {code}"))) == is_found


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).as_posix(), ast.parse(file.read_text())


def raw_statements(tree: ast.Module) -> Iterator[str]:
    """Yield the texts with SQL, without docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings and _RAW.search(str(node.value)):
            yield f"{node.lineno}: {str(node.value).strip()[:60]}"


def read_by_position(tree: ast.Module) -> Iterator[str]:
    """Yield the places of a function where a row of one of its queries is read by a number or a slice."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in functions:
        known = _kinds(scope)
        for node in ast.walk(scope):
            if isinstance(node, ast.Subscript) and _kind(node.value, known) == "row" and _is_position(node.slice):
                yield f"{node.lineno}: {ast.unparse(node)}"


def _kinds(scope: ast.AST) -> dict[str, str]:
    """Return which names of a function are rows of a query, or a list of them."""
    known: dict[str, str] = {}
    before = None
    while before != known:
        before = dict(known)
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.NamedExpr(ast.Name(id=name), value):
                    kind = _kind(value, known)
                case ast.For(target=ast.Name(id=name), iter=many) | ast.comprehension(ast.Name(id=name), many):
                    kind = "row" if _kind(many, known) == "rows" else None
                case _:
                    continue
            if kind:
                known[name] = kind
    return known


def _kind(node: ast.AST, known: dict[str, str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _READ:
            return "rows"
        case ast.Call(func=ast.Attribute(value=of, attr=name)) | ast.Call(func=ast.Name(id=name), args=[of, *_]):
            kind = _kind(of, known) if name in _SAME | _ONE else None
            return "row" if kind and name in _ONE else kind
        case ast.Subscript(value=of, slice=at) if _kind(of, known) == "rows":
            return "rows" if isinstance(at, ast.Slice) else "row"
        case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one):
            return "rows" if _kind(one, known) == "row" else None
        case ast.BoolOp(values=values):
            return next(filter(None, (_kind(value, known) for value in values)), None)
    return None


def _is_position(at: ast.expr) -> bool:
    return isinstance(at, ast.Slice | ast.UnaryOp | ast.BinOp) or (
        isinstance(at, ast.Constant) and isinstance(at.value, int)
    )
