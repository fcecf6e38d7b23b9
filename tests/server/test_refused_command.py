"""``jobsight refused`` lists what was refused and gives back quarantined bodies, without commanding the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import insert

from jobsight_server.cli import main
from jobsight_server.storage import schema
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.migrate import upgrade


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'jobsight.db'}"
    engine = open_engine(url)
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(
            insert(schema.quarantine).values(
                received_at=1.0, cluster=None, node="\x1b[31mred", reason="not JSON", bytes=3, body=b"\xff\x00\x01"
            )
        )
        connection.execute(
            insert(schema.accounting_rejects).values(
                cluster="alpha", path="/log/20110908", line=3, reason="cut", text="a\rb"
            )
        )
    engine.dispose()
    return url


def test_it_lists_without_control_characters(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refused", "--database", url]) == 0
    shown = capsys.readouterr().out
    assert "-/\\x1b[31mred  3 bytes: not JSON" in shown
    assert "alpha /log/20110908:3: cut: a\\rb" in shown
    assert not set(shown) & {"\x1b", "\r"}


def test_it_gives_json_and_bodies(url: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["refused", "--database", url, "--json"]) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found["quarantine"][0]["node"] == "\x1b[31mred"
    assert "body" not in found["quarantine"][0]
    assert main(["refused", "--database", url, "--body", str(found["quarantine"][0]["id"])]) == 0
    assert capfdbinary.readouterr().out == b"\xff\x00\x01"
    assert main(["refused", "--database", url, "--body", "99"]) == 1
    assert b"99" in capfdbinary.readouterr().err
