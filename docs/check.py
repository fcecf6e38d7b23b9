"""Checks the documents against the project: links, citations, modules, layers, commands and flags.

python docs/check.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Set
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)|<img[^>]+src=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CITATION = re.compile(r"docs/use/definitions\.md, ([^)]*)\)")
WINGS = ("agent", "predictor", "scheduler", "server", "papers")
FOLDERS = (*WINGS, "benchmarks", "deploy", "docs", "examples", "tests")
COMMAND = re.compile(r"\b(jobsight|jobsight-agent) ([a-z-]+)((?: [^\n`|]*)?)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
MODULE = re.compile(r"[\w./-]*\w\.py\b")
PLACEHOLDER = re.compile(r"\b(NAME|NOUN)\.py$")
PROGRAMS = {"jobsight": "jobsight_server.cli", "jobsight-agent": "jobsight_agent.cli"}


def documents() -> list[Path]:
    """Find every Markdown document of the project."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("deploy/*.md"),
        *ROOT.glob("papers/*/*/README.md"),
        *ROOT.glob("server/jobsight_server/systems/*/README.md"),
        *ROOT.glob("benchmarks/**/*.md"),
    ]
    return sorted(found)


def broken_links(document: Path) -> list[str]:
    """Find relative links of ``document`` without a target."""
    faults = []
    for match in LINK.finditer(document.read_text()):
        target, anchor = match[1] or match[3] or document.name, match[2]
        if "://" in target:
            continue
        file = document.parent / target
        if not file.exists():
            faults.append(f"{document.relative_to(ROOT)}: {target} does not exist")
        elif anchor and anchor not in {_anchor(heading) for heading in headings(file)}:
            faults.append(f"{document.relative_to(ROOT)}: {target} has no heading #{anchor}")
    return faults


def headings(document: Path) -> list[str]:
    """Return the headings of ``document``, including comments in code."""
    return HEADING.findall(document.read_text())


def _anchor(heading: str) -> str:
    """Make an anchor as GitHub does."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def wrong_citations() -> list[str]:
    """Find docstrings and comments that cite a missing heading of the definitions."""
    known = set(headings(ROOT / "docs/use/definitions.md"))
    return [
        f"{file.relative_to(ROOT)}: docs/use/definitions.md has no heading {cited!r}"
        for wing in WINGS
        for file in sorted((ROOT / wing).rglob("*.py"))
        for cited in CITATION.findall(file.read_text())
        if cited not in known
    ]


def help_of(program: str, command: str) -> str | None:
    """Return the output of ``program command --help``; None without such a command."""
    run = [sys.executable, "-m", PROGRAMS[program], command, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def wrong_commands(document: Path, known: dict[tuple[str, str], str | None]) -> list[str]:
    """Find commands and flags in code of ``document`` that the programs do not have."""
    faults = []
    code = re.findall(r"```.*?```|`[^`\n]+`", document.read_text(), re.DOTALL)
    for match in COMMAND.finditer("\n".join(code)):
        program, command, rest = match.groups()
        key = (program, command)
        if key not in known:
            known[key] = help_of(*key)
        text = known[key]
        if text is None:
            faults.append(f"{document.relative_to(ROOT)}: there is no `{program} {command}`")
            continue
        faults += [
            f"{document.relative_to(ROOT)}: `{program} {command}` has no {flag}"
            for flag in FLAG.findall(rest.split("|")[0])
            if flag not in text
        ]
    return faults


def missing_modules(document: Path, modules: Set[str]) -> list[str]:
    """Find modules in ``document`` that are not there; ``modules`` has each by every end of its path."""
    named = {name.lstrip("./") for name in MODULE.findall(document.read_text())}
    return [
        f"{document.relative_to(ROOT)}: there is no {name}"
        for name in sorted(named - modules)
        if not PLACEHOLDER.search(name)
    ]


def modules() -> set[str]:
    """Return every module of the project, by every end of its path."""
    files = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {"/".join(file.parts[at:]) for file in files for at in range(len(file.parts))}


def wrong_layers() -> list[str]:
    """Return whether the layers that the architecture shows are not those of the import contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (enforced,) = [
        contract["layers"] for contract in contracts if contract["name"] == "The server imports downward only"
    ]
    document = ROOT / "docs/develop/architecture.md"
    block = document.read_text().split("```text\n")[2].split("```")[0]
    shown = [set(re.findall(r"\w+", re.sub(r"[:(].*", "", line))) for line in block.splitlines()]
    if shown == [set(layer.split(" | ")) for layer in enforced]:
        return []
    return [f"{document.relative_to(ROOT)}: the layers are not those of the contract in pyproject.toml"]


def outdated_page() -> list[str]:
    """Return whether the page of measurements is outdated."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from page import PAGE, page

    return [] if PAGE.read_text() == page() else [f"{PAGE.relative_to(ROOT)} is outdated: python benchmarks/page.py"]


def main() -> int:
    """Print every fault; return 0 without any."""
    faults, there = wrong_citations() + wrong_layers() + outdated_page(), modules()
    known: dict[tuple[str, str], str | None] = {}
    for document in documents():
        faults += broken_links(document)
        if document.name != "CHANGELOG.md":  # which names commands of earlier releases, too
            faults += wrong_commands(document, known) + missing_modules(document, there)
    print("\n".join(faults) if faults else f"{len(documents())} documents are true")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
