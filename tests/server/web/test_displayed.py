"""Numbers as pages display them, each beside plain SQL: a table of pages, places, formats and queries."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, text
from tests import make
from tests.server.web.planted import FIRST, NOW
from tests.server.web.test_questions import plain

from jobsight_server.web.kit.units import FORMATS

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

HOURS = '(j."end" - j.start) / 3600.0'
GIB = "j.requested_memory_bytes / 1073741824.0"
USED = (
    "FROM jobs j JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory' JOIN profiles c ON c.run_id = j.id "
    f"AND c.metric = 'cpu' WHERE j.\"end\" >= {NOW} - 86400 * "
)
MEMORY = f"sum({GIB} * {HOURS})", f"sum(m.value * j.processors * {HOURS}) / 1073741824"
BUSY = f"sum(j.processors * {HOURS})", f"sum(c.value * j.processors * {HOURS})"
LIMITS = "sum(j.requested_walltime_s * j.processors) / 3600", f"sum({HOURS} * j.processors)"
LEFT = ", ".join(f"{held} - {used}, 1 - {used} / ({held})" for held, used in (MEMORY, BUSY, LIMITS))
OFF = "abs(m.forecast - m.value) / m.value"
KEPT = "m.bound * j.processors = j.requested_memory_bytes"
TRUST = (
    f"avg(1 - min(1, {OFF})), avg(CASE WHEN {KEPT} THEN NULL ELSE m.value <= m.bound END), "
    f"avg({OFF} <= 0.2), count(*) {USED}"
)
LINE = (
    "SELECT job_id, 'completed', 1.0 * m.value * j.processors / requested_memory_bytes, "
    f"{HOURS} * 3600 / requested_walltime_s {USED} 60 AND j.user = 'memo' ORDER BY j.id DESC LIMIT 9"
)

MINE = ", ".join(f"1 - {used} / ({held}), {held} - {used}" for held, used in (MEMORY, BUSY, LIMITS))
OF_N1 = """SELECT job_id, "user", h.processors FROM jobs j JOIN job_nodes h ON h.run_id = j.id WHERE node = 'n1'"""
RUNNING = f"""SELECT job_id, u.memory * j.processors, start + requested_walltime_s - {NOW}, requested_memory_bytes,
    "user", 1, j.processors FROM jobs j JOIN running_use u ON u.run_id = j.id WHERE state = 'running'"""
FREED = f"({GIB} - m.bound * j.processors / 1073741824) * {HOURS}"
WEEK = f"date({FIRST} + 604800 * cast((j.\"end\" - {FIRST}) / 604800 AS integer), 'unixepoch')"
APPLICATION = f"""SELECT sum({FREED}), count(*), max(m.value), max(requested_memory_bytes / j.processors), max(c.value)
    {USED} 60 AND "user" = 'memo'"""

MOMENT = "\"end\", 'unixepoch'"
LATELY = f'AND "end" >= {NOW} - 30 * 86400'
OF_PERIOD = f"""count(*), sum(j.processors * {HOURS}), avg(j.start - j.queued) FROM jobs j WHERE state = 'ended'"""
MONTHS = [f'CASE WHEN j."end" BETWEEN {NOW - days * 86400} AND {NOW - (days - 30) * 86400} THEN ' for days in (30, 60)]
SPANS = ", ".join(f"sum({month} j.processors * {HOURS} END)" for month in MONTHS)
WAITS = f"avg({MONTHS[0]} j.start - j.queued END)"
USERS = f"""SELECT "user", cluster, {SPANS} FROM jobs j WHERE state = 'ended' GROUP BY 1, 2"""
ACCOUNTS = (
    f"""SELECT coalesce(account, 'no account'), cluster, {SPANS} FROM jobs j WHERE state = 'ended' GROUP BY 1, 2"""
)

WASTE = [(by, f"j.{by}", "30") for by in ("user", "cluster", "queue")] + [("user&range=1y", "j.user", "60")]
WASTE += [
    (
        "user&since=2023-11-20&until=2023-11-26",
        "j.user",
        f'60 AND j."end" BETWEEN {FIRST} + 604800 AND {FIRST} + 1209600',
    )
]
DAYS_OF_TRUST = f'60 AND j."end" BETWEEN {FIRST} + 604800 AND {FIRST} + 2419200'

SHARES = "text share share share count"
SHOWN: list[tuple[str, str, str, str]] = [
    ("/", "card-1", "text count", f"""SELECT "user" || ' on alpha', sum({FREED}) / 4 AS free {USED} 28
        AND j.cluster = 'alpha' GROUP BY 1 HAVING free > 0"""),
    ("/", "card-2", "percent count", f"""SELECT {BUSY[1]} / ({BUSY[0]}), {BUSY[0]} / 4 {USED} 28
        AND "user" = 'idle'"""),
    ("/", "card-3", "text count", f"SELECT name, ({NOW} - received_at) / 3600 FROM nodes WHERE name = 'n2'"),
    ("/now", "tile-nodes", "count count", f"SELECT sum(received_at > {NOW} - 120), count(*) FROM nodes"),
    ("/now", "tile-jobs", "count count", "SELECT count(*), count(DISTINCT j.user) FROM jobs j WHERE state = 'running'"),
    ("/now", "tile-rejected", "count", "SELECT sum(value) FROM event_counts WHERE name LIKE '%rejected%'"),
    ("/now", "tile-log", "seconds", f"SELECT {NOW} - updated FROM accounting_files"),
    ("/now", "running", "text bytes seconds bytes text count count", RUNNING),
    *(("/waste", place, "percent hours hours", f"SELECT 1 - {used} / ({held}), {held} - {used}, {held} {USED} 30")
      for place, (held, used) in (("memory", MEMORY), ("processors", BUSY), ("runtime", LIMITS))),
    *((f"/waste?limit=25&by={asked}", "rows", "text hours percent hours percent hours percent count text",
       f"SELECT {by}, {LEFT}, count(*), cluster {USED} {days} GROUP BY 1, cluster") for asked, by, days in WASTE),
    ("/savings", "weeks", "text count count", f"SELECT {WEEK}, count(*), count(DISTINCT j.user) {USED} 53 GROUP BY 1"),
    *((f"/accuracy?metric=memory{asked}", "rows", SHARES, f"SELECT j.user, {TRUST} {days} GROUP BY 1")
      for asked, days in (("", 32), ("&range=90d", 60), ("&since=2023-11-22&until=2023-12-05", DAYS_OF_TRUST))),
    ("/accuracy?by=cluster", "rows", SHARES, f"SELECT cluster || ' Memory', {TRUST} 32 GROUP BY 1"),
    ("/users", "users", "text text hours hours", USERS),
    ("/queue", "months", "text count hours seconds", f"SELECT strftime('%Y-%m', {MOMENT}), {OF_PERIOD} GROUP BY 1"),
    ("/queue", "days", "text count hours seconds", f"SELECT date({MOMENT}), {OF_PERIOD} {LATELY} GROUP BY 1"),
    ("/queue", "queues", "text seconds", f"SELECT queue, {WAITS} FROM jobs j WHERE state = 'ended' GROUP BY 1"),
    ("/mine?user=memo", "months", "count hours count percent seconds", f"""SELECT count(*), {BUSY[0]}, 0,
        1 - {MEMORY[1]} / ({MEMORY[0]}), avg(j.start - j.queued) {USED} 30 AND j.user = 'memo'"""),
    ("/queue", "accounts", "text text hours hours", ACCOUNTS),
    ("/network?limit=25", "applications", "text count hours",
     f"SELECT 'of ' || user, count(*), {BUSY[0]} {USED} 29 GROUP BY 1"),
    ("/nodes", "nodes", "text count bytes", "SELECT name, cpus, memory_total_bytes FROM nodes"),
    ("/nodes", "reasons", "text count", "SELECT label, value FROM event_counts WHERE name LIKE '%rejected%'"),
    ("/node?cluster=alpha&name=n1", "runs", "text text count", OF_N1),
    ("/user?cluster=alpha&name=memo", "facts", "count", "SELECT count(*) FROM jobs WHERE jobs.user = 'memo'"),
    ("/user?cluster=alpha&name=memo", "applications", "hours count bytes bytes percent", APPLICATION),
    ("/mine?user=memo", "list", "text text percent percent", LINE),
    ("/jobs?user=memo", "jobs", "text text percent percent", LINE),
    ("/mine?user=memo", "waste", " ".join(["percent hours"] * 3), f"SELECT {MINE} {USED} 30 AND j.user = 'memo'"),
    ("/job?cluster=alpha&name=105.s", "runs", "bytes bytes percent", f"""SELECT requested_memory_bytes,
        m.value * j.processors, m.value * j.processors / requested_memory_bytes {USED} 60 AND job_id = '105.s'"""),
]  # fmt: skip
"""Page, section, formats and query: a row of each is a row there, with the values in this order."""


def lines(page: str, place: str) -> list[str]:
    """Rows of the tables and items of the lists in the section, and all of its text."""
    part = re.split("</section>|</article>", page.split(f'id="{place}"')[1].partition(">")[2])[0]
    return [plain(f"<{line}", " ") for line in re.split(r"<(?=tr|li|/tbody|/ul)", part)] + [plain(part, " ")]


@pytest.mark.parametrize("path", sorted({path for path, *_ in SHOWN}))
def test_displayed_numbers_are_those_of_sql(planted: FlaskClient, engine: Engine, path: str) -> None:
    page = planted.get(path).text
    for place, names, query in (each[1:] for each in SHOWN if each[0] == path):
        rows = make.rows(engine, text(query.replace(":", "\\:")))
        assert rows, query
        for row in rows:
            shown = [FORMATS[name](value) for name, value in zip(names.split(), row, strict=True)]
            wanted = re.compile(".*?".join(rf"(?<![^ :]){re.escape(each)}(?![^ ,.;:])" for each in shown))
            assert any(wanted.search(line) for line in lines(page, place)), (place, shown, lines(page, place))


def test_sixty_numbers_are_compared_on_all_pages_of_jobs(planted: FlaskClient) -> None:
    assert sum(len(re.findall("count|hours|percent|share|bytes|seconds", names)) for _, _, names, _ in SHOWN) >= 60
