"""Fourteen questions of administrators and users, each answered within two clicks from the start page and as SQL does.

With ``JOBSIGHT_SCREENSHOTS`` set, a picture of each answer is written there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from sqlalchemy import text

from jobsight_server.systems.ranking.board import RankConfig
from jobsight_server.systems.ranking.periodic import update_machines
from jobsight_server.web.kit.units import FORMATS

from .conftest import Address, serving
from .planted import BROKEN_DAYS_AGO, DAY_S, GIB, PROCESSORS, plant

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DOCUMENT = Path(__file__).parents[2] / "docs/use/questions.md"
CLICKS_AT_MOST = 2


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with serving(tmp_path_factory.mktemp("planted"), plant) as found:
        update_machines(found.engine, RankConfig(), time.time)
        yield found


class Walk:
    """From the start page on, by links and buttons alone, which are counted."""

    def __init__(self, page: Page, address: Address, question: str) -> None:
        self.page, self.address, self.question, self.clicks = page, address, question, 0
        page.goto(address.url)

    def click(self, found: Locator) -> None:
        found.click()
        self.page.wait_for_load_state("load")
        self.clicks += 1

    def open(self, name: str) -> None:
        self.click(self.page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True))

    @property
    def answer(self) -> str:
        return self.page.locator("#answer").inner_text()

    def sql(self, query: str, **values: Any) -> Any:
        with self.address.engine.connect() as connection:
            return connection.execute(text(query), values).all()

    def finish(self) -> None:
        """No more clicks than the document says, which are two at most; a picture where one is wanted."""
        (row,) = [line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| {self.question} |")]
        assert self.clicks == int(row.rstrip("| ").rpartition("|")[2]) <= CLICKS_AT_MOST
        if folder := os.environ.get("JOBSIGHT_SCREENSHOTS"):
            name = re.sub(r"[^a-z0-9]+", "-", self.question.lower()).strip("-")
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.fixture
def ask(context: BrowserContext, address: Address) -> Iterator[Callable[[str], Walk]]:
    page = context.new_page()
    walks: list[Walk] = []

    def begin(question: str) -> Walk:
        walks.append(Walk(page, address, question))
        return walks[-1]

    yield begin
    for walk in walks:
        walk.finish()
    page.close()


Ask = Callable[[str], Walk]
SPAN_S = 30 * DAY_S
# Of the days that a page of 30 days is about, the last of which is that of the newest job.
WASTED = """
    SELECT j."user", sum({what}) / 3600.0 FROM jobs j
    JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory' JOIN profiles c ON c.run_id = j.id AND c.metric = 'cpu'
    WHERE cast(j."end" / 86400 AS integer) > (SELECT max(cast("end" / 86400 AS integer)) FROM jobs WHERE profiled) - 30
    GROUP BY j."user" ORDER BY 2 DESC LIMIT 1
