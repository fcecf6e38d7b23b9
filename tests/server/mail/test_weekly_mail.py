"""The weekly mail: to users who waste, with a correct line; to administrators; within a total deadline."""

from __future__ import annotations

import re
import time
from email import message_from_string
from email.policy import default
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, insert
from tests import make
from tests.make import Jobsight
from tests.server.mail.relays import dripping_relay, mail_relay
from tests.server.savings.runs import GIB, NOON, ended, learn, write

from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.ground.amounts import memory_text
from jobsight_server.mail.send import DeliveryError, send_mail
from jobsight_server.mail.weekly import send_due, soon_out
from jobsight_server.queries.running import Foreseen
from jobsight_server.settings.declared import AccountingSource, Settings
from jobsight_server.settings.tables import Mail, WeeklyMail
from jobsight_server.storage import schema

DAY_S = 86400.0
WEDNESDAY = 1_795_000_000.0  # 2026-11-18


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


def test_once_a_week_to_those_who_waste_with_the_line_to_paste(wasteful: Engine) -> None:
    with mail_relay() as relay:
        source = AccountingSource("alpha", Path("/a"), format="slurm")
        mail = Mail(f"127.0.0.1:{relay.port}", "jobsight@example.org")
        settings = Settings(mail=mail, weekly_mail=WeeklyMail("example.org"), accounting=(source,))
        reader = AnswerReader(forecast_config(settings))
        assert send_due(wasteful, reader, Settings(mail=mail), WEDNESDAY) == (0, 0), "opt-in"
        without = replace(settings, weekly_mail=WeeklyMail("example.org", unsubscribed=("ann",)))
        assert send_due(wasteful, reader, without, WEDNESDAY) == (0, 0)
        away = replace(settings, mail=Mail("127.0.0.1:1"))
        assert send_due(wasteful, reader, away, WEDNESDAY) == (0, 1), "and is tried again"
        assert send_due(wasteful, reader, settings, WEDNESDAY) == (1, 0)
        assert send_due(wasteful, reader, settings, WEDNESDAY + 3 * DAY_S) == (0, 0)
        assert send_due(wasteful, reader, settings, WEDNESDAY + 6 * DAY_S) == (1, 0), "the next week"
        assert [recipients for _, recipients, _ in relay.mails] == [["ann@example.org"]] * 2
        text = message_from_string(relay.mails[0][2], policy=default).get_content()
    (line,) = [line.strip() for line in text.splitlines() if "#SBATCH" in line]
    mib = int(line.removeprefix("#SBATCH --mem=").removesuffix("M"))
    assert f"requested {memory_text(8 * GIB)} and should request" in text
    assert "bob" not in text
    used = 2 * 1024
    assert used < mib < 2 * used


def test_a_dry_run_prints_and_sends_nothing(wasteful: Engine, tmp_path: Path, jobsight: Jobsight) -> None:
    file = tmp_path / "jobsight.toml"
    relay = '[mail]\nrelay = "127.0.0.1:1"\n'
    file.write_text(f"{relay}[weekly_mail]\ndomain = 'example.org'\n")
    for _ in range(2):
        printed = jobsight("mail", "--dry-run", "--config", file, on=wasteful).out
        assert "To: ann@example.org" in printed
        assert printed.endswith("1 mails are due\n")
    (of_ann,) = re.findall(r"(To: ann.*?administrators\.)", printed, re.DOTALL)
    for user, says in (("ann", of_ann.replace("example.org", "DOMAIN")), ("eve", "eve: no mail, because no smaller")):
        assert says in jobsight("mail", "--preview", user, on=wasteful).out
    assert "waited" not in of_ann


