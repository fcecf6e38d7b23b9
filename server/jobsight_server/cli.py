"""The command ``jobsight``: finds the command's module, lets it declare its arguments, runs it."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata

from jobsight_server.command_line.escaping import with_output
from jobsight_server.command_line.help_text import INSTALLED, HelpParser
from jobsight_server.ground.errors import UserError
from jobsight_server.systems.listed import systems

# Name -> (module, help). A module has ``add_arguments(parser)`` and ``run(args) -> exit status``, perhaps ``PARSE``.
COMMANDS = {
    "serve": ("jobsight_server.commands.serve", "run the collector, the API and the pages"),
    "setup": ("jobsight_server.commands.setup", "install Jobsight beside a scheduler; shows first what it does"),
    "check": ("jobsight_server.commands.check", "check an installation with a job, from submission to seff"),
    "import": ("jobsight_server.commands.import_arguments", "read accounting files once; list and withdraw them"),
    "report": ("jobsight_server.commands.report", "show what a log holds: waste, savings, accuracy; needs no server"),
    "predict": ("jobsight_server.commands.predict", "forecast a user's next job from the database"),
    "token": ("jobsight_server.commands.token", "create, list and revoke tokens; one-time login to the pages"),
    "backtest": (
        "jobsight_server.commands.backtest",
        "show how accurate forecasts would have been on a workload",
    ),
    "simulate": (
        "jobsight_server.commands.simulate.command",
        "show how long jobs would wait: with forecasts, policies, clusters",
    ),
    "seff": ("jobsight_server.commands.seff", "show what a job used of what it asked for"),
    "savings": ("jobsight_server.commands.savings", "show what reserving as recommended would have freed"),
    "adjust": ("jobsight_server.commands.adjust", "change what waiting jobs ask for; shows it first"),
    "mail": ("jobsight_server.commands.mail", "send the weekly mail on wasted memory and what is wrong"),
    "mcp": ("jobsight_server.commands.mcp", "answer an assistant's questions about a user's jobs (extra mcp)"),
    "export": ("jobsight_server.commands.export", "write finished jobs as CSV or Parquet"),
    "backup": ("jobsight_server.commands.backup", "copy the database while the server runs"),
}


def all_commands() -> dict[str, tuple[str, str]]:
    """Return ``COMMANDS`` and those of the placing systems."""
    of_systems = ((system, *command) for system in systems() for command in system.commands.items())
    return COMMANDS | {name: (f"{system.package}.commands", help_text) for system, name, help_text in of_systems}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 failed, 2 wrong usage, 141 output closed (`| head`)."""
    return with_output("jobsight", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(metadata.version("jobsight"))
        return 0
    # Entry points take some hundredths of a second to find.
    commands = COMMANDS if arguments and arguments[0] in COMMANDS else all_commands()
    if not arguments or arguments[0] not in commands:
        return _overview(arguments, commands)
    name = arguments[0]
    module_name, help_text = commands[name]
    try:
        gc.disable()  # what modules make stays: looking for garbage among it takes a sixth of a command's start
        try:
            module = importlib.import_module(module_name)
        finally:
            gc.freeze()
            gc.enable()
        parser = HelpParser(prog=f"jobsight {name}", description=f"{help_text[:1].upper()}{help_text[1:]}.")
        module.add_arguments(parser)
        parse = getattr(module, "PARSE", HelpParser.parse_args)
        status: int = module.run(parse(parser, arguments[1:]))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("jobsight_"):
            raise
        # All commands are there in every installation, but not what each of them needs.
        extras = "server,mcp" if error.name.partition(".")[0] == "mcp" else "server"
        print(f"jobsight {name}: {error.name} is not installed: pip install 'jobsight[{extras}]'", file=sys.stderr)
        return 1
    except UserError as error:
        print(f"jobsight {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"jobsight {name}: interrupted", file=sys.stderr)
        return 130
    return status


def _overview(arguments: Sequence[str], commands: Mapping[str, tuple[str, str]]) -> int:
    wanted = not arguments or arguments[0] in {"-h", "--help"}
    stream = sys.stdout if wanted else sys.stderr
    if not wanted:
        print(f"jobsight: unknown command {arguments[0]!r}", file=stream)
    print("usage: jobsight COMMAND [--help] | --version", file=stream)
    print(f"\nCommands take their settings from {INSTALLED} where it exists,", file=stream)
    print("unless --config or a database is given.\n\ncommands:", file=stream)
    column = max(map(len, commands)) + 2
    for name, (_, help_text) in commands.items():
        print(f"  {name:<{column}}{help_text}", file=stream)
    return 0 if wanted else 2


if __name__ == "__main__":
    sys.exit(main())
