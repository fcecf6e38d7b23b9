"""The command ``jobsight-agent``. Each subcommand imports only its own modules: the agent runs on every node."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path

from jobsight_agent import __version__
from jobsight_agent.cgroups import PATTERNS
from jobsight_agent.config import OPTIONS, Config, ConfigError, Option, load_config

_HOOKS = {"job-start": "start", "job-end": "end"}
_RESEND = "resend the batches that the server rejected"
_METAVARS = {
    "server": "URL",
    "_file": "FILE",
    "spool": "DIRECTORY",
    "host_root": "DIRECTORY",
    "interval": "SECONDS",
    "_s": "SECONDS",
    "_hours": "HOURS",
    "_megabytes": "MEGABYTES",
    "_level": "LEVEL",
}
_HOOK_OPTIONS = ("spool", "host_root", "exclude", "counters_32bit", "cgroups")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return 0 if done, 1 if it failed, 2 after wrong usage, 141 if the output is closed.

    What it prints is written at its end, where a failure to write cannot be mistaken for one of other files.
    """
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            return _command(argv)
    finally:
        _write(printed.getvalue())


def _write(text: str) -> None:
    """Write to standard output; exit where that fails."""
    if not text or sys.stdout is None:  # closed
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # The interpreter would complain about the buffered rest while shutting down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(141)  # as shells report a program ended by SIGPIPE
        sys.exit(f"jobsight-agent: standard output cannot be written: {error.strerror}")


def _command(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="jobsight-agent", description="Measures this node for Jobsight.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="read this node's counters and push the readings until stopped")
    _add_options(run, [option.name for option in OPTIONS])
    for name, event in _HOOKS.items():
        hook = commands.add_parser(name, help=f"take a reading at the {event} of a job, in its prologue or epilogue")
        hook.add_argument("job", help="the job's id, as the accounting log writes it")
        hook.add_argument(
            "--strict", action="store_true", help="exit with status 1 if the reading could not be taken or stored"
        )
        _add_options(hook, _HOOK_OPTIONS)
    for name, what in {"status": "show spooled batches, rejected batches and problems", "resend": _RESEND}.items():
        _add_options(commands.add_parser(name, help=what), ["spool"])
    replay = commands.add_parser("replay", help="emulate a whole site, with jobs and accounting files")
    if arguments[:1] == ["replay"]:
        return _replay(parser, replay, arguments)
    args = parser.parse_args(arguments)
    try:
        config = load_config(args.config, vars(args))
    except ConfigError as error:
        print(f"jobsight-agent {args.command}: {error}", file=sys.stderr)
        return 2 if args.command not in _HOOKS or args.strict else 0
    if args.command == "run":
        return _run(config)
    if args.command in ("status", "resend"):
        from jobsight_agent import operate

        _act_as_owner(Path(config.spool))
        return {"status": operate.status, "resend": operate.resend}[args.command](Path(config.spool))
    return _mark(config, args.job, _HOOKS[args.command], strict=args.strict)


def _add_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration (TOML)")
    for option in OPTIONS:
        if option.name in names:
            default = f" (default: {option.default})" if option.default not in ("", (), PATTERNS) else ""
            parser.add_argument(option.flag, metavar=_metavar(option), help=option.help + default)


def _metavar(option: Option) -> str:
    """Return the metavar: the kind of value, or its unit."""
    for ending, shown in _METAVARS.items():
        if option.name.endswith(ending):
            return shown
    return {int: "COUNT", float: "NUMBER", tuple: "NAME,NAME"}.get(type(option.default), "NAME")


def _replay(parser: argparse.ArgumentParser, replay: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Run the emulator, which the package for nodes omits."""
    try:
        from jobsight_emulator.cli import add_arguments, run
    except ModuleNotFoundError as error:
        if error.name != "jobsight_emulator":
            raise
        print(
            "jobsight-agent replay: the emulator is not part of the agent's package; "
            "`pip install .` in a checkout of Jobsight installs both",
            file=sys.stderr,
        )
        return 1
    add_arguments(replay)
    return run(parser.parse_args(arguments))


def _act_as_owner(spool: Path) -> None:
    """Switch from root to the owner of the spool, who may have left links there.

    Raises:
        OSError: root may not become another user here.
    """
    if os.geteuid() != 0 or not spool.exists() or (owner := spool.stat()).st_uid == 0:
        return
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def _run(config: Config) -> int:
    import signal

    from jobsight_agent.agent import Agent
    from jobsight_agent.send import TargetError
    from jobsight_agent.spool import SpoolError

    if not config.server or not config.token_file:
        print("jobsight-agent run: give --server URL and --token-file FILE, or both in --config", file=sys.stderr)
        return 2
    # Signals are blocked and waited for: no handler interrupts anything, and the wait is the pause between readings.
    stopping = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    try:
        _act_as_owner(Path(config.spool))
        Agent(config).run(lambda seconds: signal.sigtimedwait(stopping, seconds) is not None)
    except (SpoolError, TargetError, OSError) as error:
        print(f"jobsight-agent run: {error}", file=sys.stderr)
        return 1
    return 0


def _mark(config: Config, job: str, event: str, *, strict: bool) -> int:
    """Let the agent take the reading, or take it and leave it as a file. The job must run even if this fails:
    only ``--strict`` changes the exit status."""
    from jobsight_agent.control import ask
    from jobsight_agent.counters import make_reader
    from jobsight_agent.hooks import checked_mark, leave, mark_request

    try:
        _act_as_owner(Path(config.spool))
        mark = checked_mark(job, event)
        with suppress(OSError):  # no agent is running
            if ask(Path(config.spool), mark_request(mark), seconds=1.0) == "ok":
                return 0
        leave(Path(config.spool) / "marks", make_reader(config).read(mark))
    except (OSError, ValueError) as error:
        print(f"jobsight-agent: no reading at the {event} of job {job[:80]!r}: {error}", file=sys.stderr)
        return 1 if strict else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
