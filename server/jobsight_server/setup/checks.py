"""What can be checked without a job: files, service, token, answers, nodes."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence

from jobsight_server.setup.finding import Finding
from jobsight_server.setup.manifest import Manifest
from jobsight_server.setup.places import Places
from jobsight_server.setup.plan import EDITED, SAME, Item, Placed, PlannedToken, state
from jobsight_server.setup.reporting import reporting_nodes
from jobsight_server.setup.run import succeeds
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup

LIMIT_S = 0.1


def checks(plan: Sequence[Item], scheduler: SchedulerSetup, places: Places) -> Iterator[Finding]:
    """Yields each finding as soon as it is made."""
    manifest = Manifest.load(places.manifest(scheduler.kind))
    for item in plan:
        if isinstance(item, Placed) and item.path != places.archive:
            found = state(item, manifest)
            todo = f"{found}: run `jobsight setup {scheduler.kind}`"
            yield Finding(f"{item.path}", found in (SAME, EDITED), todo)
    if places.has_services:
        active = succeeds(("systemctl", "is-active", "--quiet", "jobsight-server"))
        yield Finding("jobsight-server runs", active, "systemctl start jobsight-server; journalctl -u jobsight-server")
    if scheduler.submitter is not None:
        yield _answer(scheduler.submitter, scheduler, places)
    yield from scheduler.checks()
    silent = sorted(set(scheduler.nodes) - reporting_nodes(places, scheduler.cluster))
    shown = f"{', '.join(silent[:10])}{' ...' if len(silent) > 10 else ''}"
    yield Finding("agents of all nodes report", not silent or None, f"silent: {shown}; sh {places.archive} there")


def _answer(token: PlannedToken, scheduler: SchedulerSetup, places: Places) -> Finding:
    """Whether the server accepts the token and answers before plugins stop waiting; the best of three counts."""
    address = f"http://{places.address}:{places.port}/api/v1/advice"
    what = f"the server answers within {LIMIT_S * 1000:.0f} ms"
    try:
        headers = {"Authorization": f"Bearer {token.path.read_text().strip()}", "Content-Type": "application/json"}
        body = json.dumps({"cluster": scheduler.cluster, "user": "root", "processors": 1}).encode()
        times = []
        for _ in range(3):
            begin = time.monotonic()
            with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=5) as answer:
                answer.read()
            times.append(time.monotonic() - begin)
    except urllib.error.HTTPError as error:
        said = error.read(200).decode(errors="replace").strip()
        return Finding(
            what, False, f"{error.code}: {said}; delete {token.path} and run `jobsight setup {scheduler.kind}`"
        )
    except OSError as error:
        return Finding(what, False, f"{address}: {error}; start `jobsight serve --config {places.settings}`")
    best = min(times)
    return Finding(f"{what} ({best * 1000:.0f})", best < LIMIT_S, f"it took {best:.2f} s, longer than plugins wait")
