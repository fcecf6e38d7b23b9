"""Finds the lines by which a site's own scripts call Jobsight's files, before these are removed.

Reads what a scheduler runs, and what that names: includes, other scripts, globs, directories, Lua modules. Nodes run
this file too, from the archive, so it needs the standard library only.
"""

# ruff: noqa: PTH112, PTH113, PTH114, PTH116, PTH118, PTH119, PTH120, PTH202, PTH207
# Words of scripts are any text, and may be too long for a path, of which os.path says only that it is none.

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_BYTES_AT_MOST = 2**20
_FILES_AT_MOST = 2000
_COPY = "logger -t jobsight-hook"  # in mark-job, of which a copy does nothing once the agent is gone

_PATH = re.compile(r"[\w.%+*?\[\]{}~/-]+")
_OUTPUT = re.compile(r"[0-9&]?>>?\s*[^\s&;|]+")
_RUNS = re.compile(r"(?:^|[\s;&|({])(?:\.|source|include|exec|(?:ba|da|k|z)?sh|env|lua|perl|python3?)\s", re.IGNORECASE)
_LISTS = re.compile(r"\b(?:run-parts|for|find|ls|dir|popen)(?![\w/-])")  # not as a directory of a path
_SET = re.compile(r"""^\s*(?:local\s+|export\s+|readonly\s+)?(\w+)\s*=\s*(["']?)([^"'\s;]*)\2\s*(?:;|$)""")
_VARIABLE = re.compile(r"\$\{?(\w+)(?::?[-=][^}]*)?\}?")
_HERE = re.compile(r"\$\(\s*dirname[^()]*(?:\([^()]*\)[^()]*)?\)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}")
_CD = re.compile(r"(?:^|[\s;&|({])cd\s+([^\s;&|)]+)")
_IN_PYTHON = re.compile(r"\b(?:import|from)\s+jobsight_advice\b|\bimport_module\W+jobsight_advice\b")

_LOADS = re.compile(r"\b(?:require|dofile|loadfile)\b")
_MODULE = re.compile(r"""\brequire\b[^"'\[]*["'\[]+([\w./-]+)["'\]]""")
_IN_LUA = re.compile(r"""["'\[/]jobsight(?:_submit)?(?:\.lua)?["'\]]""")
_TEMPLATE = re.compile(r"[^\s\"';]*\?[^\s\"';]*\.lua")
_TEMPLATES = ("/usr/share/lua/*/?.lua", "/usr/local/share/lua/*/?.lua")


@dataclass(frozen=True, slots=True)
class Script:
    """A text that a scheduler runs or reads: a file's, or the output of a command under a ``name``."""

    name: str
    text: str
    folder: str = "/"

    @property
    def is_lua(self) -> bool:
        return self.name.endswith(".lua")


@dataclass(slots=True)
class Calls:
    """``found`` are the lines, as FILE:LINE: TEXT; ``missing`` the scripts of the scheduler that are not here."""

    found: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def calls(started: Iterable[str | Script], ours: Iterable[str | Path]) -> Calls:
    """Return the calls of ``ours``, files and directories, by what a scheduler starts: texts, paths, globs, folders."""
    return _Walk([*map(str, ours)]).all(started)