"""
UNUSED_MEMORY = '(j.requested_memory_bytes - m.value * j.processors) * (j."end" - j.start) / 1073741824.0'
IDLE = '(1 - c.value) * j.processors * (j."end" - j.start)'
TOO_LONG = '(j.requested_walltime_s - (j."end" - j.start)) * j.processors'


def number_after(words: str, answer: str) -> float:
    found = re.search(rf"{words}:? ([0-9,.]+)", answer)
    assert found is not None, answer
    return float(found[1].rstrip(".").replace(",", ""))


def test_every_question_of_the_document_is_asked() -> None:
    rows = [
        line.split("|")[1].strip()
        for line in DOCUMENT.read_text().splitlines()
        if line.endswith((" 0 |", " 1 |", " 2 |"))
    ]
    asked = re.findall(r'"([^"\n]+\?)"[,)]', Path(__file__).read_text())
    assert sorted(rows) == sorted(asked)
    assert len(rows) == 14


@pytest.mark.parametrize(
    ("question", "link", "what", "words"),
    [
        ("Who wastes most memory?", None, UNUSED_MEMORY, "left the most memory unused"),
        ("Who wastes most processors?", "Processors idle", IDLE, "left the most processor time idle"),
        ("Who wastes most time?", "Limits too long", TOO_LONG, "were longest"),
    ],
)
def test_who_wastes_most(ask: Ask, question: str, link: str | None, what: str, words: str) -> None:
    walk = ask(question)
    walk.open("Waste")
    if link is not None:
        walk.click(walk.page.get_by_role("link", name=link).first)
    ((user, hours),) = walk.sql(WASTED.format(what=what))
    assert walk.answer.removeprefix("Limits of ").startswith(f"{user} {words}")
    assert number_after(words, walk.answer) == pytest.approx(hours, rel=0.01)


def test_what_it_would_save(ask: Ask) -> None:
    walk = ask("What would better requests save?")
    walk.open("Waste")
    bounds = '(j.requested_memory_bytes - m.bound * j.processors) * (j."end" - j.start) / 1073741824.0'
    ((user, hours),) = walk.sql(WASTED.format(what=bounds))
    assert user in walk.answer
    assert number_after("would have freed", walk.answer) == pytest.approx(hours, rel=0.01)


def test_who_improved(ask: Ask) -> None:
    walk = ask("Who improved?")
    walk.open("Waste")
    walk.click(walk.page.get_by_role("link", name="Who improved"))
    of_user = """
        SELECT 100.0 * (sum(j.requested_memory_bytes) - sum(m.value * j.processors)) / sum(j.requested_memory_bytes)
        FROM jobs j JOIN profiles m ON m.run_id = j.id AND m.metric = 'memory'
        JOIN (SELECT max(cast("end" / 86400 AS integer)) AS last FROM jobs WHERE profiled)
        WHERE j."user" = 'imp' AND cast(j."end" / 86400 AS integer) > last - 60
        GROUP BY cast(j."end" / 86400 AS integer) > last - 30 ORDER BY max(j."end")
    """
    (before,), (now,) = walk.sql(of_user)
    assert walk.answer.startswith(f"imp improved most: {before:.0f} % of the memory unused before, {now:.0f} % now")


def test_which_node_went_silent_and_when(ask: Ask) -> None:
    walk = ask("Which node went silent, and when?")
    ((node, since),) = walk.sql("SELECT name, received_at FROM nodes WHERE received_at < :at", at=time.time() - 3600)
    assert f"1 of 4 nodes is silent, {node} since {time.strftime('%Y-%m-%d %H:%M', time.gmtime(since))}" in walk.answer


def test_what_rejected_data(ask: Ask) -> None:
    walk = ask("What rejected data, and why?")
    walk.click(walk.page.get_by_role("link", name="Rejected data"))
    rejected = walk.sql(
        "SELECT label, value FROM event_counts WHERE name IN (:a, :b) ORDER BY value DESC",
        a="batches_rejected",
        b="accounting_rejected_because",
    )
    rows = walk.page.locator("#reasons tbody tr")
    expect(rows).to_have_count(len(rejected))
    for row, (reason, number) in zip(rows.all(), rejected, strict=True):
        expect(row).to_contain_text(reason)
        expect(row.locator("td.num")).to_have_text(f"{number:,}")


def test_which_job_uses_the_network_now(ask: Ask) -> None:
    walk = ask("Which job uses the network now?")
    moved = """
        SELECT j.job_id, 8 * (b.net_in_bytes + b.net_out_bytes - a.net_in_bytes - a.net_out_bytes) / (b.time - a.time)
        FROM jobs j JOIN job_nodes h ON h.run_id = j.id JOIN nodes n ON n.name = h.node AND n.cluster = j.cluster
        JOIN samples b ON b.node_id = n.id AND b.time = n.last_time
        JOIN samples a ON a.node_id = n.id AND a.time = (
            SELECT max(time) FROM samples WHERE node_id = n.id AND time <= n.last_time - 120)
        WHERE j.state = 'running' ORDER BY 2 DESC LIMIT 1
    """
    ((job, bps),) = walk.sql(moved)
    assert f"Job {job} of fit uses the network most: {FORMATS['bps'](bps)}" in walk.answer
    expect(walk.page.locator("#running tbody th").first).to_have_text(job)


def test_what_will_run_out_in_the_next_hour(ask: Ask) -> None:
    walk = ask("What will run out in the next hour?")
    walk.click(walk.page.locator("#answer").get_by_role("link", name="will probably run out"))
    late = "SELECT job_id FROM jobs WHERE state = 'running' AND start + requested_walltime_s <= :at"
    wanted = [job for (job,) in walk.sql(late, at=time.time() + 3600)]
    rows = walk.page.locator("#running-out tbody tr").filter(has_text="time")
    assert rows.locator("th").all_inner_texts() == wanted != []


def test_whose_forecasts_are_wrong_since_when(ask: Ask) -> None:
    walk = ask("Whose forecasts are wrong, since when?")
    walk.open("Trust")
    worse = """
        SELECT j."user", date(min(j."end"), 'unixepoch') FROM jobs j JOIN profiles p ON p.run_id = j.id
        WHERE p.metric = 'memory' AND abs(p.forecast - p.value) > 0.3 * p.value GROUP BY j."user"
    """
    ((user, day),) = walk.sql(worse)
    found = re.search(r"memory of user (\w+) since (\S+),", walk.answer)
    assert found is not None, walk.answer
    assert found[1] == user
    apart = time.mktime(time.strptime(found[2], "%Y-%m-%d")) - time.mktime(time.strptime(day, "%Y-%m-%d"))
    assert abs(apart) <= DAY_S * 1.1
    assert BROKEN_DAYS_AGO >= 7


def test_what_did_array_4711_use(ask: Ask) -> None:
    walk = ask("What did array 4711 use?")
    walk.open("Jobs")
    walk.page.get_by_role("searchbox", name="Job", exact=True).fill("4711")
    walk.click(walk.page.get_by_role("button", name="Show"))
    most = """
        SELECT count(*), max(p.value * j.processors), max(j."end" - j.start) FROM jobs j
        JOIN profiles p ON p.run_id = j.id AND p.metric = 'memory' WHERE j.job_id LIKE '4711\\_%' ESCAPE '\\'
    """
    ((tasks, memory, longest),) = walk.sql(most)
    summary = walk.page.locator("summary", has_text="Array 4711")
    expect(summary).to_contain_text(f"{tasks} tasks, {tasks} ended")
    expect(summary).to_contain_text(f"{memory / GIB:.2f} GiB of memory")
    expect(summary).to_contain_text(f"{longest / 3600:.0f} h of run time")


@pytest.mark.exhaustive
def test_what_my_next_job_should_ask_for_and_why(browser: Browser, address: Address) -> None:
    context = browser.new_context(base_url=address.url)
    page = context.new_page()
    address.log_in(page, "memo")
    walk = Walk(page, address, "What should my next job ask for, and why?")
    walk.open("My jobs")
    walk.click(page.locator("#jobs tbody th a").first)
    used = """
        SELECT max(p.value), min(j.requested_memory_bytes / j.processors), count(*) FROM jobs j
        JOIN profiles p ON p.run_id = j.id AND p.metric = 'memory' WHERE j."user" = 'memo'
    """
    ((most, asked, jobs),) = walk.sql(used)
    line = re.search(r"--mem-per-cpu=(\d+)M", page.locator(".paste pre").first.inner_text())
    assert line is not None
    assert most <= int(line[1]) * 2**20 < asked / 2
    why = page.locator(".advice").first.inner_text()
    assert f"{most * PROCESSORS / GIB:.0f}" in why
    assert jobs > 0
    walk.finish()
    context.close()


def test_whether_the_server_is_healthy(ask: Ask) -> None:
    walk = ask("Is the server healthy?")
    page = walk.page
    assert "The server keeps up." in walk.answer
    ((waiting, queued, running),) = walk.sql(
        "SELECT sum(state = 'ended' AND NOT profiled), sum(state = 'queued'), sum(state = 'running') FROM jobs"
    )
    for tile, number in (("backlog", waiting), ("jobs", running), ("rejected", 8)):
        figure = page.locator("section", has=page.locator(f"#tile-{tile}")).locator(".figure")
        expect(figure).to_contain_text(f"{number:,}")
    assert queued == 0
    ((updated,),) = walk.sql("SELECT max(updated) FROM accounting_files")
    age_s = time.time() - updated
    log = page.locator("section", has=page.locator("#tile-log")).locator(".figure").inner_text()
    minutes = re.match(r"(\d+) min", log)
    assert minutes is not None, log
    assert abs(int(minutes[1]) - age_s / 60) < 2
    expect(page.locator("section", has=page.locator("#tile-disk"))).to_contain_text("free")


def test_what_the_fault_of_a_node_cost(ask: Ask) -> None:
    walk = ask("What did the fault of a node cost?")
    walk.open("Nodes")
    cost = """
        SELECT h.node, count(*), sum((j."end" - j.start) * j.processors) / 3600.0 FROM jobs j
        JOIN job_nodes h ON h.run_id = j.id WHERE j.state = 'requeued' GROUP BY h.node
    """
    ((node, jobs, hours),) = walk.sql(cost)
    assert f"{node} lost most jobs: {jobs} evicted, requeued or failed" in walk.answer
    assert number_after("which cost", walk.answer) == pytest.approx(hours, rel=0.01)