@pytest.mark.parametrize(("followed", "beyond_s", "lines"), [(True, 0.0, 5), (False, 0.0, 0), (True, 30 * DAY_S, 0)])
def test_a_user_reads_of_five_jobs_that_run_out_and_only_of_running_ones(
    wasteful: Engine, jobsight: Jobsight, followed: bool, beyond_s: float, lines: int
) -> None:
    """The last runs of an old import have no end either; nor has a run whose end was not logged."""
    now = time.time()
    with wasteful.begin() as connection:
        for number in range(9000, 9008):
            running = ended(number, user="ann", start=now - 3500 - beyond_s, requested_walltime_s=3600.0)
            row = running | {"end": None, "profiled": False, "state": "running"}
            connection.execute(insert(schema.jobs).values(row))
        if followed:
            make.follow(connection)
    printed = jobsight("mail", "--preview", "ann", on=wasteful).out
    assert printed.count("runs out of time") == lines
    assert ("And 3 more." in printed) == (lines > 0)


def test_administrators_read_the_findings_once_a_week(wasteful: Engine) -> None:
    """A silent node and a job at its limit; the job's owner, who also wastes memory, reads of the job."""
    with wasteful.begin() as connection:
        make.node(connection, "n<1>\n")
        running = ended(9000, user="ann", state="running", start=WEDNESDAY - 3500, requested_walltime_s=3600.0)
        connection.execute(insert(schema.jobs).values(running | {"end": None, "profiled": False}))
        make.follow(connection)
    with mail_relay() as relay:
        mail = Mail(f"127.0.0.1:{relay.port}", "jobsight@example.org")
        settings = Settings(mail=mail, weekly_mail=WeeklyMail("example.org", admins=("ops@example.org",)))
        reader = AnswerReader(forecast_config(settings))
        assert send_due(wasteful, reader, settings, WEDNESDAY) == (2, 0)
        assert send_due(wasteful, reader, settings, WEDNESDAY + DAY_S) == (0, 0)
        texts = {to[0]: message_from_string(text, policy=default).get_content() for _, to, text in relay.mails}
    wrong = texts["ops@example.org"].splitlines()
    assert "- 1 node silent, with 0 jobs stranded there: n<1>?." in wrong
    assert "  See whether each is down: restart its agent, or drain it and requeue its jobs." in wrong
    assert any(line.startswith("- Lower memory for ") for line in wrong)
    assert "of ann on alpha runs out of time" in texts["ann@example.org"]


def test_a_job_over_a_limit_that_nothing_enforces_has_run_out() -> None:
    over = Foreseen("alpha", "7.s", "ann", "cfd", "time", 12_600.0, None, 3600.0, 1.0, 1.0, 0.0)
    assert soon_out(over).endswith("is over its limit of time for 2 h 30 min, which the scheduler has not enforced")
    memory = replace(over, resource="memory", used=3.0 * GIB, limit=2.0 * GIB)
    assert soon_out(memory).endswith("is over its limit of memory, which the scheduler has not enforced")


def test_nothing_wrong_is_no_mail(engine: Engine) -> None:
    settings = Settings(mail=Mail("127.0.0.1:1"), weekly_mail=WeeklyMail(admins=("ops@example.org",)))
    assert send_due(engine, AnswerReader(forecast_config(settings)), settings, WEDNESDAY) == (0, 0)


@pytest.mark.parametrize("address", ["ops", "ops@a, b@c", "a@b\nBcc: x@y", "<a@b>", ""])
def test_an_administrator_is_one_address(address: str) -> None:
    with pytest.raises(ValueError, match="expected an address"):
        WeeklyMail(admins=(address,))


@pytest.mark.parametrize("stage", ["greeting", "EHLO", "MAIL", "RCPT", "DATA", "TEXT"])
def test_a_relay_that_drips_is_cut_off_at_a_total_deadline(stage: str) -> None:
    """Each byte is in time for the socket's own timeout."""
    with dripping_relay(stage, 0.2) as port:
        began = time.monotonic()
        with pytest.raises(DeliveryError, match="timeout"):
            send_mail(Mail(f"127.0.0.1:{port}"), ["ops@example.org"], "x", "y\n" * 100, within_s=1.0)
        assert 0.9 < time.monotonic() - began < 10.0


def test_a_relay_that_drips_its_farewell_has_the_mail() -> None:
    with dripping_relay("QUIT", 0.2) as port:
        send_mail(Mail(f"127.0.0.1:{port}"), ["ops@example.org"], "x", "y", within_s=1.0)
