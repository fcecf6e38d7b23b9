"""``jobsight mail``: the weekly mail to users whose jobs leave most of their memory unused, and to administrators."""

from __future__ import annotations

import argparse
import time

from jobsight_server.command_line.arguments import add_settings, open_existing, settings_of
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.mail.weekly import due_mails, send_due
from jobsight_server.storage.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, "database")
    parser.add_argument("--dry-run", action="store_true", help="print the due mails without sending them")


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    if not settings.weekly_mail.domain and not settings.weekly_mail.admins:
        raise UserError("no weekly mail: write a table [weekly_mail] with domain or admins into the settings file")
    engine = open_existing(args)
    try:
        reader = AnswerReader(engine, forecast_config(settings))
        if not args.dry_run:
            sent, failed = send_due(engine, reader, settings, time.time())
            print(f"{sent} mails sent, {failed} failed")
            return 1 if failed else 0
        with engine.connect().execution_options(reading=True) as connection:
            due = list(due_mails(connection, reader, settings, time.time()))
        for mail in due:
            print(f"To: {mail.address}\nSubject: {mail.subject}\n\n{mail.text}")
        print(f"{len(due)} mails are due")
    finally:
        engine.dispose()
    return 0
