"""Takes the screenshots of `docs/screenshots`: of the report of README's example, and of a running site, the demo's.

    JOBSIGHT_SCREENSHOTS=docs/screenshots JOBSIGHT_SITE_URL=http://127.0.0.1:8470 \
    JOBSIGHT_LOGIN="$(jobsight token login ...)" pytest tests/browser/test_screenshots.py
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from tests.make import not_none

from jobsight_server.cli import main

NEEDED = ("JOBSIGHT_SCREENSHOTS", "JOBSIGHT_SITE_URL", "JOBSIGHT_LOGIN")
ROOT = Path(__file__).parents[2]


def needs(names: Sequence[str]) -> pytest.MarkDecorator:
    reason = f"set {', '.join(names)} to take the screenshots"
    return pytest.mark.skipif(not all(map(os.environ.get, names)), reason=reason)


pytestmark = [pytest.mark.browser, needs(NEEDED[:1])]

LARGEST_BYTES = 130_000
LAST = {"user": ".plot[data-metric=bandwidth]"}  # the first of four charts that look alike


def test_the_report(browser: Browser, tmp_path: Path) -> None:
    """As much as ends with a row of its table."""
    file = tmp_path / "report.html"
    assert main(["report", str(ROOT / "examples/accounting/slurm-202611.txt.gz"), "--output", str(file)]) == 0
    page = browser.new_page(viewport={"width": 1280, "height": 590})
    page.goto(file.as_uri())
    (Path(os.environ["JOBSIGHT_SCREENSHOTS"]) / "report.png").write_bytes(picture(page, "body"))
    page.close()


@needs(NEEDED)
def test_screenshots(browser: Browser) -> None:
    """Seven pictures, one of them dark and one on a phone; none over 130 kB."""
    folder, url, login = (os.environ[name] for name in NEEDED)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=url)
    page = context.new_page()
    page.goto(login)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Start")).to_be_visible()
    paths = choose(page)
    for name, scheme, width, height in (
        ("start", "light", 1280, 1150),
        ("mine", "light", 1280, 900),
        ("now", "light", 1280, 1150),
        ("waste", "light", 1280, 1150),
        ("user", "light", 1280, 1150),
        ("job", "dark", 1280, 1150),
        ("now-phone", "light", 390, 1300),
    ):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": height})
        page.goto(paths[name])
        settle(page)
        (target / f"{name}.png").write_bytes(picture(page, LAST.get(name, "footer")))
    context.close()


def picture(page: Page, last: str) -> bytes:
    """The page from its top to the element ``last``, within the window."""
    bottom = page.locator(last).evaluate("element => Math.ceil(element.getBoundingClientRect().bottom) + 10")
    size = not_none(page.viewport_size)
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], bottom)}
    png = in_palette(page.screenshot(clip=clip, animations="disabled"))  # type: ignore[arg-type]
    assert len(png) < LARGEST_BYTES, f"{page.url}: {len(png)} bytes"
    return png


def in_palette(png: bytes) -> bytes:
    """Reduce the picture to 256 colours, a third of its size; pages have few colours."""
    packed = io.BytesIO()
    # By coverage and not by number: the median cut takes thin lines of similar colours for one.
    few = (
        Image.open(io.BytesIO(png))
        .convert("RGB")
        .quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    )
    few.save(packed, "PNG", optimize=True)
    return packed.getvalue()


def choose(page: Page) -> dict[str, str]:
    """Choose the pages of the user and the job that show most, by the site's JSON."""
    users: list[dict[str, Any]] = page.request.get("/api/v1/users?sort=jobs&order=desc").json()["users"]

    def telling(user: dict[str, Any]) -> float:
        # Neither always right nor hopeless: where forecasters differ there is something to see.
        asked = {"cluster": user["cluster"], "name": user["user"]}
        metrics = page.request.get("/api/v1/user", params=asked).json()["metrics"]
        answer = next((each for each in metrics if each["metric"] == "bandwidth"), {})
        return abs((answer.get("pqm") or 0.0) - 0.55)

    user = min(users[:20], key=telling)
    runs = page.request.get("/api/v1/jobs", params={"state": "ended"}).json()["jobs"]
    # On several nodes if there is one, but not on so many that the lines hide each other.
    run = max(runs, key=lambda run: (run["profiled"], min(run["processors"] or 0, 64), run["end"] - run["start"]))
    return {
        "start": "/",
        "mine": f"/mine?user={user['user']}",
        "now": "/now",
        "now-phone": "/now",
        "waste": "/waste",
        "user": f"/user?cluster={user['cluster']}&name={user['user']}",
        "job": f"/job?cluster={run['cluster']}&name={run['job_id']}",
    }


def settle(page: Page) -> None:
    """Wait until the page's first data have come and its charts are drawn."""
    page.wait_for_load_state("load")
    if page.locator("[data-settled]").count() == 0:
        expect(page.locator("#live")).to_have_text("live")
    for chart in page.locator(".chart").all():
        expect(chart.locator("canvas")).to_be_attached()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
