"""The pinned versions of a release: all that server and assistants need, within the ranges that are declared."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PINS = {
    canonicalize_name(name): Version(version)
    for name, version in re.findall(r"^([^#=\n]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
}


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [Requirement(line) for line in (*project["dependencies"], *extras["server"], *extras["mcp"])]


def needed(requirements: list[Requirement]) -> Iterator[Requirement]:
    """These and, as far as they are installed here, what they need in turn."""
    seen = set()
    while requirements:
        requirement = requirements.pop()
        key = (canonicalize_name(requirement.name), str(requirement.specifier), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        yield requirement
        try:
            further = [Requirement(line) for line in requires(requirement.name) or ()]
        except PackageNotFoundError:
            continue
        extras = ("", *requirement.extras)
        requirements += [
            one for one in further if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in extras)
        ]


def test_all_that_the_server_needs_is_pinned_within_its_range() -> None:
    """After a change in pyproject.toml, `make constraints` makes the file again."""
    found = list(needed(declared()))
    assert len(found) > len(declared()) > 10
    assert {one.name for one in found if canonicalize_name(one.name) not in PINS} == set()
    outside = [str(one) for one in found if not one.specifier.contains(PINS[canonicalize_name(one.name)])]
    assert outside == []


def test_nothing_else_is_in_the_file() -> None:
    """No path, address or option: the file must read the same everywhere."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines[0].startswith("#")
    assert [line for line in lines[1:] if not re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.+]*", line)] == []
    reached = {canonicalize_name(one.name) for one in needed(declared())}
    assert PINS.keys() - reached == set()


def test_documents_install_by_it() -> None:
    commands = re.findall(r"pip install .*", (ROOT / "deploy" / "README.md").read_text())
    installs = [command for command in commands if re.search(r"('\.\[server\]'|\s\./agent)$", command)]
    assert len(installs) == 3
    assert all("-c constraints.txt" in command for command in installs)
