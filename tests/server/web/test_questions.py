"""Twenty-one questions, answered within two clicks from the start page and as SQL does: over HTTP, and in Chromium to
administrators and to staff; two of them to the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from flask.testing import FlaskClient
from playwright.sync_api import Page
from sqlalchemy import Engine, text
from tests import make
from tests.browser.conftest import browser as browser
from tests.make import not_none
from tests.server.web.planted import BROKEN_ON, GIB, NOW, PROCESSORS
from werkzeug.serving import make_server

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.auth.tokens import create_token
from jobsight_server.forecasts.rounds import rebuild
from jobsight_server.savings.sums.add import count_marked, mark_all
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.systems.ranking.periodic import update_machines
from jobsight_server.web.kit.routes import COOKIE
from jobsight_server.web.kit.units import FORMATS

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

DOCUMENT = Path(__file__).parents[3] / "docs/use/questions.md"
CLICKS_AT_MOST = 2


def plain(found: str, between: str = "") -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", between, found)).split())


class Walk:
    """From the start page on, by links and forms alone, which are counted."""

    def __init__(self, client: FlaskClient, question: str) -> None:
        self._client, self.question, self.clicks = client, question, -1
        self.go("/")

    def go(self, path: str) -> None:
        if path.startswith("#"):
            self.clicks += 1
            return
        answer = self._client.get(path, follow_redirects=True)
        assert answer.status_code == 200, path
        self.page = " ".join(answer.text.split())
        self.clicks += 1

    def click(self, name: str) -> None:
        """Follow the first link with this text."""
        links = re.findall(r'<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', self.page)
        self.go(next(unescape(href) for href, shown in links if plain(shown) == name))

    def part(self, name: str, end: str = "</table>") -> str:
        """The HTML of the element with this id."""
        return self.page.split(f'id="{name}"')[1].partition(">")[2].partition(end)[0]

    @property
    def answer(self) -> str:
        return plain(self.part("answer", "</p>"))


class Clicks(Walk):
    """The same by real clicks on links that are visible."""

    def __init__(self, page: Page, client: FlaskClient, question: str) -> None:
        self._page = page
        super().__init__(client, question)

    def go(self, path: str) -> None:
        self._arrive(lambda: self._page.goto(path))

    def click(self, name: str) -> None:
        link = self._page.get_by_role("link", name=name, exact=True).first
        if (link.get_attribute("href") or "").startswith("#"):
            self.clicks += 1
            link.click()
        else:
            self._arrive(link.click)

    def _arrive(self, act: Callable[[], Any]) -> None:
        with self._page.expect_response(lambda answer: answer.request.is_navigation_request() and answer.ok) as arrived:
            act()
        self.page, self.clicks = " ".join(arrived.value.text().split()), self.clicks + 1


def staff(client: FlaskClient, engine: Engine) -> FlaskClient:
    """A member of the staff who has logged in by a token."""
    with engine.begin() as connection:
        token = create_token(connection, "staff", "", NOW)[1]
    found = client.application.test_client()
    form = {"Sec-Fetch-Site": "same-origin"}
    assert found.post("/login", data={"token": token}, headers=form).status_code == 303
    return found


IN_CHROMIUM = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(params=["http", *(pytest.param(role, marks=IN_CHROMIUM) for role in ("admin", "staff"))])
def ask(request: pytest.FixtureRequest, planted: FlaskClient, engine: Engine) -> Iterator[Callable[..., Walk]]:
    walks: list[Walk] = []
    viewer = staff(planted, engine) if request.param == "staff" else planted
    server = make_server("127.0.0.1", 0, planted.application, threaded=True)
    Thread(target=server.serve_forever, daemon=True).start()

    def begin(question: str, client: FlaskClient = viewer) -> Walk:
        if request.param == "http":
            walks.append(Walk(client, question))
            return walks[-1]
        url, cookie = f"http://127.0.0.1:{server.port}", not_none(client.get_cookie(COOKIE))
        context = request.getfixturevalue("browser").new_context(base_url=url)
        context.add_cookies([{"name": COOKIE, "value": cookie.value, "url": url}])
        walks.append(Clicks(context.new_page(), client, question))
        return walks[-1]

    yield begin
    server.shutdown()
    for walk in walks:
        (row,) = [line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| {walk.question} |")]
        assert walk.clicks == int(row.rstrip("| ").rpartition("|")[2]) <= CLICKS_AT_MOST


@pytest.fixture
def sql(engine: Engine) -> Callable[..., Any]:
    def run(query: str, **values: Any) -> Any:
        return make.rows(engine, query, values)

    return run


Ask, Sql = Callable[..., Walk], Callable[..., Any]
MEMORY_OF = '(j.requested_memory_bytes - m.{0} * j.processors) * (j."end" - j.start) / 1073741824.0'


def number_after(words: str, answer: str) -> float:
    found = not_none(re.search(rf"{words}:? ([0-9,.]+)", answer), answer)
    return float(found[1].rstrip(".").replace(",", ""))


def test_every_question_of_the_document_is_asked(planted: FlaskClient) -> None:
    lines = DOCUMENT.read_text().splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.endswith((" 0 |", " 1 |", " 2 |"))]
    assert sorted(rows) == sorted(re.findall(r'"([^"\n]+\?)"[,)]', Path(__file__).read_text()))
    assert len(rows) == 21


@pytest.mark.parametrize(
    ("question", "link", "cell", "words"),
    [
        ("Who wastes most memory?", None, 0, "left the most memory unused"),
        ("Who wastes most processors?", "Processors idle", 4, "left the most processor time idle"),
        ("Who wastes most time?", "Limits too long", 7, "were longest"),
        ("What would better requests save?", None, 3, "would have freed"),
    ],
)
def test_who_wastes_most(ask: Ask, question: str, link: str | None, cell: int, words: str) -> None:
    """The first row's numbers are compared with SQL in test_displayed.py."""
    walk = ask(question)
    walk.click("Waste")
    if link is not None:
        walk.click(link)
    first = walk.part("rows", "</table>").split("<tbody>")[1].split("</tr>")[0]
    user, cells = plain(first.split("</a>")[0]), [plain(f"<td{each}") for each in first.split("<td")[1:]]
    assert walk.answer.removeprefix("Limits of ").startswith(f"{user} ")
    assert number_after(words, walk.answer) == float(cells[cell].replace(",", ""))


