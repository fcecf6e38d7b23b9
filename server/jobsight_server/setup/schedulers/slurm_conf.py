"""Edits slurm.conf: changes only differing settings, never a site's own prolog; and takes its part out again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from jobsight_server.ground.errors import UserError
from jobsight_server.setup.schedulers.scheduler import safe_call

_LISTS = {"PrologFlags": {"alloc", "contain", "x11", "forcerequeueonfail", "runinjob"}, "JobSubmitPlugins": {"lua"}}
"""Settings with several sufficient values."""


def configured(file: Path, cluster: str, wanted: Mapping[str, str]) -> tuple[str, list[str], dict[str, str]]:
    """Return slurm.conf with the required settings, its new lines, and by setting what the administrator must do.

    Only the files count: slurmctld may still run with lines that they no longer have.
    """
    everything = settings(file, cluster)
    text = file.read_text()
    lines, notes = [], {}
    for name, value in wanted.items():
        present = everything.get(name.lower(), "")
        if has(name, value, present):
            continue
        if present and name not in _LISTS:
            notes[name] = f"{name} is {present}: keep it, and add to it: {safe_call(Path(value))}"
            continue
        line = f"{name}={present + ',' if present else ''}{value}"
        own = re.compile(rf"(?im)^[ \t]*{name}[ \t]*=.*$")
        if own.search(text):
            text = own.sub(line, text)
        elif present:
            notes[name] = f"{name} is {present}, in a file that {file} includes: make it {line}"
            continue
        else:
            text = text.rstrip("\n") + f"\n{line}\n"
        lines.append(line)
    return text, lines, notes


def without(text: str, before: str, wanted: Mapping[str, str]) -> str:
    """Return slurm.conf without the additions of ``configured`` to ``before``; all else stays as it is now."""
    for name, value in wanted.items():
        own = re.compile(rf"(?im)^[ \t]*{name}[ \t]*=([^#\n]*).*$\n?")
        earlier = own.search(before)
        old = earlier[1].strip() if earlier else ""
        if not has(name, value, old):
            text = own.sub(partial(_without, name, value, old, earlier[0] if earlier else ""), text)
    return text


def _without(name: str, value: str, old: str, earlier: str, line: re.Match[str]) -> str:
    """Return a line of slurm.conf without our value: its earlier text if nothing else is new in it."""
    items = [item.strip() for item in line[1].split(",")]
    if value.lower() not in [item.lower() for item in items]:
        return line[0]
    rest = ",".join(item for item in items if item.lower() != value.lower())
    return earlier if rest in ("", old) else f"{name}={rest}\n"


def has(name: str, value: str, present: str) -> bool:
    """Return whether a setting's present value suffices."""
    if name in _LISTS:
        return not _LISTS[name].isdisjoint(each.strip().lower() for each in present.split(","))
    return present == value


def settings(file: Path, cluster: str) -> dict[str, str]:
    """Return the settings of a file and of its includes, by their names in lower case.

    Raises:
        UserError: one of these files cannot be read.
    """
    found: dict[str, str] = {}
    try:
        text = file.read_text()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}: run this where slurmctld runs") from error
    for line in text.splitlines():
        name, _, value = line.partition("#")[0].partition("=")
        if include := re.match(r"\s*include\s+(\S+)", line, re.IGNORECASE):
            found |= settings(file.parent / include[1].replace("%c", cluster), cluster)
        elif value.strip():
            found[name.strip().lower()] = value.strip().strip('"')
    return found
