"""The scripts that schedulers run at submission, and the site's choices, which survive upgrades."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from jobsight_server.setup.manifest import digest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import File
from jobsight_server.setup.shipped import shipped, with_script_settings

_HOOKS = "/usr/local/lib/jobsight"  # in the shipped scripts
_BLOCK = re.compile(r"^(?:local )?(SETTINGS|SET) = \{\n(.*?)^\}\n", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r'^(?:local )?(SUCH_JOBS|MESSAGE|LIBRARY) = "?([^"\s]+)"?.*\n', re.MULTILINE)
_ENTRY = re.compile(r'^\s*"?(\w+)"?\s*[=:]\s*"?([^"\n]*?)"?\s*,', re.MULTILINE)
_MODES = re.compile(r'(?:\["([^"]+)"\]|"([^"]+)"|(\w+))\s*[=:]\s*\{([^}]*)\}')
_MODE = re.compile(r'"?(memory|time)"?\s*[=:]\s*"(\w+)"')
_RELEASED = {
    "4aca0d79d362e16144ce9467cfff4bb989ebd5656ecdbbd911805d7452585103",
    "8061477d6f1d567141ab80f4ffd40647399ffd30bd71a64025b0909d38e96eb7",
    "d5207a15a3fb36b833d6a3ffc3802b645f1833b482ea37757576135d117744ef",
}
"""Digests of the scripts of 0.2, which held their settings, without these settings."""
_DEFAULTS_0_2 = {
    "address": {"127.0.0.1"},
    "port": {"8470"},
    "cluster": {"default"},
    "token_file": {f"/etc/jobsight/{name}-token" for name in ("slurm", "pbs", "submitter")},
    "limit_s": {"0.1"},
    "failures": {"3"},
    "pause_s": {"60"},
    "SUCH_JOBS": {"5"},
    "MESSAGE": {"notable"},
}


def submission_files(
    name: str, target: Path, mode: int, values: Mapping[str, str | int], places: Places
) -> tuple[File, File]:
    """Return ``submit.conf`` and the script ``deploy/NAME`` for ``target``, with these values in it.

    A script of 0.2 in which a site changed only settings is ours to replace, once ``submit.conf`` has the settings.
    """
    script = with_script_settings(shipped(name), {**values, "settings_file": str(places.choices)})
    present = target.read_text(errors="replace") if target.exists() else ""
    released = without_settings(present) in _RELEASED
    carried = _choices(present, values) if released else []
    text = shipped("submit.conf")
    if carried:
        text += "\n".join([f"\n# From {target.name} of release 0.2:", *carried, ""])
    has_all = not places.choices.exists() or set(carried) <= set(places.choices.read_text().splitlines())
    return (
        File(places.choices, 0o644, content=text, kept=True),
        File(target, mode, content=script.replace(_HOOKS, str(places.hooks)), ours=released and has_all),
    )


def without_settings(script: str) -> str:
    """Return the digest of a script of 0.2 without its settings."""
    return digest(_LINE.sub("", _BLOCK.sub("", script)).encode())


def _choices(script: str, values: Mapping[str, str | int]) -> list[str]:
    """Return the lines of ``submit.conf`` that correspond to the settings in a script."""
    blocks = {name: re.sub(r"(?m)^\s*(?:--|#).*", "", block) for name, block in _BLOCK.findall(script)}
    entries = [*_ENTRY.findall(blocks.get("SETTINGS", "")), *_LINE.findall(script)]
    lines = [
        f"{name.lower()} = {value}"
        for name, value in entries
        if name in _DEFAULTS_0_2 and value not in _DEFAULTS_0_2[name] | {str(values.get(name))}
    ]
    for *names, modes in _MODES.findall(blocks.get("SET", "")):
        queue = "".join(names)
        own = {"memory": "no", "time": "no", **dict(_MODE.findall(modes))}
        lines += [f"{what}{'' if queue == '*' else f'.{queue}'} = {value}" for what, value in own.items()]
    return [line for line in lines if line not in ("memory = no", "time = no")]
