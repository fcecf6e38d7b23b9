"""Numbers as pages display them, each beside plain SQL: a table of pages, places, formats and queries."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, text
from tests import make
from tests.server.web.planted import BROKEN, FIRST, NOW
from tests.server.web.test_questions import plain

from jobsight_server.web.kit.units import FORMATS

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

HOURS = '(j."end" - j.start) / 3600.0'
GIB = "j.requested_memory_bytes / 1073741824.0"
PROFILES = " ".join(
    f"JOIN profiles {of} ON {of}.run_id = j.id AND {of}.metric = '{metric}'"
    for of, metric in (("m", "memory"), ("c", "cpu"), ("r", "runtime"))
)
USED = f'FROM jobs j {PROFILES} WHERE j."end" >= {NOW} - 86400 * '
MEMORY = f"sum({GIB} * {HOURS})", f"sum(m.value * j.processors * {HOURS}) / 1073741824"
BUSY = f"sum(j.processors * {HOURS})", f"sum(c.value * j.processors * {HOURS})"
LIMITS = "sum(j.requested_walltime_s * j.processors) / 3600", f"sum({HOURS} * j.processors)"
LEFT = ", ".join(f"{held} - {used}, 1 - {used} / ({held})" for held, used in (MEMORY, BUSY, LIMITS))
# A job that would have run out runs again with its request.
FREED = f"sum(({GIB} * (m.value <= m.bound) - m.bound * j.processors / 1073741824) * {HOURS})"
NEEDED_MORE = "sum(m.value * j.processors > j.requested_memory_bytes)"
SHORTER = "sum((j.requested_walltime_s - r.bound) * j.processors) / 3600"
BEFORE = f'60 AND j."end" < {NOW} - 30 * 86400'

OFF = "abs(m.forecast - m.value) / m.value"
ACCURATE, WITHIN = f"avg(1 - min(1, {OFF}))", f"avg({OFF} <= 0.2)"
HELD = "avg(CASE WHEN m.bound * j.processors = j.requested_memory_bytes THEN NULL ELSE m.value <= m.bound END)"
TRUST = f"{ACCURATE}, {HELD}, {WITHIN}, count(*) {USED}"
PROMISED = [("Memory", "m.", HELD), ("Run time", "r.", "avg(r.value <= r.bound)"), ("CPU", "c.", "NULL")]
BROKE = [f'avg(CASE WHEN j."end" {since} {FIRST} + {BROKEN} * 86400 THEN 1 - {OFF} END)' for since in ("<", ">=")]

LINE = "text text percent percent count"
LINES = {user: (
    "SELECT job_id, 'completed', 1.0 * m.value * j.processors / requested_memory_bytes, "
    f"{HOURS} * 3600 / requested_walltime_s, j.processors {USED} 60 AND j.user = '{user}' ORDER BY j.id DESC LIMIT 9"
) for user in ("memo", "ari")}  # fmt: skip
MINE = ", ".join(f"1 - {used} / ({held}), {held} - {used}" for held, used in (MEMORY, BUSY, LIMITS))
PART = f"u.memory * j.processors / requested_memory_bytes, ({NOW} - start) / requested_walltime_s"
USE = "FROM jobs j JOIN running_use u ON u.run_id = j.id WHERE state = 'running'"
OF_N1 = f"""SELECT job_id, "user", {PART}, h.processors, "end" - start FROM jobs j JOIN job_nodes h ON h.run_id = j.id
    LEFT JOIN running_use u ON u.run_id = j.id WHERE node = 'n1'"""
RUNNING = f"""SELECT job_id, u.memory * j.processors, start + requested_walltime_s - {NOW}, requested_memory_bytes,
    "user", 1, j.processors {USE}"""
OUT_OF_MEMORY = f"""SELECT job_id, u.memory * j.processors, requested_memory_bytes {USE}
    AND u.memory * j.processors > 0.9 * requested_memory_bytes"""
OUT_OF_TIME = f"""SELECT job_id, start + requested_walltime_s - {NOW}, {NOW} - start, requested_walltime_s {USE}
    AND start + requested_walltime_s < {NOW} + 3600"""
UP, LATE, SILENT = (f"sum({NOW} - received_at {within})" for within in ("< 120", "BETWEEN 120 AND 3600", "> 3600"))
AGENT = "json_extract(agent, '$.batches_spooled')", "json_extract(agent, '$.batches_dropped')"
JOBS_NOW = """(SELECT count(*) FROM job_nodes h JOIN jobs j ON j.id = h.run_id WHERE state = 'running'
    AND h.node || '.' LIKE nodes.name || '.%')"""
NODE = f"cpus, memory_total_bytes, {NOW} - received_at, missing, {AGENT[0]}, {AGENT[1]}"

WEEK = f"date({FIRST} + 604800 * cast((j.\"end\" - {FIRST}) / 604800 AS integer), 'unixepoch')"
OF_WEEKS = "sum(freed), sum(more), sum(jobs), sum(asked BETWEEN 0.9 AND 1.1), count(*)"
EACH_WEEK, ALL_WEEKS = (f"""SELECT {week} AS week, j.user AS who, {FREED} / 64 AS freed, {NEEDED_MORE} AS more,
    count(*) AS jobs, sum(j.requested_memory_bytes) / sum(m.bound * j.processors) AS asked {USED} 53 GROUP BY 1, 2"""
    for week in (WEEK, "'8 weeks'"))  # fmt: skip
APPLICATION = f"""SELECT {FREED}, count(*), max(m.value), max(m.value), max(requested_memory_bytes / j.processors),
    max(c.value), max(c.value), max(r.value), max(r.value), max(requested_walltime_s) {USED} 60 AND "user" = """

MOMENT = "\"end\", 'unixepoch'"
LATELY = f'AND "end" >= {NOW} - 30 * 86400'
OF_PERIOD = f"""count(*), sum(j.processors * {HOURS}), sum(j.failure IS NOT NULL), 1 - {MEMORY[1]} / ({MEMORY[0]}),
    avg(j.start - j.queued) FROM jobs j JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory'
    WHERE state = 'ended'"""
MONTHS = [f'CASE WHEN j."end" BETWEEN {NOW - days * 86400} AND {NOW - (days - 30) * 86400} THEN ' for days in (30, 60)]
(JOBS, *_), SPANS, (KILLED, *_), (UNUSED, *_), (WAITS, *_) = MONTHLY = [
    [of.replace("MONTH", month) for month in MONTHS]
    for of in ("count(MONTH 1 END)", f"sum(MONTH j.processors * {HOURS} END)", "sum(MONTH failure IS NOT NULL END)",
               f"1 - sum(MONTH m.value * j.processors * {HOURS} END) / sum(MONTH requested_memory_bytes * {HOURS} END)",
               "avg(MONTH j.start - j.queued END)")
]  # fmt: skip
PERSON = "text text hours hours percent seconds count count"
PERSONS = f"""cluster, {", ".join(SPANS)}, {UNUSED}, {WAITS}, {KILLED}, %s FROM jobs j LEFT JOIN profiles m
    ON m.run_id = j.id AND m.metric = 'memory' WHERE state = 'ended' GROUP BY 1, 2"""
BOTH_MONTHS = ", ".join(of for both in MONTHLY for of in both)

WASTE = [(by, f"j.{by}", "30") for by in ("user", "cluster", "queue")] + [("user&range=1y", "j.user", "60")]
WASTE += [
    (
        "user&since=2023-11-20&until=2023-11-26",
        "j.user",
        f'60 AND j."end" BETWEEN {FIRST} + 604800 AND {FIRST} + 1209600',
    )
]
DAYS_OF_TRUST = f'60 AND j."end" BETWEEN {FIRST} + 604800 AND {FIRST} + 2419200'
OF_JOB = f"{USED} 60 AND job_id = '105.s'"

SHARES = "text share share share count"
SHOWN: list[tuple[str, str, str, str]] = [
    ("/", "card-1", "text count", f"""SELECT "user" || ' on alpha', {FREED} / 4 AS free {USED} 28
        AND j.cluster = 'alpha' GROUP BY 1 HAVING free > 0"""),
    ("/", "card-2", "percent count", f"""SELECT {BUSY[1]} / ({BUSY[0]}), {BUSY[0]} / 4 {USED} 28
        AND "user" = 'idle'"""),
    ("/", "card-3", "text count", f"SELECT name, ({NOW} - received_at) / 3600 FROM nodes WHERE name = 'n2'"),
    ("/now", "tile-nodes", "count count count count", f"SELECT {UP}, count(*), {LATE}, {SILENT} FROM nodes"),
    ("/now", "tile-jobs", "count count count count count", """SELECT count(*), count(DISTINCT j.user),
        sum(j.processors), (SELECT sum(cpus) FROM nodes),
        (SELECT count(*) FROM jobs WHERE state = 'queued') FROM jobs j WHERE state = 'running'"""),
    ("/now", "tile-backlog", "count", "SELECT count(*) FROM jobs WHERE state = 'ended' AND NOT profiled"),
    ("/now", "tile-agents", "count count count",
     f"SELECT sum({AGENT[0]}), sum({AGENT[0]} > 0), sum({AGENT[1]}) FROM nodes"),
    ("/now", "tile-rejected", "count", "SELECT sum(value) FROM event_counts WHERE name LIKE '%rejected%'"),
    ("/now", "tile-log", "seconds text seconds count", f"""SELECT {NOW} - min(updated), cluster,
        {NOW} - max(updated), count(*) FROM accounting_files GROUP BY cluster"""),
    ("/now", "running", "text bytes seconds bytes text count count", RUNNING),
    ("/now", "running-out", "text bytes bytes", OUT_OF_MEMORY),
    ("/now", "running-out", "text seconds seconds seconds", OUT_OF_TIME),
    *(("/waste", place, "percent hours hours", f"SELECT 1 - {used} / ({held}), {held} - {used}, {held} {USED} 30")
      for place, (held, used) in (("memory", MEMORY), ("processors", BUSY), ("runtime", LIMITS))),
    *(("/waste", place, "percent", f"SELECT 1 - {used} / ({held}) {USED} {BEFORE}")
      for place, (held, used) in (("memory", MEMORY), ("processors", BUSY), ("runtime", LIMITS))),
    ("/waste", "memory", "hours percent count count count", f"""SELECT {FREED}, {FREED} / ({MEMORY[0]}),
        sum(m.value > m.bound), count(*), {NEEDED_MORE} {USED} 30"""),
    ("/waste", "processors", "count", f"SELECT count(*) {USED} 30"),
    ("/waste", "runtime", "hours", f"SELECT {SHORTER} {USED} 30"),
    *((f"/waste?limit=25&by={asked}", "rows", "text hours percent hours percent hours percent count text",
       f"SELECT {by}, {LEFT}, count(*), cluster {USED} {days} GROUP BY 1, cluster") for asked, by, days in WASTE),
    *(("/savings", "weeks", "text hours count count count count", f"SELECT week, {OF_WEEKS} FROM ({each}) GROUP BY 1")
      for each in (EACH_WEEK, ALL_WEEKS)),
    ("/savings", "adoption", "text hours hours", f"SELECT who, round(freed, 9), asked FROM ({ALL_WEEKS})"),
    ("/savings", "answer", "hours hours count", f"SELECT {FREED} / 64, {MEMORY[0]} / 64, 8 {USED} 53"),
    *((f"/accuracy?metric=memory{asked}", "rows", SHARES, f"SELECT j.user, {TRUST} {days} GROUP BY 1")
      for asked, days in (("", 32), ("&range=90d", 60), ("&since=2023-11-22&until=2023-12-05", DAYS_OF_TRUST))),
    ("/accuracy?by=cluster", "rows", SHARES, f"SELECT cluster || ' Memory', {TRUST} 32 GROUP BY 1"),
    *(("/accuracy", "metrics", "text share share share share count",
       f"SELECT '{title}', 0.95, {held}, {f'{ACCURATE}, {WITHIN}'.replace('m.', of)}, count(*) {USED} 32")
      for title, of, held in PROMISED),
    ("/accuracy", "answer", "percent percent", f"SELECT {', '.join(BROKE)} {USED} 32 AND j.user = 'kim'"),
    ("/users", "users", PERSON, f"""SELECT "user", {PERSONS % "count(*)"}"""),
    ("/queue", "answer", "count hours decimal count", f"""SELECT 30, {BUSY[0]}, {BUSY[0]} / 24 / 30,
        (SELECT sum(cpus) FROM nodes) FROM jobs j WHERE state = 'ended' {LATELY}"""),
    ("/queue", "months", "text count hours count percent seconds",
     f"SELECT strftime('%Y-%m', {MOMENT}), {OF_PERIOD} GROUP BY 1"),
    ("/queue", "days", "text count hours count percent seconds",
     f"SELECT date({MOMENT}), {OF_PERIOD} {LATELY} GROUP BY 1"),
    ("/queue", "queues", "text count seconds",
     f"SELECT queue, sum(state = 'queued'), {WAITS} FROM jobs j WHERE queue IS NOT NULL GROUP BY 1"),
    ("/queue", "accounts", PERSON, f"SELECT coalesce(account, 'no account'), {PERSONS % JOBS}"),
    ("/mine?user=memo", "months", "count count hours hours count count percent percent seconds seconds",
     f"SELECT {BOTH_MONTHS} {USED} 60 AND j.user = 'memo'"),
    ("/mine?user=memo", "answer", "hours hours",
     f"SELECT {FREED}, {MEMORY[0]} - {MEMORY[1]} {USED} 30 AND j.user = 'memo'"),
    ("/mine?user=memo", "list", LINE, LINES["memo"]),
    ("/mine?user=memo", "waste", " ".join(["percent hours"] * 3), f"SELECT {MINE} {USED} 30 AND j.user = 'memo'"),
    ("/network?limit=25", "applications", "text count hours",
     f"SELECT 'of ' || user, count(*), {BUSY[0]} {USED} 29 GROUP BY 1"),
    ("/network?limit=25", "answer", "count count",
     f"SELECT (SELECT count(*) FROM nodes), count(DISTINCT j.user) {USED} 29"),
    ("/nodes", "main", "count count count count", f"SELECT count(*), {UP}, {LATE}, {SILENT} FROM nodes"),
    ("/nodes", "answer", "count count", f"SELECT {SILENT}, count(*) FROM nodes"),
    ("/nodes", "nodes", "text count count bytes age count count count", f"SELECT name, {JOBS_NOW}, {NODE} FROM nodes"),
    ("/nodes", "rejected", "count", "SELECT sum(value) FROM event_counts WHERE name LIKE '%rejected%'"),
    ("/nodes", "reasons", "text count", "SELECT label, value FROM event_counts WHERE name LIKE '%rejected%'"),
    ("/node?cluster=alpha&name=n1", "main", "count age count bytes count count count count count count count",
     f"""SELECT {JOBS_NOW}, {NOW} - received_at, cpus, memory_total_bytes, samples, boots, wraps, resets, missing,
        {AGENT[0]}, {AGENT[1]} FROM nodes WHERE name = 'n1'"""),
    ("/node?cluster=alpha&name=n1", "runs", "text text percent percent count seconds", OF_N1),
    ("/user?cluster=alpha&name=memo", "facts", "count", "SELECT count(*) FROM jobs WHERE jobs.user = 'memo'"),
    *((f"/user?cluster=alpha&name={user}", "applications",
       "hours count bytes bytes bytes percent percent seconds seconds seconds", f"{APPLICATION} '{user}'")
      for user in ("memo", "idle")),
    ("/user?cluster=alpha&name=memo", "answer", "hours hours",
     f"SELECT {FREED}, {MEMORY[0]} {USED} 60 AND j.user = 'memo'"),
    *((f"/jobs?user={user}", "jobs", LINE, query) for user, query in LINES.items()),
    ("/jobs?user=memo", "main", "count", "SELECT count(*) FROM jobs WHERE jobs.user = 'memo'"),
    ("/job?cluster=alpha&name=105.s", "verdict", "percent percent percent", f"""SELECT
        m.value * j.processors / requested_memory_bytes, c.value, r.value / requested_walltime_s {OF_JOB}"""),
    ("/job?cluster=alpha&name=105.s", "runs", "seconds count", f"SELECT start - queued, j.processors {OF_JOB}"),
    ("/job?cluster=alpha&name=105.s", "runs", "text bytes bytes bytes percent bytes bytes", f"""SELECT 'Memory',
        requested_memory_bytes, requested_memory_bytes, m.value * j.processors,
        m.value * j.processors / requested_memory_bytes, m.forecast * j.processors, m.bound * j.processors {OF_JOB}"""),
    ("/job?cluster=alpha&name=105.s", "runs", "text count count decimal percent decimal", f"""SELECT 'CPU',
        j.processors, j.processors, c.value * j.processors, c.value, c.forecast * j.processors {OF_JOB}"""),
    ("/job?cluster=alpha&name=105.s", "runs", "text seconds seconds seconds percent seconds seconds", f"""SELECT
        'Run time', requested_walltime_s, requested_walltime_s, "end" - start, r.value / requested_walltime_s,
        r.forecast, r.bound {OF_JOB}"""),
    ("/job?cluster=alpha&name=1.s", "verdict", "percent percent", f"SELECT {PART} {USE} AND job_id = '1.s'"),
    ("/job?cluster=alpha&name=1.s", "runs", "text bytes bytes bytes", f"""SELECT 'Memory', requested_memory_bytes,
        requested_memory_bytes, u.memory * j.processors {USE} AND job_id = '1.s'"""),
    ("/job?cluster=alpha&name=1.s", "runs", "text seconds seconds seconds", f"""SELECT 'Run time',
        requested_walltime_s, requested_walltime_s, {NOW} - start {USE} AND job_id = '1.s'"""),
]  # fmt: skip
"""Page, section, formats and query: a row of each is a row there, with the values in this order."""


def lines(page: str, place: str) -> list[str]:
    """Rows of the tables and items of the lists in the section, and all of its text."""
    part = re.split("</section>|</article>", page.split(f'id="{place}"')[1].partition(">")[2])[0]
    return [plain(f"<{line}", " ") for line in re.split(r"<(?=tr|li|/tbody|/ul)", part)] + [plain(part, " ")]


@pytest.mark.parametrize("path", sorted({path for path, *_ in SHOWN}))
def test_displayed_numbers_are_those_of_sql(planted: FlaskClient, engine: Engine, path: str) -> None:
    compare(planted.get(path).text, engine, [each[1:] for each in SHOWN if each[0] == path])


def compare(page: str, engine: Engine, wanted: Iterable[tuple[str, str, str]]) -> None:
    """Hold the page against sections, formats and queries."""
    for place, names, query in wanted:
        rows = make.rows(engine, text(query.replace(":", "\\:")))
        assert rows, query
        for row in rows:
            shown = [FORMATS[name](value) for name, value in zip(names.split(), row, strict=True)]
            written = re.compile(".*?".join(rf"(?<![^ :(]){re.escape(each)}(?![^ ,.;:)])" for each in shown))
            assert any(written.search(line) for line in lines(page, place)), (place, shown, lines(page, place))


def test_two_hundred_numbers_are_compared_on_all_pages_of_jobs(planted: FlaskClient) -> None:
    assert sum(len(re.findall("count|hours|percent|share|bytes|seconds", names)) for _, _, names, _ in SHOWN) >= 200
