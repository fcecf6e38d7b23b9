"""Edits slurm.conf: only what differs, and never a site's own prolog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_LISTS = {"PrologFlags": {"alloc", "contain", "x11", "forcerequeueonfail", "runinjob"}, "JobSubmitPlugins": {"lua"}}
"""Settings with several possible values, and those that suffice."""


def configured(file: Path, config: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, list[str], list[str]]:
    """The text of slurm.conf with the required settings, its new lines, and what is left for the administrator.

    ``config`` holds the current values, which may be set in an included file.
    """
    try:
        text = file.read_text()
    except FileNotFoundError:  # a cluster without files on this host
        text = ""
    lines, notes = [], []
    for name, value in wanted.items():
        present = config.get(name, "")
        present = "" if present == "(null)" else present
        if name in _LISTS:
            has = _LISTS[name] & {each.strip().lower() for each in present.split(",")}
            line = f"{name}={present + ',' if present else ''}{value}"
        else:
            has, line = {value} & {present}, f"{name}={value}"
            if present and not has:
                notes.append(f"{name} is {present}: keep it, and call {value} from it")
                continue
        if has:
            continue
        own = rf"(?im)^\s*{name}\s*=.*$"
        if not present:
            text = re.sub(own, "", text).rstrip("\n") + f"\n{line}\n"
        elif re.search(own, text):
            text = re.sub(own, line, text)
        else:
            notes.append(f"{name} is {present}, in a file that {file} includes: make it {line}")
            continue
        lines.append(line)
    return text, lines, notes
