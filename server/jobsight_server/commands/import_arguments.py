"""``jobsight import``: its arguments, which are declared without what an import needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from jobsight_server.command_line.arguments import add_settings
from jobsight_server.command_line.help_text import HelpParser
from jobsight_server.settings.declared import ACCOUNTING_FORMATS

PARSE = HelpParser.parse_intermixed_args
"""Options may stand between the format and the files."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="[FORMAT] FILE",
        help=f"accounting files, plain or gzip; their format may come first: {', '.join(ACCOUNTING_FORMATS)} "
        "(default: guessed from each file)",
    )
    act = parser.add_mutually_exclusive_group()
    act.add_argument("--list", action="store_true", help="list the files read by imports and servers")
    forget = "withdraw the files: remove their runs and counts, and retrain"
    act.add_argument("--forget", action="store_true", help=forget)
    parser.add_argument("--cluster", metavar="NAME", help="cluster of the files (default: the only one "
                        "known; for --list all)")  # fmt: skip
    parser.add_argument(
        "--user", metavar="NAME", help="user of the tasks in nextflow and snakemake files (default: each file's owner)"
    )
    parser.add_argument(
        "--application", metavar="NAME", help="rule of snakemake files without one (default: by folder or file)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings(parser, "database", "clusters", "coverage", "profile_grace_s")


def run(args: argparse.Namespace) -> int:
    from jobsight_server.commands.import_logs import run_import  # half a second of modules, which --help saves

    return run_import(args)
