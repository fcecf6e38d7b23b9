"""``jobsight report``: what a log shows, as one page and as text, by a database that is removed again."""

from __future__ import annotations

import argparse
import math
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from sqlalchemy import event

from jobsight_server.advice.words import SCHEDULERS
from jobsight_server.command_line.databases import own_words
from jobsight_server.command_line.help_text import HelpParser
from jobsight_server.command_line.tables import table_of
from jobsight_server.command_line.terminal import Terminal
from jobsight_server.commands.import_logs import format_of, import_shown, learn_shown, split_format
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.ground.amounts import many
from jobsight_server.ground.errors import UserError
from jobsight_server.mail.letters import letters
from jobsight_server.profiler.ready import Own
from jobsight_server.queries.report import Report, report
from jobsight_server.settings.declared import ACCOUNTING_FORMATS, AccountingFormat, Settings
from jobsight_server.storage.clusters import listed
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.named_files import check_output, copied, other_kind, whole_file
from jobsight_server.upgrade.migrate import upgrade
from jobsight_server.web.document import MADE_BY, DocumentAnswer, DocumentSection, DocumentTable, page_of
from jobsight_server.web.report import heading, sections

PARSE = HelpParser.parse_intermixed_args
"""Options may stand between the files."""

_CLUSTER = "log"
_STANDARD_INPUT = Path("-")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,200}")
_HEAD_BYTES = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="[FORMAT] LOG",
        help="accounting files, plain or gzip, directories of them, - for standard input; their format may come "
        f"first: {', '.join(ACCOUNTING_FORMATS)} (default: guessed from each file)",
    )
    parser.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE", help="write the page to "
                        "this file, replacing an earlier report (default: report.html)")  # fmt: skip
    parser.add_argument("--node-hour", type=float, metavar="PRICE", help="price of a node for an hour, such "
                        "as 0.9, to price what is freed")  # fmt: skip
    parser.add_argument("--mail-dir", type=Path, metavar="DIR", help="write what to write to each user into a file of "
                        "this directory")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    named = args.files[1:] if len(args.files) > 1 and str(args.files[0]) in ACCOUNTING_FORMATS else args.files
    log = listed(map(_name, named))
    args.files, in_directories = _files_in(args.files, args.output)
    _check_output(args.output, args.files)
    if args.node_hour is not None and not 0.0 < args.node_hour < math.inf:
        raise UserError(f"--node-hour {args.node_hour} is not a price above 0, such as 0.9")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with TemporaryDirectory(prefix="jobsight-report-") as place:
        try:
            args.files = [_stored(file, Path(place) / f"{number}") for number, file in enumerate(args.files)]
            split_format(args)
            formats = _formats(args, in_directories)
            found, unreadable = _report(Path(place), args, formats)
        except UserError as error:
            raise UserError(re.sub(rf"{re.escape(place)}/(\d+/)?", "", str(error))) from error
    known = [name for name in formats if name in SCHEDULERS]
    scheduler = {"pbspro": "pbs"}.get(known[0], known[0]) if len(known) == 1 else "SCHEDULER"
    texts, title = letters(found), heading(found, log)
    parts = sections(found, scheduler, texts)
    replaced = ", which replaces the one before" if args.output.exists() else ""
    with whole_file(args.output) as unfinished:
        unfinished.write_text(page_of(title, parts))
    _show(title, parts, Terminal(highlight=False, markup=False, emoji=False))
    print(f"\nThe same as a page: {args.output}{replaced}")
    if args.mail_dir is not None:
        _write_texts(args.mail_dir, texts)
    for file, cause in unreadable.items():
        print(f"jobsight report: unreadable: {Path(file).name}: {cause}", file=sys.stderr)
    return 1 if unreadable else 0


def _check_output(output: Path, files: Sequence[Path]) -> None:
    """Check now what would otherwise fail after minutes."""
    check_output(output, "--output")
    if any(output.resolve() == file.resolve() for file in files):
        raise UserError(f"--output {output}: the report would replace this log; name another file")
    if output.exists() and MADE_BY.encode() not in output.read_bytes()[:_HEAD_BYTES]:
        raise UserError(f"--output {output}: this file is not a report and would be replaced; name another file")


def _name(file: Path) -> str:
    return (
        "standard input"
        if file == _STANDARD_INPUT
        else "a pipe"
        if other_kind(file) == "a pipe"
        else file.resolve().name
    )