def test_what_it_brought(ask: Ask, sql: Sql) -> None:
    walk = ask("What did it bring?")
    walk.click("Savings")
    held = """
        SELECT sum(requested_memory_bytes / 1073741824.0 * ("end" - start)) / 3600 / 64 FROM jobs
        WHERE profiled AND "end" >= (SELECT max("end") FROM jobs) - 53 * 86400
    """
    ((hours,),) = sql(held)
    assert walk.answer.startswith("Nothing was adjusted yet. The recommended requests would have freed ")
    assert f" of {FORMATS['hours'](hours)} node-hours in 8 weeks. Next: Start " in walk.answer


def test_which_jobs_fill_a_link(ask: Ask, sql: Sql, engine: Engine) -> None:
    links = '[{"name": "e", "kind": "ethernet", "width_bits": 64, "speed_bps": 4e9}]'
    make.execute(engine, "UPDATE nodes SET interfaces = :links WHERE name = 'n1'", {"links": links})
    walk = ask("Which jobs fill a link?")
    walk.click("Network")
    assert "1 node of 4 uses more than half of its links now, with 2 jobs." in walk.answer
    there = "SELECT job_id FROM jobs JOIN job_nodes ON run_id = id WHERE node = 'n1' AND state = 'running'"
    rows = walk.part("jobs", "</table>").split("<tr")[2:]
    assert {plain(f"<tr{row}", " ").split()[0] for row in rows} == {job for (job,) in sql(there)}


def test_who_improved(ask: Ask) -> None:
    walk = ask("Who improved?")
    walk.click("Waste")
    walk.click("Improved most")
    # 16 of 20 GiB unused before, 1 of 5 now: of 30 jobs of an hour that asked for 5.
    words = "imp on alpha improved most: 80 % of the memory unused before, 20 % now, which is 90.0 GiB-hours less"
    assert walk.answer.startswith(words)


def test_what_should_change_this_week(ask: Ask, sql: Sql, engine: Engine) -> None:
    update_machines(engine, SessionSettings(), lambda: NOW)
    walk = ask("What should change this week?")
    costs = [float(cost.replace(",", "")) for cost in re.findall(r"<small>([0-9,.]+) node-hours", walk.page)]
    assert costs == sorted(costs, reverse=True)
    (gain,) = [part for part in walk.page.split("<article")[1:] if "Lower memory for" in part and "of alpha" in part]
    freed = f"""
        SELECT sum({MEMORY_OF.format("bound")}) / 3600.0 FROM jobs j
        JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory' WHERE j.cluster = 'alpha' AND m.value <= m.bound
        AND j."end" / 86400 > (SELECT max(cast("end" / 86400 AS integer)) FROM jobs WHERE profiled) - 27
        GROUP BY j."user"
    """
    hours = sum(max(0.0, of_user) for (of_user,) in sql(freed))
    nodes = number_after("of alpha", plain(gain))
    assert nodes == pytest.approx(hours / (28 * 24) / 64, rel=0.03)
    assert "users_share = 0.1" in gain


