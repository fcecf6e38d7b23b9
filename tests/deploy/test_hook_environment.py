"""The job hook where sh is dash or bash, run with an environment that takes over whatever a shell lets it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.deploy.test_job_hooks import HOOK, install, marks

from jobsight_agent.reading import Mark

SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("dash", "bash")
]
KEYWORDS = {"case", "esac", "in", "if", "then", "elif", "else", "fi", "while", "do", "done", "for"}
# Every word of the script that could be a command, and those of a shell that a later edit might use.
COMMANDS = sorted(
    (set(re.findall(r"(?<![\w$-])[a-z_]+(?![\w-])", HOOK.read_text())) - KEYWORDS)
    | {"[", "[[", ":", ".", "alias", "builtin", "command", "declare", "echo", "enable", "env", "eval", "exec", "exit"}
    | {"export", "local", "printf", "read", "readonly", "return", "set", "shift", "shopt", "source", "test", "trap"}
    | {"type", "typeset", "umask", "unalias", "unset", "wait", "/usr/bin/env", "/bin/sh"}
)


def hook_of(tmp_path: Path, shell: str) -> Path:
    """The hook on a system whose ``sh`` is this shell."""
    sh = tmp_path / "sh"
    sh.symlink_to(shutil.which(shell) or shell)
    hook = install(tmp_path, "prolog", LIMIT_S=20)
    hook.write_text(hook.read_text().replace("/bin/sh", str(sh)))
    return hook


def hostile(found: Path) -> dict[str, str]:
    """An environment of Grid Engine's with all that a shell would run from it; each leaves its mark at ``found``."""
    run = f"printf '%s\\n' \"$FUNCNAME\" >>'{found}'"
    script = found.with_name("script")
    script.write_text(run)
    functions = {f"BASH_FUNC_{name}%%": f"() {{ {run}; }}" for name in COMMANDS}
    older = {f"BASH_FUNC_{name}()": f"() {{ {run}; }}" for name in COMMANDS} | {"command": f"() {{ {run}; }}"}
    return functions | older | {
        "ENV": str(script), "BASH_ENV": str(script), "SHELLOPTS": "allexport:xtrace:functrace", "BASHOPTS": "extdebug",
        "PS4": f"$({run})", "PS1": f"$({run})", "PROMPT_COMMAND": run, "IFS": "/bines", "PATH": str(found.parent),
        "POSIXLY_CORRECT": "", "CDPATH": "/", "GLOBIGNORE": "*", "SGE_ROOT": "/x", "JOB_ID": "7", "SGE_TASK_ID": "3",
    }  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_of_the_environment_is_run(tmp_path: Path, shell: str) -> None:
    """As the scheduler's daemon runs it, by its first line."""
    hook, found = hook_of(tmp_path, shell), tmp_path / "found"
    done = subprocess.run([hook], env=hostile(found), capture_output=True, timeout=90, check=False, cwd="/")
    assert not found.exists(), found.read_text()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [reading.mark for reading in marks(tmp_path)] == [Mark("7.3", "start")]


def test_every_shell_script_of_the_deployment_starts_privileged() -> None:
    scripts = [
        file
        for file in HOOK.parents[1].rglob("*")
        if file.is_file() and not file.is_symlink() and file.read_bytes().startswith(b"#!")
    ]
    first = {file.name: file.read_text().partition("\n")[0] for file in scripts if os.access(file, os.X_OK)}
    assert first == {
        "mark-job": "#!/bin/sh -p",
        "agent-deb.sh": "#!/bin/sh -p",
        "submit-filter": "#!/usr/bin/python3 -I",
        "jobsight-seff": "#!/usr/bin/python3 -I",
    }
