"""``jobsight mail``: the weekly mail to users whose jobs leave most of their memory unused, and to administrators."""

from __future__ import annotations

import argparse
import time

from jobsight_server.command_line.arguments import add_settings, settings_of
from jobsight_server.command_line.databases import open_existing
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.ground.errors import UserError
from jobsight_server.mail.weekly import DueMail, due_mails, preview, send_due
from jobsight_server.systems.listed import rated_machines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument("--dry-run", action="store_true", help="print the due mails without sending them")
    parser.add_argument("--preview", metavar="USER", help="print the mail that this user would get; needs no setting")


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    if args.preview is None and not settings.weekly_mail.domain and not settings.weekly_mail.admins:
        raise UserError("no weekly mail: write a table [weekly_mail] with domain or admins into the settings file")
    engine = open_existing(args)
    try:
        reader = AnswerReader(forecast_config(settings))
        machines = rated_machines(settings)
        if args.preview is not None:
            with engine.connect().execution_options(reading=True) as connection:
                mail = preview(connection, reader, settings, args.preview, time.time())
            print(f"{args.preview}: no mail, because no smaller request is known" if mail is None else _shown(mail))
            return 0
        if not args.dry_run:
            sent, failed = send_due(engine, reader, settings, time.time(), machines)
            print(f"{sent} mails sent, {failed} failed")
            return 1 if failed else 0
        with engine.connect().execution_options(reading=True) as connection:
            due = list(due_mails(connection, reader, settings, time.time(), machines))
        for mail in due:
            print(_shown(mail))
        print(f"{len(due)} mails are due")
    finally:
        engine.dispose()
    return 0


def _shown(mail: DueMail) -> str:
    return f"To: {mail.address}\nSubject: {mail.subject}\n\n{mail.text}"
