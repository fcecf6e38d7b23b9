"""Checks that Slurm's plugin job_submit/lua can be loaded, with the libraries that job_submit.lua uses."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_FOLDERS = (
    "/usr/share/lua",
    "/usr/lib/*/lua",
    "/usr/lib64/lua",
    "/usr/lib/lua",
    "/usr/local/share/lua",
    "/usr/local/lib/lua",
)
_LIBRARIES = {"LuaSocket (lua-socket)": "socket.lua", "cjson (lua-cjson)": "cjson.so"}


def lua_problem(config: Mapping[str, str]) -> str | None:
    """Return the missing part and what to install; None if nothing is missing."""
    folders = [Path(folder) for folder in config.get("PluginDir", "").split(":") if folder]
    plugins = [folder / "job_submit_lua.so" for folder in folders if (folder / "job_submit_lua.so").exists()]
    if not plugins:
        return f"there is no job_submit_lua.so in {config.get('PluginDir')}: install a Slurm that was built with Lua"
    version = _linked_version(plugins[0])
    if version is None:
        return f"{plugins[0]} links no Lua that is installed here: install it (`ldd {plugins[0]}`)"
    missing = [
        name
        for name, file in _LIBRARIES.items()
        if not any([*Path("/").glob(f"{folder[1:]}/{version}/{file}")] for folder in _FOLDERS)
    ]
    return f"install {' and '.join(missing)} for Lua {version}" if missing else None


def _linked_version(plugin: Path) -> str | None:
    try:
        linked = subprocess.run(["ldd", str(plugin)], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"liblua-?(5\.\d).*=> /", linked)
    return found[1] if found else None
