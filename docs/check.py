"""Holds the documents against the project: links lead somewhere, commands and flags exist, no local paths.

python docs/check.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|<img[^>]+src=\"([^\"]+)\"")
COMMAND = re.compile(r"\b(jobsight|jobsight-agent) ([a-z-]+)((?: [^\n`|]*)?)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
PROGRAMS = {"jobsight": "jobsight_server.cli", "jobsight-agent": "jobsight_agent.cli"}


def documents() -> list[Path]:
    """Every Markdown document of the project."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/*.md"), *ROOT.glob("benchmarks/*.md")]
    return sorted(found)


def broken_links(document: Path) -> list[str]:
    """Relative links of ``document`` that lead nowhere."""
    faults = []
    for match in LINK.finditer(document.read_text()):
        target = match[1] or match[2]
        if "://" not in target and not (document.parent / target).exists():
            faults.append(f"{document.relative_to(ROOT)}: {target} does not exist")
    return faults


def help_of(program: str, command: str) -> str | None:
    """What ``program command --help`` prints; None where there is no such command."""
    run = [sys.executable, "-m", PROGRAMS[program], command, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def wrong_commands(document: Path, known: dict[tuple[str, str], str | None]) -> list[str]:
    """Commands and flags in code of ``document`` that the programs do not have."""
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


def main() -> int:
    """Prints every fault; 0 when there is none."""
    faults: list[str] = []
    known: dict[tuple[str, str], str | None] = {}
    for document in documents():
        faults += broken_links(document) + wrong_commands(document, known)
    print("\n".join(faults) if faults else f"{len(documents())} documents are true")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
