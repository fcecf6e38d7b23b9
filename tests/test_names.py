"""Names of classes: each means one thing in the whole repository."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_two_classes_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for part in ("agent", "predictor", "scheduler", "server", "papers", "benchmarks"):
        for file in (ROOT / part).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert len(found) > 500
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
