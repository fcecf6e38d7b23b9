"""How an experiment's command gives out what it found: plots, then JSON or tables."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from jobsight_server.errors import UserError

Account = Mapping[str, Any]


def add_outcome_arguments(parser: argparse.ArgumentParser) -> None:
    """``--json`` and ``--plot``."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw plots to this directory")


def check_outcome(args: argparse.Namespace) -> None:
    """Before the experiment runs.

    Raises:
        UserError: plots cannot be written where they are wanted.
    """
    if args.plot is not None and args.plot.exists() and not args.plot.is_dir():
        raise UserError(f"--plot {args.plot}: is a file; name a directory")


def give_out(account: Account, args: argparse.Namespace, plots: str, show: Callable[[Account, Console], None]) -> None:
    """Draws if asked for, by ``draw(account, directory)`` of the module ``plots``, which is loaded only then: loading
    takes half a second. Then prints JSON, or shows tables."""
    if args.plot is not None:
        importlib.import_module(plots).draw(account, args.plot)
        print(f"plots written to {args.plot}", file=sys.stderr)
    if args.json:
        print(json.dumps(account, indent=2))
    else:
        show(account, Console())