def _write_texts(directory: Path, texts: Mapping[str, str]) -> None:
    """Write the text to each user into a file of the user's name; names that are no file's are left out."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--mail-dir {directory}: {error.strerror}; name a directory to create, or one of yours"
        ) from error
    named = {user: text for user, text in texts.items() if _FILE_NAME.fullmatch(user)}
    for user, text in named.items():
        with whole_file(directory / f"{user}.txt") as unfinished:
            unfinished.write_text(f"{text}\n")
    left = len(texts) - len(named)
    print(
        f"{many(len(named), 'text')} in {directory}" + (f"; {many(left, 'user')} without a usable name" if left else "")
    )


def _leave(number: int, _frame: FrameType | None) -> None:
    """End on a signal by an exception: ending at once would leave the database behind."""
    sys.exit(128 + number)


def _files_in(named: Sequence[Path], output: Path) -> tuple[list[Path], set[Path]]:
    """Return the files, with those of directories in their place, and the latter, of which some may be no logs.

    Raises:
        UserError: a directory has no files.
    """
    of: dict[Path, list[Path]] = {}
    for place in named:
        if place.is_dir():
            inside = sorted(file for file in place.iterdir() if file.is_file() and not file.name.startswith("."))
            of[place] = [file for file in inside if file.resolve() != output.resolve()]
            if not of[place]:
                raise UserError(f"{place}: this directory has no files; name one with accounting files")
    files = [file for place in named for file in of.get(place, [place])]
    return files, set(files) - set(named)


def _formats(args: argparse.Namespace, in_directories: set[Path]) -> set[AccountingFormat | None]:
    found = set()
    for file in args.files:
        try:
            found.add(format_of(file, args.format))
        except UserError:
            if file not in in_directories:  # else the import reports it
                raise
    return found


def _stored(file: Path, place: Path) -> Path:
    """Return the file; of standard input or a pipe a copy below ``place``: formats are guessed by reading twice."""
    if file != _STANDARD_INPUT and other_kind(file) is None:
        return file
    if file == _STANDARD_INPUT and sys.stdin is None:
        raise UserError("standard input is closed: pipe a log into it, or name a file")
    place.mkdir()
    try:
        if file != _STANDARD_INPUT:
            return copied(file, place / file.name)
        with (place / "standard input").open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        return place / "standard input"
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


def _report(
    place: Path, args: argparse.Namespace, formats: set[AccountingFormat | None]
) -> tuple[Report, Mapping[str, str]]:
    """Import and learn the files; return the report, and files that could not be read to their end, with the cause.

    Raises:
        UserError: no job in them has ended.
    """
    url, settings = f"sqlite:///{place / 'report.db'}", Settings()
    config = replace(forecast_config(settings), requests_only=True)
    schedulers = {SCHEDULERS.get(name or "") for name in formats}
    engine = open_engine(url)
    event.listen(engine, "connect", _without_waiting_for_the_disk)
    try:
        with own_words(url):
            upgrade(engine)
            imported = import_shown(engine, args.files, _CLUSTER, args.format)
            learn_shown(engine, config, settings, Own(_CLUSTER, imported.figures.runs), len(imported.figures.ended))
            scheduler = schedulers.pop() if len(schedulers) == 1 else None
            with engine.connect().execution_options(reading=True) as connection:
                found = report(connection, AnswerReader(config), scheduler, args.node_hour, time.time())
    finally:
        engine.dispose()
    if found is None:
        why = [f"{number} {reason}" for reason, number in imported.figures.rejected.most_common(3)]
        why += [f"{Path(file).name}: {cause}" for file, cause in imported.taken_in.unreadable.items()]
        raise UserError(
            f"no job has ended in {listed(file.name for file in args.files)}{': ' if why else ''}{'; '.join(why)}"
        )
    return found, imported.taken_in.unreadable


def _without_waiting_for_the_disk(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")  # the database does not outlive the process


def _show(title: str, parts: Sequence[DocumentSection], console: Console) -> None:
    """Print what the page shows; names as Text, because they may look like one of rich's tags."""
    console.print(Text(title, style="bold"))
    for section in parts:
        console.print(Text(f"\n{section.title}".rstrip(), style="bold"))
        for block in section.blocks:
            if isinstance(block, str):
                console.print(Text(block))
            elif isinstance(block, DocumentAnswer):
                console.print(Text(f"{block.title}: {block.figure} {block.unit}".rstrip(), style="bold"))
                console.print(Text(f"{block.detail}\n"))
            elif isinstance(block, DocumentTable):
                table = table_of(block.heads[: block.names], block.heads[block.names :])
                for row in block.rows:
                    table.add_row(*map(Text, row))
                if console.measure(table).maximum >= console.width:  # numbers break at words, and leave the rest room
                    columns = zip(table.columns, zip(block.heads, *block.rows, strict=True), strict=True)
                    for column, cells in [*columns][block.names :]:
                        column.max_width = max(len(word) for cell in cells for word in cell.split())
                console.print(table)
            else:
                if block.title:
                    console.print(Text(block.title, style="bold"))
                for line in block.text.splitlines():
                    is_pasted = line.startswith(" ") or not block.title
                    console.print(Text(line) if is_pasted else Padding(Text(line), (0, 0, 0, 2)), soft_wrap=is_pasted)
                console.print()