def test_which_node_went_silent_and_when(ask: Ask, sql: Sql) -> None:
    walk = ask("Which node went silent, and when?")
    ((node, since),) = sql("SELECT name, received_at FROM nodes WHERE received_at < :at", at=NOW - 3600)
    (finding,) = [part for part in walk.page.split("<article")[1:] if "Silent nodes" in part]
    assert f"{node} on alpha: silent for {(NOW - since) / 3600:.0f} h" in plain(finding)


def test_what_rejected_data(ask: Ask, sql: Sql) -> None:
    walk = ask("What rejected data, and why?")
    walk.click("Nodes")
    names = "('batches_rejected', 'accounting_rejected_because')"
    rejected = sql(f"SELECT label, value FROM event_counts WHERE name IN {names} ORDER BY value DESC")
    rows = walk.part("reasons", "</tbody>").split("<tr")[2:]
    assert len(rows) == len(rejected) == 2
    for row, (reason, number) in zip(rows, rejected, strict=True):
        assert (reason in row, f">{number}<" in row) == (True, True)


def test_which_job_uses_the_network_now(ask: Ask, engine: Engine) -> None:
    walk = ask("Which job uses the network now?")
    walk.click("Now")
    # Of n1, a job with 4 of the 6 processors that are held has two thirds.
    with engine.connect() as connection:
        read = read_samples(connection, 2, 0.0, NOW)
    bps = 8.0 * (read.net_in_bytes[-1] - read.net_in_bytes[0]) / 600
    assert f"Job 2.s of u2 uses the network most: {FORMATS['bps'](bps * 4 / 6)}" in walk.answer
    assert (
        walk.page.split('<tbody data-rows="jobs"')[1]
        .split("data-row=")[1]
        .startswith('"[&#34;alpha&#34;, &#34;2.s&#34;')
    )


def test_what_will_run_out_in_the_next_hour(ask: Ask, sql: Sql) -> None:
    walk = ask("What will run out in the next hour?")
    walk.click("Now")
    walk.click("2 running jobs will probably run out")
    late = "SELECT job_id FROM jobs WHERE state = 'running' AND start + requested_walltime_s <= :at"
    ((job,),) = sql(late, at=NOW + 3600)
    rows = [plain(f"<{row}", " ") for row in walk.part("running-out").split("<tbody")[1].split("<tr")[1:]]
    assert [row.split()[0] for row in rows if "time" in row] == [job]


def test_whose_forecasts_are_wrong_since_when(ask: Ask) -> None:
    walk = ask("Whose forecasts are wrong, since when?")
    walk.click("Accuracy")
    assert f"memory of user kim since {BROKEN_ON}," in walk.answer


def test_what_did_array_4711_use(ask: Ask, sql: Sql) -> None:
    walk = ask("What did array 4711 use?")
    walk.click("Jobs")
    assert re.search(r'<form[^>]* action="/jobs".*? name="job_id"', walk.page)
    walk.go("/jobs?job_id=4711")
    most = """
        SELECT count(*), max(p.value * j.processors), max(j."end" - j.start) FROM jobs j
        JOIN profiles p ON p.run_id = j.id AND p.metric = 'memory' WHERE j.job_id LIKE '4711\\_%' ESCAPE '\\'
    """
    ((tasks, memory, longest),) = sql(most)
    shown = plain(walk.page.split("<summary")[-1].split("</summary>")[0].partition(">")[2])
    assert f"{tasks} tasks, {tasks} ended" in shown
    assert f"{memory / GIB:.2f} GiB of memory" in shown
    assert f"{longest / 3600:.0f} h of run time" in shown


def test_what_my_next_job_should_ask_for_and_why(ask: Ask, sql: Sql, planted: FlaskClient, engine: Engine) -> None:
    rebuild(engine)
    walk = ask("What should my next job ask for, and why?", make.person(planted.application, engine, NOW, "memo"))
    walk.click(sql("SELECT job_id FROM jobs WHERE \"user\" = 'memo' ORDER BY id DESC LIMIT 1")[0][0])
    used = """
        SELECT max(p.value), min(j.requested_memory_bytes / j.processors) FROM jobs j
        JOIN profiles p ON p.run_id = j.id AND p.metric = 'memory' WHERE j."user" = 'memo'
    """
    ((most, asked),) = sql(used)
    line = not_none(re.search(r"--mem=(\d+)M", walk.page))  # of the whole job, on one node
    assert most * PROCESSORS <= int(line[1]) * 2**20 < asked * PROCESSORS / 2
    assert f"{most * PROCESSORS / GIB:.0f}" in plain(walk.page.split('class="advice"')[1].split("</p>")[0])


def test_whether_the_machine_is_full(ask: Ask, sql: Sql) -> None:
    walk = ask("Is the machine full?")
    walk.click("Now")
    ((held, of),) = sql("SELECT sum(processors), (SELECT sum(cpus) FROM nodes) FROM jobs WHERE state = 'running'")
    assert f"on {held} processors (nodes with agents have {of}); 0 queued" in plain(
        walk.part("tile-jobs", "</section>")
    )


