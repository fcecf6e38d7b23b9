"""Matches and offers through the whole server: a kill loses nothing acknowledged, and holds and sells nothing twice."""

from __future__ import annotations

import threading
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests import make
from tests.held import over_capacity

from jobsight_server.storage.engine import open_engine
from site_run import wait_until

SLOTS = 40
SERVER = {"type": "compute", "capacities": {"slots": {"total": SLOTS}}, "static": True}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_server_keeps_every_match_and_every_queued_job(tmp_path: Path) -> None:
    site = make.site(tmp_path / "site", "--query-workers", "2")
    engine = open_engine(site.database)
    acknowledged: dict[int, str] = {}
    queued: dict[int, str] = {}
    faults: list[str] = []

    def send(start: int) -> None:
        """Batches and queued jobs until the server is gone."""
        for n in range(start, start + 1000):
            try:
                jobs = [make.to_match(f"m{n}.{k}", 1 + k % 2, count=1 + n % 2, duration_s=3600) for k in range(3)]
                found = site.ask("POST", "matches", {"jobs": jobs})["matches"]
                acknowledged.update({match["id"]: match["job"] for match in found})
                found = site.ask("POST", "matches/queue", {"jobs": [make.to_match(f"q{n}", duration_s=3600)]})["queued"]
                queued.update({entry["id"]: entry["job"] for entry in found})
                if n % 5 == 0:
                    done = list(acknowledged)[-2:]
                    for number in done:
                        acknowledged.pop(number, None)
                    site.ask("POST", "matches/release", {"ids": done})
            except urllib.error.HTTPError as error:
                if error.code != 503:  # the database of a busy machine
                    faults.append(f"{error.code}: {error.read()!r}")
            except OSError:
                return

    with site.serve():
        for name in ("c1", "c2"):
            site.ask("PUT", f"resources/{name}", SERVER)
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
        site.ask("POST", "matches/release", {"ids": held})
        # With everything released, the queue that survived is matched, without being asked.
        wait_until(lambda: site.ask("GET", "matches?state=queued")["total"] == 0, 180, site.log.read_text)
        assert over_capacity(engine, time.time()) == []
    engine.dispose()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_server_keeps_the_places_that_it_sold(tmp_path: Path) -> None:
    site = make.site(tmp_path / "site", "--offers-nodes", "alpha=4", "--offers-strategy", "release")
    deadline = time.time() + 10 * 3600
    wanted = {"cluster": "alpha", "user": "ada", "nodes": 3, "walltime_s": 3600, "deadline": deadline}

    def offer(**changed: Any) -> Any:
        return site.ask("POST", "offers", wanted | changed)["offer"]

    with site.serve():
        first, second = offer(), offer()
        assert second["latest_start"] >= first["latest_end"]
        site.ask("POST", f"offers/{first['id']}/confirm", {})
        site.kill()
    with site.serve():
        third = offer()
        assert third["latest_start"] >= second["latest_end"] - 1e-3
        states = [(row["id"], row["state"], row["latest_start"]) for row in site.api("plan")["jobs"]]
        sold = (first, "confirmed"), (second, "offered"), (third, "offered")
        assert states == [(of["id"], state, of["latest_start"]) for of, state in sold]
        site.ask("POST", f"offers/{first['id']}/ended", {"outcome": "finished"})
        # Half as long, since the hour before the second job has become shorter in the meantime.
        assert offer(walltime_s=1800)["latest_start"] < first["latest_end"]
