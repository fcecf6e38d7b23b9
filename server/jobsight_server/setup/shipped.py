"""The files of deploy/, which a wheel has inside this package, with a site's values filled in."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from jobsight_server.ground.errors import UserError

_PACKAGE = Path(__file__).parents[1]


def shipped(name: str) -> str:
    """Return the text of a file of deploy/.

    Raises:
        UserError: this installation lacks it.
    """
    for folder in (_PACKAGE / "deploy", _PACKAGE.parents[1] / "deploy"):
        if (folder / name).is_file():
            return (folder / name).read_text()
    raise UserError(f"deploy/{name} is neither in {_PACKAGE} nor beside it: install Jobsight again")


def with_script_settings(text: str, values: Mapping[str, str | int]) -> str:
    """Return a Lua or Python script with these values in the block ``SETTINGS`` at its top."""
    begin = re.search(r"^(local )?SETTINGS = \{$", text, re.MULTILINE)
    end = text.find("\n}", begin.end()) if begin else -1
    if begin is None or end < 0:
        raise UserError("the script has no block SETTINGS at its top: it is from another release")
    block = text[begin.end() : end]
    for name, value in values.items():
        pattern = rf'^(\s*"?{name}"?\s*[=:]\s*)(?:"[^"\n]*"|[\d.]+)(?=,)'
        block = _once(pattern, json.dumps(value), block, name)
    return text[: begin.end()] + block + text[end:]


def with_shell_settings(text: str, values: Mapping[str, str]) -> str:
    """Return a shell script with these variables at its top."""
    for name, value in values.items():
        text = _once(rf"^({name}=).*$", shlex.quote(value), text, name)
    return text


def with_toml_settings(text: str, values: Mapping[str, object]) -> str:
    """Return a settings file with these values, beside their commented defaults if it has them."""
    for name, value in values.items():
        line = f"{name} = {json.dumps(value)}"
        if re.search(rf"^{name} = ", text, re.MULTILINE):
            text = _once(rf"^({name} = ).*$", json.dumps(value), text, name)
        elif re.search(rf"^# {name} = ", text, re.MULTILINE):
            text = _once(rf"^(# {name} = .*\n)", f"{line}\n", text, name)
        else:
            text = f"{line}\n{text}"
    return text


def _once(pattern: str, value: str, text: str, name: str) -> str:
    changed, count = re.subn(pattern, lambda match: match[1] + value, text, flags=re.MULTILINE)
    if count != 1:
        raise UserError(f"{name} stands {count} times in the shipped file: this release and its files do not match")
    return changed
