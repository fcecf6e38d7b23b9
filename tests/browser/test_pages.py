"""Every page in Chromium: what it shows, that nothing from outside gets to run, and both themes and widths."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from sqlalchemy import delete, insert, select, update
from tests.make import not_none

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.storage import schema
from jobsight_server.storage.job_columns import JobColumns, dump_columns
from jobsight_server.storage.job_counts import count_all
from jobsight_server.systems.matching import tables as matching_tables
from jobsight_server.systems.ranking import tables as ranking_tables
from jobsight_server.systems.ranking.periodic import update_machines
from jobsight_server.web.kit.units import FORMATS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCRIPT = "<script>alert(1)</script>"
SCRIPT_PATH = quote(SCRIPT, safe="")
PAGES = {
    "start": "/",
    "now": "/now",
    "waste": "/waste",
    "savings": "/savings?node_hour=0.9",
    "accuracy": "/accuracy",
    "accuracy by cluster": "/accuracy?by=cluster",
    "network": "/network",
    "users": "/users",
    "queue": "/queue",
    "user": f"/user?cluster=alpha&name={SCRIPT_PATH}",
    "jobs": "/jobs",
    "mine": f"/mine?user={SCRIPT_PATH}",
    "job": f"/job?cluster=alpha&name={SCRIPT_PATH}",
    "running job": f"/job?cluster=alpha&name={quote('<b>9', safe='')}",
    "nodes": "/nodes",
    "node": "/node?cluster=alpha&name=n01",
    "plan": "/plan?cluster=alpha",
    "empty plan": "/plan?cluster=beta",
    "resources": "/resources",
    "matches": "/matches",
    "match": "/matches/1",
}


class Watched:
    """A page, with everything that it should not have done."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("requestfailed", lambda request: self._failed(request.url, request.failure))
        page.on("request", lambda request: self._asked(request.url))

        def on_dialog(dialog: Any) -> None:
            self.faults.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("dialog", on_dialog)

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:  # violations of the content security policy are errors
            self.faults.append(f"{kind}: {text}")

    def _failed(self, url: str, failure: str | None) -> None:
        if "ERR_ABORTED" not in (failure or ""):  # leaving a page aborts its poll
            self.faults.append(f"request: {url}: {failure}")

    def _asked(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.faults.append(f"asked another host: {url}")


@pytest.fixture
def watched(context: BrowserContext) -> Iterator[Watched]:
    """A fresh page; whatever it did that it should not have fails the test."""
    page = context.new_page()
    watched = Watched(page)
    yield watched
    page.close()
    assert watched.faults == []


def show(page: Page, name: str) -> None:
    """Open a page and wait until its scripts have drawn it."""
    page.goto(PAGES[name])
    if name == "job":  # it does not change any more, so it does not poll
        expect(page.locator(".key").first).to_be_visible()
    elif name in ("start", "network", "savings", "queue"):
        expect(page.locator("#answer")).to_be_visible()
    elif name.startswith("accuracy") or name == "waste":
        expect(page.locator("#rows tbody tr").first).to_be_visible()
    else:
        expect(page.locator("#live")).to_have_text("live")


@pytest.mark.parametrize("name", PAGES)
def test_each_page_in_both_themes_and_widths_with_its_json(watched: Watched, name: str) -> None:
    page = watched.page
    show(page, name)
    address = page.locator("link[rel=alternate][type='application/json']").get_attribute("href")
    answer = page.request.get(address or "")
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json(), dict)
    grounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        for width in (1280, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            # Charts take the new width a moment later.
            page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
            if width == 1280:  # on narrower ones, tables scroll beside their first column
                wide = "[...document.querySelectorAll('.scroll')].filter((of) => of.scrollWidth > of.clientWidth)"
                assert page.evaluate(f"{wide}.map((of) => [of.ariaLabel, of.scrollWidth - of.clientWidth])") == []
    assert len(grounds) == 2


def test_a_phone_shows_who_wastes_how_much(watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    show(page, "waste")
    region, cells = page.locator("#rows .scroll"), page.locator("#rows td.strong:first-of-type")
    right = region.evaluate("region => region.getBoundingClientRect().right")
    assert cells.count() > 0
    for cell in cells.all():
        box = not_none(cell.bounding_box())
        assert box["x"] + box["width"] <= right


@pytest.mark.parametrize("width", [1280, 390])
def test_the_key_slash_goes_to_the_search_that_every_page_shows(watched: Watched, width: int) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    field = page.get_by_role("searchbox", name="Find")
    for path in ("/nodes", "/waste"):  # on the way of a page that is still loading, too
        page.goto(path, wait_until="domcontentloaded")
        expect(field).to_be_in_viewport(ratio=1)
        page.keyboard.type("/n01")
        expect(field).to_be_focused()
        expect(field).to_have_value("n01")
    page.keyboard.type("/")
    expect(field).to_have_value("n01/")  # while typing it is a character
    field.fill("4711")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/(find.text|jobs.job_id)=4711"))


@pytest.mark.exhaustive
def test_an_array_is_a_row_that_opens_and_stays_open(watched: Watched, address: Any) -> None:
    tasks = [{"id": 90_000 + task, "job_id": f"4711_{task}", "recorded_at": 1.0} for task in range(1, 4)]
    with address.engine.begin() as connection:
        first = connection.execute(select(schema.jobs).where(schema.jobs.c.id == 5)).one()._asdict()
        connection.execute(insert(schema.jobs), [first | task | {"array_task": None} for task in tasks])
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/jobs?job_id=4711")
    expect(page.locator("#live")).to_have_text("live")
    summary = page.locator("summary", has_text="Array 4711")
    expect(summary).to_contain_text("3 tasks, 3 ended")
    task = page.get_by_role("link", name="4711_2", exact=True)
    expect(task).to_be_hidden()
    summary.focus()
    page.keyboard.press("Enter")
    expect(task).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with address.engine.begin() as connection:
        connection.execute(update(schema.jobs).where(schema.jobs.c.id == 90_001).values(state="running", end=None))
    expect(summary).to_contain_text("1 running, 2 ended")
    expect(task).to_be_visible()
    with address.engine.begin() as connection:
        connection.execute(delete(schema.jobs).where(schema.jobs.c.id > 90_000))


def queue_match(address: Any, number: int) -> None:
    """Another job that waits, as another client would queue it."""
    row = {"id": number, "name": f"late-{number}", "priority": 1.0, "job": '{"dependencies": []}', "version": 1}
    row |= {"state": "queued", "submitted_at": time.time(), "rounds": 0}
    with address.engine.begin() as connection:
        connection.execute(insert(matching_tables.matches).values(row))


@pytest.mark.exhaustive
def test_only_a_page_that_is_logged_out_says_so(browser: Browser, address: Any) -> None:
    context = browser.new_context(base_url=address.url)
    page = context.new_page()
    address.log_in(page)
    queue_match(address, 101)
    page.goto("/matches/101")
    expect(page.locator("#live")).to_have_text("live")
    with address.engine.begin() as connection:
        connection.execute(delete(matching_tables.matches).where(matching_tables.matches.c.id == 101))
    expect(page.locator("#live")).to_have_text("not updated: status 404")
    context.clear_cookies()
    expect(page.locator("#live")).to_have_text("logged out; reload to log in again")
    context.close()


def test_the_clock_of_the_browser_is_used_where_it_is_chosen(browser: Browser, address: Any) -> None:
    there = browser.new_context(base_url=address.url, timezone_id="Asia/Kolkata")
    page = there.new_page()
    address.log_in(page)
    page.goto("/jobs")
    first = page.locator("#jobs time").first
    utc = first.inner_text()
    assert (first.get_attribute("datetime") or "").startswith(utc.replace(" ", "T"))
    page.get_by_role("button", name="UTC").click()
    expect(page.get_by_role("button", name="Local time")).to_have_attribute("aria-pressed", "true")
    local = datetime.fromisoformat(utc) + timedelta(hours=5, minutes=30)
    expect(first).to_have_text(local.strftime("%Y-%m-%d %H:%M"))
    page.reload()  # the choice stays
    expect(page.locator("#jobs time").first).to_have_text(local.strftime("%Y-%m-%d %H:%M"))
    there.close()


@pytest.mark.exhaustive
def test_user_shows_forecasts_with_toggles(watched: Watched) -> None:
    page = watched.page
    page.goto("/user?cluster=alpha&name=switching")
    expect(page.locator(".plot .u-over")).to_have_count(4)
    bandwidth = page.locator(".plot[data-metric=bandwidth]")
    expect(bandwidth.locator(".key")).to_have_text(["used", "forecast", "reserved"])
    page.get_by_role("link", name="With the published five").click()
    expect(page).to_have_url(re.compile("five=1"))
    expect(page.locator(".plot .u-over")).to_have_count(4)
    expect(bandwidth.locator(".key")).to_have_text(
        ["used", "forecast", "reserved", "history", "sliding-window", "weighted", "locality", "exponential"]
    )
    before = bandwidth.locator("canvas").evaluate("canvas => canvas.toDataURL()")
    key = bandwidth.get_by_role("button", name="weighted")
    key.focus()
    page.keyboard.press("Space")
    expect(key).to_have_attribute("aria-pressed", "false")
    page.wait_for_function("old => document.querySelector('.plot canvas').toDataURL() !== old", arg=before)
    bandwidth.locator(".u-over").hover()
    expect(bandwidth.locator(".readout")).to_contain_text("used ")
    expect(bandwidth.locator(".readout")).not_to_contain_text("weighted")
    page.get_by_label("end time").check()
    bandwidth.locator(".u-over").hover()
    expect(bandwidth.locator(".readout b")).to_contain_text(":")
    expect(page.locator("#next td.used")).to_have_count(4)


@pytest.mark.exhaustive
def test_points_of_a_chart_open_their_jobs(watched: Watched) -> None:
    page = watched.page
    page.goto("/user?cluster=alpha&name=steady")
    chart = page.locator(".plot[data-metric=memory] .chart")
    expect(chart.locator(".u-over")).to_be_visible()
    known = page.request.get("/api/v1/user/history?name=steady&cluster=alpha").json()["metrics"]["memory"]
    reached = set()
    for _ in range(90):  # by keyboard alone
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.closest('form, .plot, #applications')?.className ?? ''"))
        if chart.evaluate("chart => chart === document.activeElement"):
            break
    expect(chart).to_be_focused()
    assert {"form above", "plot"} <= reached
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    readout = page.locator(".plot[data-metric=memory] .readout")
    expect(readout).to_contain_text(known["job_id"][-2])
    page.keyboard.press("Enter")
    expect(page.locator("h1 .name")).to_have_text(known["job_id"][-2])
    page.go_back()
    expect(chart.locator(".u-over")).to_be_visible()
    chart.focus()
    page.keyboard.press("Home")
    box = not_none(chart.locator(".u-cursor-pt").first.bounding_box())
    at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(at[0] + 4, at[1] + 60)  # beside every point a click opens nothing
    page.mouse.click(at[0] + 4, at[1] + 60)
    page.mouse.move(at[0] + 1, at[1] + 1)
    expect(chart).to_have_class("chart opens")
    page.mouse.click(at[0] + 1, at[1] + 1)
    expect(page.locator("h1 .name")).to_have_text(known["job_id"][0])


def test_the_figures_of_a_chart_are_a_table_in_both_themes(watched: Watched) -> None:
    page = watched.page
    page.goto("/user?cluster=alpha&name=drifting")
    plot = page.locator(".plot[data-metric=memory]")
    expect(plot.locator(".u-over")).to_be_visible()
    known = page.request.get("/api/v1/user/history?name=drifting&cluster=alpha").json()["metrics"]["memory"]
    light = plot.locator("canvas").evaluate("canvas => canvas.toDataURL()")
    plot.locator("summary").focus()
    page.keyboard.press("Enter")
    rows = plot.locator(".figures tbody tr")
    expect(rows).to_have_count(len(known["job_id"]))
    expect(rows.first.locator("th")).to_have_text(known["job_id"][-1])
    expect(rows.first.locator("td").nth(1)).to_have_text(f"{known['actual'][-1] / 2**30:.2f} GiB")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "old => document.querySelector('[data-metric=memory] canvas').toDataURL() !== old", arg=light
    )
    assert rows.first.evaluate("row => getComputedStyle(row.querySelector('td')).color") == page.evaluate(
        "getComputedStyle(document.body).color"
    )
    rows.first.get_by_role("link").click()
    expect(page.locator("h1 .name")).to_have_text(known["job_id"][-1])
    show(page, "node")
    memory = page.locator(".plot[data-kind=memory_used_bytes]")
    memory.locator("summary").click()
    expect(memory.locator(".figures thead th")).to_have_text(["Time", "n01"])
    expect(memory.locator(".figures tbody tr").first).to_contain_text("GiB")
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("document.documentElement.scrollWidth <= 390")


@pytest.mark.exhaustive
def test_a_users_page_follows_new_jobs_and_keeps_what_is_typed(watched: Watched, address: Any) -> None:
    page = watched.page
    page.goto("/user?cluster=alpha&name=switching")
    expect(page.locator("#live")).to_have_text("live")
    count = page.locator("#facts")
    before = count.inner_text()
    page.get_by_label("Memory, whole job").fill("12")
    with address.engine.begin() as connection:
        run = connection.execute(select(schema.jobs).where(schema.jobs.c.user == "switching").limit(1)).one()
        new = run._asdict() | {
            "id": 95_000,
            "job_id": "95000.server",
            "state": "running",
            "end": None,
            "profiled": False,
        }
        connection.execute(insert(schema.jobs), [new])
        count_all(connection)
    expect(count).to_contain_text("1 running")
    assert before != count.inner_text()
    expect(page.get_by_label("Memory, whole job")).to_have_value("12")
    expect(page.locator("#next").get_by_role("button", name="Copy for Slurm")).to_be_visible()
    with address.engine.begin() as connection:
        connection.execute(delete(schema.jobs).where(schema.jobs.c.id == 95_000))
        count_all(connection)


def test_a_job_draws_its_own_readings_and_copies_what_to_ask_next(watched: Watched, address: Any) -> None:
    page, cgroup = watched.page, schema.job_samples
    with address.engine.begin() as connection:
        run = connection.execute(select(schema.jobs).where(schema.jobs.c.job_id == SCRIPT)).one()
        node_id = connection.scalar(select(schema.nodes.c.id).where(schema.nodes.c.name == "n01"))
        times = [run.start + i * (run.end - run.start) / 99 for i in range(100)]
        used = [int((1 + i % 7 / 7) * 2**30) for i in range(100)]
        own = JobColumns(times, [2.0 * (time - run.start) for time in times], used, [0] * 100)
        span = {"first_time": times[0], "last_time": times[-1], "samples": 100, "readings": dump_columns(own)}
        connection.execute(insert(cgroup).values(node_id=node_id, job_id=SCRIPT, **span))
    show(page, "job")
    memory = page.locator(".plot[data-kind=own_memory]")
    expect(page.locator(".own .u-over")).to_have_count(2)
    memory.locator(".u-over").hover()
    expect(memory.locator(".readout")).to_contain_text("GiB")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    expect(page.locator(".key")).to_have_text(["n01", "n02", "sum", "request"])
    memory.locator("summary").click()
    expect(memory.locator(".figures thead th")).to_have_text(["Time", "n01", "request"])
    first = memory.locator(".figures tbody tr").last.locator("td")
    expect(first).to_have_text([re.compile(":"), "1.00 GiB", "32.0 GiB"])
    nodes = page.locator(".plot[data-kind=memory_used_bytes]")
    nodes.locator("summary").click()
    expect(nodes.locator(".figures thead th")).to_have_text(["Time", "n01", "n02", "sum", "request"])
    _, one, other, both, _ = nodes.locator(".figures tbody tr").nth(5).locator("td").all_inner_texts()
    assert float(both.split()[0]) == pytest.approx(float(one.split()[0]) + float(other.split()[0]), abs=0.15)
    lines = page.locator(".paste pre").first
    expect(lines).to_contain_text("#SBATCH")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy for Slurm").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == lines.text_content()
    theirs = watched.page.context.browser.new_page()  # type: ignore[union-attr]
    address.log_in(theirs, SCRIPT)  # the user of this job, who sees no readings of whole nodes
    theirs.goto(f"{address.url}{PAGES['job']}")
    expect(theirs.locator(".own .u-over")).to_have_count(2)
    expect(theirs.locator(".u-over")).to_have_count(2)
    theirs.context.close()
    with address.engine.begin() as connection:
        connection.execute(delete(cgroup).where(cgroup.c.job_id == SCRIPT))


def test_values_are_written_alike_by_server_and_script(watched: Watched) -> None:
    page = watched.page
    show(page, "now")
    numbers = [0, 0.0004, 0.25, 0.9996, 1, 2.5, 9.994, 9.996, 12.34, 59.94, 59.96, 61.5, 99.96, 754, 999.5, 3599.5]
    numbers += [1023.6, 18_720.5, 273_600, 1234567.5, 1e9, 8.54e6, 1_610_612_736, 1.7e9, -0.21, -75.0]
    values: dict[str, list[Any]] = {name: [*numbers, None] for name in FORMATS}
    values["minute_rate"] = [[1.0, 2.0, 3.0, 4.5, 5.0], [0.0] * 60, [], None]
    values["text"] = ["", "a", SCRIPT, None]
    by_script: list[tuple[str, list[str]]] = page.evaluate(
        """async (values) => {
            const { format } = await import("/assets/format.js");
            return Object.entries(values).map(([name, list]) => [name, list.map((value) => format(name, value))]);
        }""",
        values,
    )
    assert dict(by_script) == {name: [FORMATS[name](value) for value in values[name]] for name in FORMATS}


@pytest.mark.parametrize("width", [1280, 1920])
def test_tables_leave_room_at_the_width_of_a_screen(watched: Watched, address: Any, width: int) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 900})
    update_machines(address.engine, SessionSettings(), time.time)
    with address.engine.begin() as connection:
        counts = {"sessions": 1234, "successes": 12_345, "evictions": 1234, "failures": 1234, "user_failures": 1234}
        connection.execute(update(ranking_tables.machines).values(counts))
    for path, table in (("/nodes", "#nodes table"), ("/user?cluster=alpha&name=steady", "#next table")):
        page.goto(path)
        expect(page.locator(table).locator("tbody td.num").first).to_be_visible()
        # Names and figures of other sites are wider by a few characters.
        least, box = page.locator(table).evaluate(
            "table => { table.style.width = '1px'; return [table.offsetWidth, table.parentElement.clientWidth]; }"
        )
        assert least <= box - 48, (path, least, box)
