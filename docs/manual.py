"""Writes the manual pages and bash's completion in deploy/ from the help of each command.

python docs/manual.py
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from jobsight_agent.cli import main as agent
from jobsight_server.cli import all_commands, main

_DEPLOY = Path(__file__).parents[1] / "deploy"
AGENT_COMMANDS = ("run", "job-start", "job-end", "status", "resend", "replay")
_WIDTH = "78"


def manual(name: str, what: str, program: Callable[[list[str]], int], commands: Iterable[str]) -> str:
    """Return a page as roff: the overview, then the help of each command."""
    parts = [
        f'.TH {_escaped(name.upper())} 1 "" "" "Jobsight"',
        f".SH NAME\n{_escaped(name)} \\- {what}",
        f".SH SYNOPSIS\n{_plain(_help(program))}",
        *(f".SH {_escaped(f'{name} {of}'.upper())}\n{_plain(_help(program, of))}" for of in commands),
    ]
    return "\n".join(parts) + "\n"


def completion() -> str:
    """Return functions for bash: commands first, then options, else files."""
    cases = "".join(f"    {name}) words='{' '.join(options(name))}' ;;\n" for name in all_commands())
    return _BASH.format(commands=" ".join(all_commands()), cases=cases)


def options(name: str) -> list[str]:
    """Return the options in a command's help, in order."""
    return list(dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z-]*", _help(main, name))))


_BASH = """\
# Completion of jobsight in bash; installed in share/bash-completion/completions, or `source` it.
_jobsight() {{
  local words='' current=${{COMP_WORDS[COMP_CWORD]}}
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '{commands}' -- "$current")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -o filenames -F _jobsight jobsight
"""


def _help(program: Callable[[list[str]], int], *command: str) -> str:
    found = io.StringIO()
    with contextlib.redirect_stdout(found), contextlib.suppress(SystemExit):
        program([*command, "--help"])
    return found.getvalue().rstrip()


def _plain(text: str) -> str:
    return f".nf\n{_escaped(text)}\n.fi"


def _escaped(text: str) -> str:
    """Escape what roff would read as a command."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


if __name__ == "__main__":
    os.environ["COLUMNS"] = _WIDTH
    for file, text in {
        "man/jobsight.1": manual("jobsight", "forecasts what a cluster job will need", main, all_commands()),
        "man/jobsight-agent.1": manual("jobsight-agent", "measures a node for Jobsight", agent, AGENT_COMMANDS),
        "completions/jobsight": completion(),
    }.items():
        (_DEPLOY / file).write_text(text)
