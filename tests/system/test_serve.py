"""`jobsight serve` as an operator meets it: start, stop, a crash of one role, a second one, wrong settings."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import make
from tests.make import not_none
from tests.processes import roles

from jobsight_server.cli import main
from site_run import JOBSIGHT, Site, wait_until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server of its own, for tests that end it or one of its roles."""
    with serving(tmp_path) as site:
        yield site


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Site]:
    site = make.site(directory / "site", "--follow-interval-s", "0.1")
    with site.serve():
        yield site


def post(url: str, site: Site, sequence: int) -> int:
    now = time.time() - 3600 + 10 * sequence
    body = make.batch(sequence=sequence, time=[now, now + 1, now + 2, now + 3])
    headers = {"Authorization": f"Bearer {site.agent_token_file.read_text()}"}
    request = urllib.request.Request(f"{url}/api/v1/samples", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return int(response.status)


def test_a_role_that_dies_is_started_again(site: Site) -> None:
    before = roles(not_none(site.process).pid)
    assert post(site.ingest_url, site, 1) == 200
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)

    def back() -> bool:
        now = roles(not_none(site.process).pid)
        with contextlib.suppress(OSError):
            return (
                set(now) == set(before)
                and not set(now.values()) & set(before.values())
                and post(site.ingest_url, site, 2) == 200
            )
        return False

    def stored() -> bool:
        with contextlib.suppress(OSError):
            return site.counts()["samples_stored"] == 8
        return False

    for is_so in (back, stored):
        wait_until(is_so, 90, lambda: site.log.read_text()[-3000:])


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_writer_that_is_stopped_is_replaced(tmp_path: Path) -> None:
    """With less patience than a site has, so that it does not take a minute."""
    impatient = "from jobsight_server.serve import children; children.PATIENCE = 8"
    program = f"{impatient}; from jobsight_server.cli import main; raise SystemExit(main())"
    site = make.site(tmp_path / "site")
    site._command = [sys.executable, "-c", program, *site._command[len(JOBSIGHT) :]]
    with site.serve():
        pid = not_none(site.process).pid
        assert post(site.ingest_url, site, 1) == 200
        writer = roles(pid)["writer"]
        os.kill(writer, signal.SIGSTOP)

        def back() -> bool:
            with contextlib.suppress(OSError):
                return roles(pid).get("writer", writer) != writer and post(site.ingest_url, site, 2) == 200
            return False

        wait_until(back, 120, lambda: site.log.read_text()[-3000:])
        assert f"the writer, process {writer}, runs but does not answer: 8 looks in vain" in site.log.read_text()


def test_what_is_no_database_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.db").write_text(
        "This is no database, but quite long enough to be looked at as if it were one. " * 20
    )
    for command in (["token", "create", "--role", "agent", "--cluster", "alpha"], ["token", "list"]):
        assert main([*command, "--database", f"sqlite:///{tmp_path / 'x.db'}"]) == 1
        assert "file is not a database" in capsys.readouterr().err


def test_wrong_words_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--database", f"sqlite:///{tmp_path / 'x.db'}", "--accounting", "/var/spool"]) == 1
    assert "write CLUSTER=DIRECTORY" in capsys.readouterr().err
    assert main(["sreve"]) == 2
    assert "unknown command 'sreve'" in capsys.readouterr().err
