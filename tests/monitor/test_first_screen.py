"""The first screen of the live page in a real browser: what is seen without scrolling."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from anyio.from_thread import start_blocking_portal

from docs.scenarios import SCENARIOS, showing

if TYPE_CHECKING:
    from collections.abc import Iterator

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra test-browser")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="needs the extra test-browser"
)

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(EXECUTABLE is None, reason="needs chromium-headless-shell or chromium"),
]

SCREENS = {"desktop": {"width": 1400, "height": 900}, "phone": {"width": 400, "height": 800}}

IDLE_MILLISECONDS = 2500
"""How long a page is observed that has nothing to do: several of its updates."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=[*SCENARIOS])
def run(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Yield the name of a run and the address of its page."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(showing(request.param)) as dashboard,
    ):
        yield request.param, dashboard.url


@contextmanager
def opened(browser: Any, url: str, screen: str, scheme: str) -> Iterator[Any]:
    """Yield a page that has got its first update."""
    context = browser.new_context(viewport=SCREENS[screen], color_scheme=scheme)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(url)
    sync_api.expect(page.locator("#connection")).not_to_be_empty()
    yield page
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [*SCREENS])
def test_the_first_screen(browser: Any, run: tuple[str, str], screen: str, scheme: str) -> None:
    name, url = run
    with opened(browser, url, screen, scheme) as page:
        # From top to bottom: the state, active alerts, progress, and a card with its number.
        parts = ["#state h2", "#alerts", "#progress p", "#metrics .big"]
        if name in {"doubt", "steady", "early", "ended", "waiting"}:
            parts.remove("#alerts")
            assert page.locator("#alerts").count() == 0
        bottom = 0.0
        for part in parts:
            box = page.locator(part).first.bounding_box()
            assert box["y"] >= bottom, part
            bottom = box["y"] + box["height"]
            assert bottom < SCREENS[screen]["height"], part
        first_chart = page.locator("svg.chart").first.bounding_box()
        assert first_chart["y"] + first_chart["height"] < SCREENS[screen]["height"]

        # Nothing needs scrolling sideways, not even a table in its box.
        assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen]["width"]
        wide = (
            "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
        )
        assert page.evaluate(f"{wide}.map(e => e.ariaLabel)") == []

        violations = axe.Axe().run(page).response["violations"]
        assert [violation["id"] for violation in violations] == []


def test_an_idle_page_sends_no_request_but_its_event_stream(
    browser: Any, run: tuple[str, str]
) -> None:
    _, url = run
    context = browser.new_context()
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    with page.expect_request("**/events"):
        page.goto(url)
    page.wait_for_timeout(IDLE_MILLISECONDS)
    context.close()
    loaded = {"", "style.css", "live.js", "icon.svg", "events"}
    assert {request.removeprefix(url) for request in requests} <= loaded
    assert requests.count(f"{url}events") == 1


def test_the_pages_that_the_first_one_leads_to(browser: Any, run: tuple[str, str]) -> None:
    _, url = run
    for screen in SCREENS:
        with opened(browser, url, screen, "light") as page:
            paths = {
                "templates": "templates",
                "failures": "#failures a",
                "results": "#latest-table tbody a",
            }
            for path, selector in paths.items():
                page.goto(url)
                if selector == path:
                    page.goto(f"{url}{path}")
                else:
                    page.locator(selector).first.click()
                    page.wait_for_url(f"{url}{path}**")
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width <= SCREENS[screen]["width"], path
                violations = axe.Axe().run(page).response["violations"]
                assert [violation["id"] for violation in violations] == [], path
