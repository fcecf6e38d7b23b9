"""axe-core finds nothing on any page, in both themes and three widths, and the keyboard alone reaches everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import update
from tests.browser.axe import NoAxeError, find_axe
from tests.browser.test_pages import PAGES

from jobsight_predictor.reliability.sessions import SessionSettings
from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings
from jobsight_server.storage import schema
from jobsight_server.systems.ranking.periodic import update_machines

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ALL = {
    **PAGES,
    "a node that the log names": "/node?cluster=alpha&name=n09",
    "jobs by filters": "/jobs?job_id=4711&range=1y&used_below=50",
    "several names": "/find?text=a",
    "an error": "/jobs?state=none",
}
"""Every page, by a name."""

NOT_PAGES = {"static", "jobs_csv"}


@pytest.fixture(scope="module")
def axe(request: pytest.FixtureRequest) -> str:
    try:
        return find_axe(request.config.cache.mkdir("axe"))
    except NoAxeError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def filled(context: BrowserContext, address: Any) -> BrowserContext:
    """The site with what the other tests add: machines, an array."""
    update_machines(address.engine, SessionSettings(), time.time)
    with address.engine.begin() as connection:
        for task in (1, 2, 3):
            job = {"job_id": f"4711_{task}", "array_task": f"4711_{task}"}
            connection.execute(update(schema.jobs).where(schema.jobs.c.id == 10 + task).values(job))
    return context


@pytest.fixture
def page(filled: BrowserContext) -> Iterator[Page]:
    page = filled.new_page()
    yield page
    page.close()


@pytest.mark.exhaustive
def test_every_page_is_looked_at(address: Any) -> None:
    app = create_app(load_settings(flags={"database": "sqlite://"}), address.engine, address.engine)
    adapter = app.url_map.bind("site")
    seen = {str(adapter.match(path.partition("?")[0])[0]) for path in ALL.values()}
    pages = {rule.endpoint for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ())}
    wanted = {name.removeprefix("pages.") for name in pages if name.startswith("pages.")}
    assert {name.removeprefix("pages.") for name in seen} == wanted - NOT_PAGES


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ALL)
def test_axe_finds_nothing(page: Page, axe: str, name: str) -> None:
    page.goto(ALL[name])
    page.wait_for_load_state("load")
    page.evaluate(axe)
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for width in (1440, 1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            for fault in page.evaluate("axe.run()")["violations"]:
                where = [(node["target"], node["failureSummary"], node["html"][:160]) for node in fault["nodes"][:2]]
                found.append((scheme, width, fault["id"], len(fault["nodes"]), where))
    assert found == []


STOPS = "a[href], button, input, select, textarea, summary, .chart, [tabindex]"
REACHABLE = f"""() => {{
    // Links, fields, buttons and charts that are shown; of the choices of one question, one.
    const shown = (element) => element.checkVisibility({{ visibilityProperty: true }});
    const all = [...document.querySelectorAll("{STOPS}")];
    const wanted = all.filter((one) => shown(one) && !one.disabled && one.type !== "hidden" && one.tabIndex !== -1);
    const questions = new Set();
    for (const one of wanted) {{
        if (one.type === "radio" && questions.has(one.name)) continue;
        if (one.type === "radio") questions.add(one.name);
        one.dataset.wanted = "";
    }}
}}"""
FOCUSED = """() => {
    const one = document.activeElement;
    if (one === document.body || one === null) return "";
    const chosen = one.type === "radio" ? document.querySelector(`[name="${one.name}"][data-wanted]`) : one;
    delete chosen?.dataset.wanted;
    const { outlineStyle, outlineWidth } = getComputedStyle(one);
    const isSeen = outlineStyle !== "none" && parseFloat(outlineWidth) > 0;
    return isSeen ? "seen" : `no outline: ${one.outerHTML.slice(0, 120)}`;
}"""


@pytest.mark.parametrize("name", ALL)
def test_the_keyboard_alone_reaches_everything(page: Page, name: str) -> None:
    page.goto(ALL[name])
    page.wait_for_load_state("load")
    if page.locator("[data-json]").count() and not page.locator("[data-settled]").count():
        expect(page.locator("#live, .chart canvas").first).to_be_attached()
    page.evaluate("document.querySelectorAll('details:not(.menu)').forEach((one) => { one.open = true; })")
    page.evaluate(REACHABLE)
    found: list[str] = []
    # Counted again at each press: figures may still be filling the tables, and each of their links is one more stop.
    while len(found) < page.evaluate(f"document.querySelectorAll('{STOPS}').length") + 20:
        page.keyboard.press("Tab")
        found.append(page.evaluate(FOCUSED))
    assert {*found} <= {"seen", ""}
    missed = page.evaluate("[...document.querySelectorAll('[data-wanted]')].map((one) => one.outerHTML.slice(0, 120))")
    assert missed == []