def test_how_long_jobs_wait(ask: Ask, sql: Sql) -> None:
    walk = ask("How long do jobs of a queue wait?")
    walk.click("Queue")
    waits = "SELECT start - queued FROM jobs WHERE queue = 'batch' AND state = 'ended' AND \"end\" >= :since ORDER BY 1"
    waited = [wait for (wait,) in sql(waits, since=NOW - 30 * 86400)]
    (row,) = [row for row in walk.part("queues").split("<tr") if ">batch<" in row]
    half, most, _, mean = (plain(f"<td{cell}", " ") for cell in row.split("<td")[4:8])
    for shown, tenths in ((half, 5), (most, 9)):
        minutes, seconds = re.findall(r"\d+", shown) if shown.endswith(" s") else (shown.removesuffix(" min"), "0")
        exact = waited[(tenths * len(waited) - 1) // 10]
        assert exact - 1 <= 60 * int(minutes) + int(seconds) <= 1.2 * exact
    assert mean == FORMATS["seconds"](sum(waited) / len(waited))


def test_whether_the_last_month_was_better(ask: Ask, sql: Sql, engine: Engine) -> None:
    make.execute(engine, "UPDATE jobs SET failure = 'time' WHERE id % 7 = 0 AND state = 'ended'")
    with engine.begin() as connection:
        mark_all(connection)
    count_marked(engine)
    walk = ask("Was the last month better?")
    walk.click("Queue")
    months = """
        SELECT strftime('%Y-%m', j."end", 'unixepoch'), sum(j.failure IS NOT NULL), 1 - sum(m.value * j.processors
        * (j."end" - j.start)) / sum(j.requested_memory_bytes * (j."end" - j.start)) FROM jobs j
        JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory' WHERE state = 'ended' GROUP BY 1 ORDER BY 1 DESC
    """
    rows = [plain(row, " ").split() for row in walk.part("months").split("<tr>")[2:]]
    wanted = [[month, f"{killed}", *FORMATS["percent"](unused).split()] for month, killed, unused in sql(months)]
    assert [[row[0], *row[3:6]] for row in rows] == wanted
    assert len(rows) > 1


def test_whether_the_server_is_healthy(ask: Ask, sql: Sql) -> None:
    walk = ask("Is the server healthy?")
    walk.click("Now")
    assert "The server keeps up." in walk.answer
    states = "SELECT sum(state = 'ended' AND NOT profiled), sum(state = 'running') FROM jobs"
    ((waiting, running),) = sql(states)
    ((age_s,),) = sql("SELECT :now - max(updated) FROM accounting_files", now=NOW)
    for tile, shown in (
        ("backlog", f"{waiting}"),
        ("jobs", f"{running}"),
        ("rejected", "8"),
        ("log", f"{age_s // 60:.0f} min"),
    ):
        figure = walk.part(f"tile-{tile}", "</section>").split('<p class="figure"')[1]
        assert plain(f"<p{figure}").startswith(shown), tile
    assert "free" in plain(walk.part("tile-disk", "</section>"))


def test_what_the_fault_of_a_node_cost(ask: Ask, sql: Sql, engine: Engine) -> None:
    update_machines(engine, SessionSettings(), lambda: NOW)
    walk = ask("What did the fault of a node cost?")
    walk.click("Nodes")
    cost = """
        SELECT h.node, count(*), sum((j."end" - j.start) * j.processors) / 3600.0 FROM jobs j
        JOIN job_nodes h ON h.run_id = j.id WHERE j.state = 'requeued' GROUP BY h.node
    """
    ((node, jobs, hours),) = sql(cost)
    assert f"{node} lost most jobs: {jobs} evicted, requeued or failed" in walk.answer
    assert number_after("which cost", walk.answer) == pytest.approx(hours, rel=0.01)


def test_my_job_was_killed_what_now(ask: Ask, planted: FlaskClient, engine: Engine) -> None:
    rebuild(engine)
    with engine.begin() as connection:
        last = "SELECT max(id) FROM jobs WHERE \"user\" = 'memo' AND state = 'ended'"
        connection.execute(
            text(f"UPDATE jobs SET failure = 'memory', \"end\" = :now - 60 WHERE id = ({last})"), {"now": NOW}
        )
    walk = ask("My job was killed: what now?", make.person(planted.application, engine, NOW, "memo"))
    assert walk.answer.startswith("1 job was killed in the last seven days: paste the lines below")
    killed = walk.part("killed", "</section>")
    assert plain(killed, " ").split("what to request next ")[1].startswith("killed: memory app-memo")
    assert re.search(r"<pre[^>]*>#SBATCH --mem=\d+M", killed)
