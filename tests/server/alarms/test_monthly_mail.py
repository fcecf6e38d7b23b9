"""The monthly mail: to those who waste, with a line that is right, once a month."""

from __future__ import annotations

from email import message_from_string
from email.policy import default
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine
from tests.server.savings.runs import GIB, NOON, ended, learn, write

from jobsight_server.alarms.monthly import send_due
from jobsight_server.amounts import memory_text
from jobsight_server.cli import main
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.settings import AccountingSource, Settings
from jobsight_server.settings.alarms import Mail, MonthlyMail

from .receivers import mail_relay

DAY_S = 86400.0
NOVEMBER = 1_795_000_000.0  # 2026-11-18


@pytest.fixture
def wasteful(engine: Engine) -> Engine:
    """ann uses 2 of 8 GiB, bob 7, and a user whose name is no address 2."""
    rows = []
    for number in range(40):
        at = {"start": NOON + 7200 * number, "end": NOON + 7200 * number + 3600}
        rows.append(ended(3 * number, user="ann", used_memory_bytes=2 * GIB + number * 2**20, **at))
        rows.append(ended(3 * number + 1, user="bob", used_memory_bytes=7 * GIB, **at))
        rows.append(ended(3 * number + 2, user="x@evil.example,y", used_memory_bytes=2 * GIB, **at))
    write(engine, rows)
    learn(engine)
    return engine


def test_once_a_month_to_those_who_waste_with_the_line_to_paste(wasteful: Engine) -> None:
    with mail_relay() as relay:
        source = AccountingSource("alpha", Path("/a"), format="slurm")
        mail = Mail(f"127.0.0.1:{relay.port}", "jobsight@example.org")
        settings = Settings(mail=mail, monthly_mail=MonthlyMail("example.org"), accounting=(source,))
        reader = AnswerReader(wasteful, forecast_config(settings))
        assert send_due(wasteful, reader, Settings(mail=mail), NOVEMBER) == (0, 0), "opt-in"
        without = replace(settings, monthly_mail=MonthlyMail("example.org", unsubscribed=("ann",)))
        assert send_due(wasteful, reader, without, NOVEMBER) == (0, 0)
        away = replace(settings, mail=Mail("127.0.0.1:1"))
        assert send_due(wasteful, reader, away, NOVEMBER) == (0, 1), "and is tried again"
        assert send_due(wasteful, reader, settings, NOVEMBER) == (1, 0)
        assert send_due(wasteful, reader, settings, NOVEMBER + 3 * DAY_S) == (0, 0)
        assert send_due(wasteful, reader, settings, NOVEMBER + 20 * DAY_S) == (1, 0), "December"
        assert [recipients for _, recipients, _ in relay.mails] == [["ann@example.org"]] * 2
        text = message_from_string(relay.mails[0][2], policy=default).get_content()
    (line,) = [line.strip() for line in text.splitlines() if "#SBATCH" in line]
    per_processor = int(line.removeprefix("#SBATCH --mem-per-cpu=").removesuffix("M"))
    assert f"requested {memory_text(8 * GIB)} and should request" in text
    assert "bob" not in text
    used = 2 * 1024
    assert any(used < per_processor * processors < 2 * used for processors in (1, 2, 4)), line


def test_a_dry_run_prints_and_sends_nothing(
    wasteful: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "jobsight.toml"
    relay = '[mail]\nrelay = "127.0.0.1:1"\n'
    file.write_text(f"{relay}[monthly_mail]\ndomain = 'example.org'\n")
    url = wasteful.url.render_as_string(hide_password=False)
    for _ in range(2):
        assert main(["mail", "--dry-run", "--config", str(file), "--database", url]) == 0
        printed = capsys.readouterr().out
        assert "To: ann@example.org" in printed
        assert printed.endswith("1 mails are due\n")