class _Walk:
    """Reads each script once."""

    def __init__(self, ours: list[str]) -> None:
        self._real = [os.path.realpath(path) for path in ours]
        self._seen: set[str] = set()
        either = "|".join(re.escape(path) for path in sorted({*ours, *self._real}, key=len, reverse=True))
        self._named = re.compile(rf"(?<![\w.-])(?:{either})(?![\w.-])")
        self._templates = [*_TEMPLATES]
        self._calls = Calls()

    def all(self, started: Iterable[str | Script]) -> Calls:
        for one in started:
            if isinstance(one, Script):
                self._read(one, {})
            if isinstance(one, Script) or self._named.search(one):  # its setting, not a script, calls ours
                continue
            files = _files(one, "/")
            self._calls.missing += [] if files else [one]
            for file in files:
                self._visit(file, {}, is_run=True)
        return self._calls

    def _is_ours(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(real == own or real.startswith(f"{own}/") for own in self._real)

    def _visit(self, file: str, variables: dict[str, str], *, is_run: bool) -> None:
        """Read a file; without ``is_run`` only if it looks like a script."""
        real = os.path.realpath(file)
        if self._is_ours(file):
            if os.path.islink(file):
                self._calls.found.append(f"{file}: a link to {real}")
        elif real not in self._seen and len(self._seen) < _FILES_AT_MOST:
            self._seen.add(real)
            text = _text(real, is_run)
            if text is not None and _COPY not in text:
                self._read(Script(os.path.normpath(file), text, os.path.dirname(real)), variables)

    def _read(self, script: Script, variables: dict[str, str]) -> None:
        folders = [script.folder]
        for number, line in enumerate(code_lines(script), 1):
            if set_here := _SET.match(line):
                variables[set_here[1]] = _expanded(set_here[3], variables, script.folder)
            full = _joined(line, variables) if script.is_lua else _expanded(line, variables, script.folder)
            if not script.is_lua and (moved := _CD.search(full)):
                folders = [os.path.join(script.folder, moved[1]), script.folder]
            tokens = _PATH.findall(_OUTPUT.sub(" ", full))
            paths = [os.path.join(folder, token) for folder in folders for token in tokens if "/" in token]
            is_run = bool((_LOADS if script.is_lua else _RUNS).search(full))
            by_module = is_run and _IN_LUA.search(full) if script.is_lua else _IN_PYTHON.search(full)
            if self._named.search(full) or by_module or any(map(self._is_ours, paths)):
                self._calls.found.append(f"{script.name}:{number}: {line.strip()[:160]}")
            if is_run:
                tokens = [token if "/" in token else f"./{token}" for token in tokens] + tokens
            for file in self._named_files(script, full, tokens, folders, variables):
                self._visit(file, variables if is_run else dict(variables), is_run=is_run)

    def _named_files(
        self, script: Script, line: str, tokens: list[str], folders: list[str], variables: Mapping[str, str]
    ) -> Iterator[str]:
        if script.is_lua:
            self._templates += _TEMPLATE.findall(line)
            for name in _MODULE.findall(line):
                for template in [f"{script.folder}/?.lua", *self._templates]:
                    yield from _files(template.replace("?", name.replace(".", "/")), script.folder)
        is_list = _LISTS.search(line) is not None
        programs = f"/usr/local/sbin:/usr/local/bin:{variables.get('PATH', '')}"
        for token in tokens:
            if "/" in token:
                places = [os.path.join(folder, token) for folder in folders]
                for place in dict.fromkeys(places):
                    yield from _files(place, "/") if is_list or not os.path.isdir(place) else ()
            elif not script.is_lua and (program := shutil.which(token, path=programs)) is not None:
                yield program


def _files(path: str, folder: str) -> list[str]:
    """Return the files of a path, a glob or a directory."""
    path = os.path.join(folder, path)
    if os.path.isdir(path):
        path = os.path.join(glob.escape(path), "*")
    elif os.path.lexists(path):
        return [path]
    found = sorted(glob.glob(path)) if glob.has_magic(path) else []
    return [file for file in found if not os.path.isdir(file)]


def _text(file: str, is_run: bool) -> str | None:
    """Return a script's text; None for anything else."""
    if not os.path.isfile(file) or os.path.getsize(file) > _BYTES_AT_MOST:
        return None
    content = Path(file).read_bytes()
    is_script = is_run or content.startswith(b"#!") or os.stat(file).st_mode & 0o111
    is_script = is_script or file.endswith((".lua", ".sh", ".py", ".pl"))
    return content.decode(errors="replace") if is_script and b"\0" not in content else None


def code_lines(script: Script) -> list[str]:
    """Return the lines of a script without comments; the lines of a long comment are empty."""
    text, mark = script.text, "#"
    if script.is_lua:
        text, mark = (
            re.sub(r"--\[(=*)\[.*?\]\1\]", lambda long: "\n" * long[0].count("\n"), text, flags=re.DOTALL),
            "--",
        )
    return [_code(line, mark) for line in text.split("\n")]


def _code(line: str, mark: str) -> str:
    place = line.find(mark)
    while place >= 0:
        before = line[:place]
        is_text = before.count('"') % 2 or before.count("'") % 2
        if not is_text and (mark == "--" or not before or before[-1].isspace() or before[-1] == ";"):
            return before
        place = line.find(mark, place + 1)
    return line


def _expanded(line: str, variables: Mapping[str, str], folder: str) -> str:
    """Return a line of a shell script without quotes, with its variables; an unknown directory may be the script's."""
    line = _HERE.sub(lambda _: folder, line).replace('"', "").replace("'", "")

    def value(name: re.Match[str]) -> str:
        return variables.get(name[1], folder if line.startswith("/", name.end()) else name[0])

    return _VARIABLE.sub(value, line)


def _joined(line: str, variables: Mapping[str, str]) -> str:
    """Return a line of Lua with its texts joined, and the variables among them as far as they are known."""
    known = re.sub(
        r"\b(\w+)(?=\s*\.\.)|(?<=\.\.)(\s*)(\w+)\b(?!\s*[.(])", lambda found: _lua_text(found, variables), line
    )
    return re.sub(r"""["']\s*\.\.\s*["']""", "", known)


def _lua_text(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name = found[1] or found[3]
    return f'"{variables[name]}"' if name in variables else found[0]


def queues(ask: Callable[..., str]) -> list[Script]:
    """Return what Grid Engine runs for jobs: of queues, parallel environments, hosts and all; ``ask`` runs qconf."""
    found = [Script("qconf -sconf", ask("-sconf"))]
    for lister, shower in (("-sql", "-sq"), ("-spl", "-sp"), ("-sconfl", "-sconf")):
        found += [Script(f"qconf {shower} {name}", ask(shower, name)) for name in ask(lister).split()]
    return found


def of_node(prefix: str) -> Iterator[str]:
    """Yield the files that a node below ``prefix`` has in known places: slurm.conf, mom_priv of PBS and TORQUE."""
    for folder in ("etc/slurm", "etc/slurm-llnl", "run/slurm/conf", "var/spool/slurmd/conf-cache", "usr/local/etc"):
        if os.path.isfile(conf := f"{prefix}/{folder}/slurm.conf"):
            yield conf
    for place in ("prologue*", "epilogue*", "hooks/*.PY"):
        for file in sorted(glob.glob(f"{glob.escape(prefix)}/var/spool/*/mom_priv/{place}")):
            if not os.path.basename(file).startswith("jobsight_"):  # a hook that works without ours
                yield file


def main(prefix: str, started: str, *ours: str) -> int:
    """Print the calls of ``ours`` on a node, by what setup knew as ``started`` too; return 1 if there are any."""
    found = calls([*started.split(), *of_node(prefix)], ours).found
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
