"""Imports of all wings: no circles and none upward, also not those in functions or under ``TYPE_CHECKING``."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
LAYERS = [contract for contract in LINTER["contracts"] if contract["type"] == "layers"]

Imports = dict[str, set[str]]
"""The modules that each module imports."""


def imports_of(packages: Sequence[Path]) -> Imports:
    """Read every module of these packages; imports of other packages are left out."""
    files: dict[str, Path] = {}
    for package in packages:
        for file in package.rglob("*.py"):
            *rooms, name = file.relative_to(package.parent).with_suffix("").parts
            files[".".join([*rooms, *([] if name == "__init__" else [name])])] = file
    found: Imports = {}
    for module, file in files.items():
        here = module if file.name == "__init__.py" else module.rpartition(".")[0]
        tree = ast.parse(file.read_text(), str(file))
        found[module] = {name for node in ast.walk(tree) for name in _named(node, here, files)} - {module}
    return found


def _named(node: ast.AST, here: str, known: Mapping[str, Path]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name in known)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = here.split(".")[: len(here.split(".")) - level + 1] if level else []
            origin = ".".join([*above, *([module] if module else [])])
            for alias in names:
                name = f"{origin}.{alias.name}"
                yield from [one for one in (name if name in known else origin,) if one in known]


def circle(imports: Imports) -> list[str]:
    """Return a circle of modules that import one another; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def upward(imports: Imports, layers: Sequence[str], container: str = "") -> list[tuple[str, str]]:
    """Return the imports of a layer by one below it, or by one beside it (``a | b``)."""
    of_name = {name.strip(): place for place, layer in enumerate(layers) for name in layer.split("|")}

    def room(module: str) -> str:
        return module.removeprefix(f"{container}.").split(".")[0]

    def place(module: str) -> int | None:
        return of_name.get(room(module)) if module.startswith(container) else None

    return sorted(
        (one, other)
        for one, others in imports.items()
        for other in others
        if (of := place(one)) is not None and (above := place(other)) is not None
        if room(one) != room(other) and above <= of
    )


@pytest.fixture(scope="module")
def imports() -> Imports:
    return imports_of([path for name in LINTER["root_packages"] for path in ROOT.glob(f"*/{name}")])


def test_no_modules_import_one_another_in_a_circle(imports: Imports) -> None:
    assert len(imports) > 400
    assert circle(imports) == []


@pytest.mark.parametrize("contract", LAYERS, ids=lambda contract: contract["name"])
def test_no_import_goes_up(imports: Imports, contract: dict[str, Any]) -> None:
    for container in contract.get("containers", [""]):
        assert upward(imports, contract["layers"], container) == []


def test_every_room_of_the_server_is_in_a_layer(imports: Imports) -> None:
    (server,) = [contract for contract in LAYERS if contract.get("containers") == ["jobsight_server"]]
    layers = {name.strip() for layer in server["layers"] for name in layer.split("|")}
    assert {name.split(".")[1] for name in imports if name.startswith("jobsight_server.")} == layers


HIDDEN = "def f():\n    from {} import x\n"
TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {} import x\n"


@pytest.mark.parametrize(
    ("low", "expected"),
    [
        ("import json\n", []),
        ("from house.high import x\n", [("house.low.a", "house.high")]),
        (HIDDEN.format("..high"), [("house.low.a", "house.high")]),
        (TYPED.format("house.high"), [("house.low.a", "house.high")]),
        ("import house.beside\n", [("house.low.a", "house.beside")]),
    ],
)
def test_an_import_is_found_wherever_it_stands(low: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    (tmp_path / "house/low").mkdir(parents=True)
    modules = {"__init__": "", "high": "from . import beside\nfrom .low.a import y\n", "beside": "", "low/__init__": ""}
    for name, text in (modules | {"low/a": low}).items():
        (tmp_path / f"house/{name}.py").write_text(text)
    found = imports_of([tmp_path / "house"])
    assert found["house.high"] == {"house.beside", "house.low.a"}
    assert upward(found, ["high", "beside | low"], "house") == expected
    assert set(circle(found)) == ({"house.low.a", "house.high"} if "high" in low else set())
