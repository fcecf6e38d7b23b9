"""Matches through the whole server: when it is killed, nothing acknowledged is lost and nothing is held twice."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests import make
from tests.held import over_capacity

from jobsight_server.auth.tokens import create_token
from jobsight_server.storage.engine import open_engine
from site_run import Site, wait_until

SLOTS = 40
SERVER = {"type": "compute", "capacities": {"slots": {"total": SLOTS}}, "static": True}


def job(name: str, slots: int = 1, count: int = 1, duration_s: float = 3600) -> dict[str, Any]:
    need = {"name": "c", "type": "compute", "amounts": {"slots": slots}, "count": count}
    return {"name": name, "duration_s": duration_s, "dependencies": [need]}


def ask(site: Site, token: str, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{site.url}/api/v1/{path}", content, headers, method=method)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_server_keeps_every_match_and_every_queued_job(tmp_path: Path) -> None:
    site = make.site(tmp_path / "site", "--query-workers", "2")
    engine = open_engine(site.database)
    with engine.begin() as connection:
        _, token = create_token(connection, "admin", "test", time.time())
    acknowledged: dict[int, str] = {}
    queued: dict[int, str] = {}
    faults: list[str] = []

    def send(start: int) -> None:
        """Batches and queued jobs until the server is gone."""
        for n in range(start, start + 1000):
            try:
                jobs = [job(f"m{n}.{k}", 1 + k % 2, 1 + n % 2) for k in range(3)]
                found = ask(site, token, "POST", "matches", {"jobs": jobs})["matches"]
                acknowledged.update({match["id"]: match["job"] for match in found})
                found = ask(site, token, "POST", "matches/queue", {"jobs": [job(f"q{n}", 1)]})["queued"]
                queued.update({entry["id"]: entry["job"] for entry in found})
                if n % 5 == 0:
                    done = list(acknowledged)[-2:]
                    for number in done:
                        acknowledged.pop(number, None)
                    ask(site, token, "POST", "matches/release", {"ids": done})
            except urllib.error.HTTPError as error:
                if error.code != 503:  # the database of a busy machine
                    faults.append(f"{error.code}: {error.read()!r}")
            except OSError:
                return

    with site.serve():
        for name in ("c1", "c2"):
            ask(site, token, "PUT", f"resources/{name}", SERVER)
        senders = [threading.Thread(target=send, args=(start,)) for start in (0, 10_000)]
        for sender in senders:
            sender.start()
        wait_until(lambda: len(queued) >= 8, 180, site.log.read_text)
        site.kill()
        for sender in senders:
            sender.join()
    assert faults == []
    assert over_capacity(engine, time.time()) == []
    with site.serve():
        with engine.connect() as connection:
            rows = {row.id: row for row in connection.execute(text("SELECT id, name, state FROM matches"))}
        assert all(rows[number].name == name for number, name in {**acknowledged, **queued}.items())
        assert {rows[number].state for number in acknowledged} <= {"held"}
        held = [number for number, row in rows.items() if row.state == "held"]
        ask(site, token, "POST", "matches/release", {"ids": held})
        # With everything released, the queue that survived is matched, without being asked.
        wait_until(lambda: ask(site, token, "GET", "matches?state=queued")["total"] == 0, 180, site.log.read_text)
        assert over_capacity(engine, time.time()) == []
    engine.dispose()
