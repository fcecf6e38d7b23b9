"""Runs a whole site for minutes against a server of which a process is killed every minute.

    python benchmarks/soak.py [--minutes 20] [--nodes 1000] [--jobs 60] [--pages 10] [--kill-every 60]
    python benchmarks/soak.py --nodes 10000 --kill-every 0 --minutes 3

Each node is read every 10 s and sends three readings a batch. Readings are dated a day and an hour back, so that
batches are old enough to be merged when a writer starts. Retention ends two minutes and half a run after them, so that
the first ones are deleted while others come in; the server does this hourly, so it is done here instead. Jobs end,
questions are asked and open pages polled meanwhile. Ends with status 1 if anything acknowledged is missing or doubled,
a job is missing, or a process keeps growing. Ctrl-C ends it early and still checks.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import itertools
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil
from filled_server import Site, batch, free_address, wait_until
from rich.console import Console
from rich.progress import Progress
from sqlalchemy import text

from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.storage.upkeep import delete_old

READINGS, INTERVAL_S = 3, 10.0
BATCH_S = READINGS * INTERVAL_S
BACK_S = 25 * 3600.0  # age of the readings
LATEST_S = 120.0  # delay of a batch, by a kill, that retention allows
ROOM_BYTES = 60 * 2**20  # allowed growth of a process after its first minute
PAGES = ("now", "users", "nodes", "waste")


class BatchSender(threading.Thread):
    """Sends the batches of some nodes, each node's in order, each until acknowledged."""

    def __init__(self, site: Site, nodes: range, began: float, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.acknowledged = dict.fromkeys(nodes, 0)
        self.times: list[float] = []
        self.late_s, self.failed, self.refused = 0.0, 0, dict[int, str]()
        self._nodes, self._began, self._stop_sending = nodes, began, stop
        self._token = site.agent_token_file.read_text()
        self._address = site.ingest_url.removeprefix("http://")

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        for turn in itertools.count():
            for place, node in enumerate(self._nodes):
                due = self._began + turn * BATCH_S + place * BATCH_S / len(self._nodes)
                if self._stop_sending.wait(max(0.0, due - time.time())):
                    return
                self.late_s = max(self.late_s, time.time() - due)
                body = gzip.compress(batch_of(node, turn, self._began), 1)
                while not self._post(connection, body):
                    self.failed += 1
                    connection.close()
                    if self._stop_sending.wait(0.5):
                        return
                self.acknowledged[node] += 1

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> bool:
        began = time.perf_counter()
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Encoding": "gzip"}
            connection.request("POST", "/api/v1/samples", body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            return False
        if answer.status not in {200, 503}:
            self.refused[answer.status] = content[:300].decode(errors="replace")
        if answer.status == 200:
            self.times.append(time.perf_counter() - began)
        return answer.status == 200


def batch_of(node: int, sequence: int, began: float) -> bytes:
    index = range(sequence * READINGS, (sequence + 1) * READINGS)
    noise = random.Random(node * 1_000_003 + sequence)
    columns = {
        "bytes_in": [10**9 * i + noise.randrange(10**8) for i in index],
        "bytes_out": [10**8 * i + noise.randrange(10**7) for i in index],
        "memory_used_bytes": [2**33 + 4096 * noise.randrange(10**4) for i in index],
        "cpu_busy_s": [100.0 * i + noise.randrange(50) for i in index],
    }
    return batch("soak", f"n{node:05}", sequence, [began - BACK_S + i * INTERVAL_S for i in index], columns)


class UserLoad(threading.Thread):
    """Jobs that end, a question about each, and ``pages`` open pages, each polled every 3 s."""

    def __init__(self, site: Site, jobs_a_minute: int, pages: int, began: float, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.jobs, self.asked, self.failed = 0, 0, 0
        self._site, self._per_s, self._pages, self._began = site, jobs_a_minute / 60, pages, began
        self._stop_working = stop

    def run(self) -> None:
        polled = itertools.cycle(PAGES)
        for second in itertools.count():
            if self._stop_working.wait(max(0.0, self._began + second - time.time())):
                return
            while self.jobs < second * self._per_s:
                self._end_a_job()
            for _ in range(self._pages if second % 3 == 0 else 0):
                self._ask(next(polled))
            self._ask(f"users/u{second % 20}")

    def _end_a_job(self) -> None:
        end = int(time.time() - BACK_S)
        body = f"user=u{self.jobs % 20} group=g jobname=j queue=q ctime={end - 90} qtime={end - 90} etime={end - 90} "
        body += f"start={end - 60} owner=u@h exec_host=n{self.jobs % 100:05}/0 Resource_List.walltime=01:00:00"
        ended = f"{body} session=1 end={end} Exit_status=0 resources_used.cput=00:00:50 "
        ended += "resources_used.mem=1024kb resources_used.walltime=00:01:00"
        with (self._site.accounting / "soak" / "20261101").open("a") as file:
            stamp = "11/01/2026 00:00:01"
            file.write(f"{stamp};S;{self.jobs}.s;{body}\n{stamp};E;{self.jobs}.s;{ended}\n")
        self.jobs += 1

    def _ask(self, path: str) -> None:
        try:
            self._site.api(path)
            self.asked += 1
        except (OSError, http.client.HTTPException, ValueError):
            self.failed += 1


class Memory:
    """Resident memory of each process of the server, by role and process, and its CPU seconds by role."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.bytes: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        self.cpu_s: dict[tuple[str, int], float] = {}

    def look(self) -> list[psutil.Process]:
        """Take a reading; return the processes."""
        assert self._site.process is not None
        found = psutil.Process(self._site.process.pid).children(recursive=True)
        for process in found:
            with contextlib.suppress(psutil.Error):
                role = process.name().removeprefix("jobsight ")
                used = process.cpu_times()
                self.bytes[role, process.pid].append((time.time(), process.memory_info().rss))
                self.cpu_s[role, process.pid] = used.user + used.system
        return found

    def rows(self) -> list[tuple[str, float, float, float, bool]]:
        """Return role, minutes, largest MB, MB per minute after the first, and whether it keeps growing."""
        rows = []
        for (role, _), looks in sorted(self.bytes.items()):
            later = [(at, size) for at, size in looks if at >= looks[0][0] + 60]
            if len(later) < 6:
                continue
            minutes, sizes = (np.array(some, float) for some in zip(*later, strict=True))
            slope = float(np.polyfit((minutes - minutes[0]) / 60, sizes / 2**20, 1)[0])
            grows = bool(sizes[-1] > 1.5 * sizes[0] + ROOM_BYTES)
            rows.append((role, (looks[-1][0] - looks[0][0]) / 60, sizes.max() / 2**20, slope, grows))
        return rows


def soak(args: argparse.Namespace, directory: Path, console: Console) -> list[str]:
    """Run the site; return the faults."""
    settings = directory / "soak.toml"
    retention_s = BACK_S + LATEST_S + args.minutes * 30
    settings.write_text(f"retention_days = {retention_s / 86400}\nfollow_interval_s = 2\nprofile_grace_s = 5\n")
    site = Site(directory / "site", ["soak"], free_address(), ("--config", str(settings)))
    rng, stop, memory = random.Random(args.seed), threading.Event(), Memory(site)
    kills: list[str] = []
    upkeep = open_engine(site.database)
    with site.serve(), Progress(console=console) as progress:
        began = time.time()
        per = -(-args.nodes // args.senders)
        parts = [range(i, min(i + per, args.nodes)) for i in range(0, args.nodes, per)]
        senders = [BatchSender(site, part, began, stop) for part in parts]
        users = UserLoad(site, args.jobs, args.pages, began, stop)
        for thread in (*senders, users):
            thread.start()
        task = progress.add_task("soaking", total=args.minutes * 60)
        killed, until = began, began + args.minutes * 60
        with contextlib.suppress(KeyboardInterrupt):
            while (now := time.time()) < until:
                processes = memory.look()
                if args.kill_every and now > killed + args.kill_every:
                    victim, killed = rng.choice(processes), now
                    with contextlib.suppress(psutil.Error):
                        kills.append(victim.name())
                        victim.kill()
                progress.update(task, completed=now - began, description=f"soaking, {len(kills)} kills")
                delete_old(upkeep, time.time() - retention_s, stop)
                time.sleep(5)
        upkeep.dispose()
        seconds = time.time() - began
        stop.set()
        for thread in (*senders, users):
            thread.join(60)
        memory.look()
        wrong: list[str] = []
        try:
            wait_until(lambda: _settled(site, users.jobs), 40, lambda: str(site.api("now")["runs"]))
        except TimeoutError as error:
            wrong.append(f"{users.jobs} jobs ended: {error}")
    times = sorted(value for sender in senders for value in sender.times)
    batches = sum(sum(sender.acknowledged.values()) for sender in senders)
    console.print(f"{seconds / 60:.1f} minutes, {args.nodes} nodes, {batches} batches, {users.jobs} jobs, "
                  f"{users.asked} answers ({users.failed} failed), killed: {', '.join(kills) or 'none'}")  # fmt: skip
    if times:
        console.print(f"acknowledged p50 {statistics.median(times) * 1e3:.0f} ms, p99 "
                      f"{times[int(len(times) * 0.99)] * 1e3:.0f} ms; {sum(s.failed for s in senders)} tries failed; "
                      f"senders at most {max(s.late_s for s in senders):.1f} s late")  # fmt: skip
    for role in sorted({role for role, _ in memory.cpu_s}):
        used = sum(value for (name, _), value in memory.cpu_s.items() if name == role)
        console.print(f"{role}: {used / seconds * 100:.0f} % of a processor")
    for role, minutes, most, slope, grows in memory.rows():
        console.print(f"{role}: {minutes:.1f} minutes, at most {most:.0f} MB, {slope:+.2f} MB a minute")
        wrong += [f"{role} grew to {most:.0f} MB"] if grows else []
    wrong += [f"a batch was answered {status}: {why}" for s in senders for status, why in s.refused.items()]
    return wrong + check(site, senders, users, began, retention_s, console)


def _settled(site: Site, jobs: int) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return bool(site.settled(jobs))
    return False


def check(
    site: Site, senders: list[BatchSender], users: UserLoad, began: float, retention_s: float, console: Console
) -> list[str]:
    """Check the database against the acknowledged batches."""
    wrong: list[str] = []
    engine = open_engine(site.database, "read")
    kept = 0
    with engine.connect() as connection:
        ids = {row.name: row.id for row in connection.execute(text("SELECT name, id FROM nodes"))}
        stored_least = stored_most = 0
        for sender in senders:
            for node, acknowledged in sender.acknowledged.items():
                stored_least += acknowledged * READINGS
                stored_most += (acknowledged + 1) * READINGS
                if not acknowledged:
                    continue
                # Retention may have deleted old readings; all newer ones must be there.
                first = max(began - BACK_S, time.time() - retention_s)
                samples = read_samples(connection, ids[f"n{node:05}"], 0.0, 1e18)
                times = [began - BACK_S + i * INTERVAL_S for i in range(acknowledged * READINGS)]
                expected = {round(value, 3) for value in times if value > first}
                found = [round(float(value), 3) for value in samples.time]
                kept += len(found)
                if len(set(found)) < len(found) or not expected <= set(found):
                    wrong.append(f"node {node}: {len(expected - set(found))} readings are missing")
        count = connection.execute(text("SELECT value FROM event_counts WHERE name = 'samples_stored'")).scalar()
        if not stored_least <= (count or 0) <= stored_most:
            wrong.append(f"{count} readings were counted, {stored_least} to {stored_most} were acknowledged")
        jobs = connection.execute(text("SELECT count(*), count(DISTINCT job_id) FROM jobs")).one()
        if tuple(jobs) != (users.jobs, users.jobs):
            wrong.append(f"{jobs[0]} jobs are stored, {users.jobs} ended")
    engine.dispose()
    size = sum(file.stat().st_size for file in site.directory.glob("jobsight.db"))
    console.print(f"{count} readings stored, {kept} kept; database {size / 1e6:.1f} MB, "
                  f"{size / max(1, count or 0):.0f} bytes a reading")  # fmt: skip
    return wrong


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--minutes", type=float, default=20.0)
    made.add_argument("--nodes", type=int, default=1000)
    made.add_argument("--jobs", type=int, default=60, help="that end in a minute")
    made.add_argument("--pages", type=int, default=10, help="that are open")
    made.add_argument("--kill-every", type=float, default=60.0, help="seconds; 0 is never")
    made.add_argument("--senders", type=int, default=16, help="connections that the nodes share")
    made.add_argument("--seed", type=int, default=1)
    return made


def main() -> None:
    args, console = parser().parse_args(), Console()
    with tempfile.TemporaryDirectory() as directory:
        wrong = soak(args, Path(directory), console)
    for line in wrong[:20]:
        console.print(f"wrong: {line}")
    console.print("nothing lost, nothing doubled" if not wrong else f"{len(wrong)} faults")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
