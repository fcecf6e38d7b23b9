"""``jobsight quarantine``: lists rejected data, prints bodies without control of the terminal, retries."""

from __future__ import annotations

import gzip
import json

import pytest
from sqlalchemy import Engine, insert
from tests.make import output_of

from jobsight_server.cli import main
from jobsight_server.storage import schema


@pytest.fixture
def url(sqlite_engine: Engine) -> str:
    about = {"received_at": 1.0, "node": "\x1b[31mred", "reason": "not JSON"}
    reject = {"cluster": "alpha", "path": "/log/20110908", "line": 3, "reason": "cut", "text": "a\rb"}
    with sqlite_engine.begin() as connection:
        for body in (b"\xff\x00\x01", gzip.compress(b'{"node": "\x1b[31m"}')):
            connection.execute(insert(schema.quarantine).values(**about, bytes=len(body), body=body))
        connection.execute(insert(schema.accounting_rejects).values(reject))
    return f"{sqlite_engine.url}"


@pytest.mark.parametrize("action", [[], ["list"]])
def test_it_lists_without_control_characters(url: str, capsys: pytest.CaptureFixture[str], action: list[str]) -> None:
    shown = output_of(main, capsys, "quarantine", *action, "--database", url)
    assert "1970-01-01 00:00:01  -/\\x1b[31mred  3 bytes: not JSON" in shown
    assert "2 kept (" in shown
    assert "alpha /log/20110908:3: cut: a\\rb" in shown
    assert not set(shown) & {"\x1b", "\r"}


def test_it_gives_json_and_bodies(url: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["quarantine", "list", "--database", url, "--json"]) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found["quarantine"][0]["node"] == "\x1b[31mred"
    assert "body" not in found["quarantine"][0]
    assert main(["quarantine", "show", "1", "--body", "--database", url]) == 0
    assert capfdbinary.readouterr().out == b"\xff\x00\x01"
    assert main(["quarantine", "show", "2", "--database", url]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert '{"node": "\\x1b[31m"}' in shown
    assert "not JSON" in shown
    assert "\x1b" not in shown
    for action in ("show", "retry"):
        assert main(["quarantine", action, "99", "--database", url]) == 1
        assert b"quarantined batch 99: no such batch" in capfdbinary.readouterr().err


def test_without_a_server_batches_wait(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "retry", "--wait", "0", "--database", url]) == 1
    said = capsys.readouterr()
    assert said.out == "0 of 2 batches were accepted\n"
    assert "2 waiting: a server retries them while it runs" in said.err
    assert output_of(main, capsys, "quarantine", "--database", url).count("(waiting for a retry)") == 2


def test_nothing_to_retry_is_no_failure(sqlite_engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{sqlite_engine.url}"
    assert "the quarantine is empty" in output_of(main, capsys, "quarantine", "retry", "--database", url)
    assert output_of(main, capsys, "quarantine", "--database", url).startswith("nothing was rejected\n")


@pytest.mark.parametrize("option", [["show"], ["retry"], ["list", "--limit"]])
def test_a_number_that_the_database_cannot_hold_is_named(
    url: str, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["quarantine", *option, f"{2**63}", "--database", url])
    assert "'9223372036854775808' is not a whole number of at most 18 digits" in capsys.readouterr().err
