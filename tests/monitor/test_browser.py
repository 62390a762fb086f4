"""Dashboard and report in a real browser, where one is installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.support import DEADLINE_SECONDS, failed, finish, response, start, to_jsonl, told
from tests.monitor import hostile
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.support import Folder

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra test-browser")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra test-browser")

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(EXECUTABLE is None, reason="needs chromium-headless-shell or chromium"),
]

WATCH_VIOLATIONS = """
window.violations = [];
const note = (event) => window.violations.push(event.violatedDirective);
document.addEventListener("securitypolicyviolation", note);
"""
MILLISECONDS = 1000 * DEADLINE_SECONDS
sync_api.expect.set_options(timeout=MILLISECONDS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=options)
        yield browser
        browser.close()


class Page:
    """A page and all that went wrong on it."""

    def __init__(self, browser: Any, width: int = 1600, scheme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 1000}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.context.set_default_timeout(MILLISECONDS)
        self.context.add_init_script(WATCH_VIOLATIONS)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, kind: str, text: str) -> None:
        if kind == "error" and "ERR_CONNECTION_REFUSED" not in text and "ERR_INCOMPLETE" not in text:
            self.errors.append(text)

    def check(self) -> None:
        """Nothing was refused, nothing failed, and no text of a response was run."""
        assert self.errors == []
        assert self.page.evaluate("window.violations") == []
        assert self.page.evaluate("window.harmed") is None

    def accessible(self) -> None:
        found = axe.Axe().run(self.page).response["violations"]
        serious = [each for each in found if each["impact"] in {"serious", "critical"}]
        assert not serious, [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]


def watching(folder: Folder, port: int, *options: str) -> Any:
    """A run that follows a log, its pages at the port."""
    log, out = folder.file("log.jsonl"), folder.file("out.jsonl")
    process = start(
        "watch", folder.reference, log, "--web", f"{port}", "-o", out, "--resume", "--window", "2", *options
    )
    assert told(process, "dashboard: http://127.0.0.1:")
    return process


def evaluate(folder: Folder, *arguments: str) -> None:
    """In a process of its own, since the browser has an event loop in this one."""
    assert finish(start("evaluate", folder.reference, *arguments))[0] == 0


def append(folder: Folder, *responses: Any) -> None:
    with open(folder.file("log.jsonl"), "ab") as log:
        log.write(to_jsonl(responses))


def test_a_run_is_seen_as_it_goes_on(folder: Folder, browser: Any) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    append(folder, response("q1"), response("q2", False), response("q3"))
    process = watching(folder, port)
    seen = Page(browser)
    page, expect = seen.page, sync_api.expect
    page.goto(url)
    score = page.locator("#scores .big").first
    expect(score).to_have_text("0.667")

    # The order and the filter that a person chose, and the focus, outlast an update.
    page.get_by_role("button", name="steps_score").first.click()
    rows = page.locator("#templates-table tbody th")
    expect(rows).to_have_text(["a:b=c", "colours"])
    page.get_by_role("button", name="steps_score").first.click()
    expect(rows).to_have_text(["colours", "a:b=c"])
    page.locator("input.filter").first.fill("col")
    append(folder, failed("q3"), response("q1", False))
    expect(score).to_have_text("0.500")
    expect(page.locator("#templates-table tbody tr:visible th")).to_have_text(["colours"])
    expect(page.locator("#templates-table th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    assert page.evaluate("document.activeElement.className") == "filter"
    assert "1 of 2" in page.locator("#templates .count").inner_text()

    expect(page.locator("#failures tbody")).to_contain_text("wrong_query_result")
    page.locator("#templates-table a", has_text="colours").click()
    expect(page.locator("h1")).to_have_text("Questions of colours")
    page.go_back()
    expect(page.locator("#templates-table tbody tr:visible th")).to_have_text(["colours"])
    expect(page.locator("#templates-table th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    page.locator("#templates-table a", has_text="colours").click()
    expect(page.locator("h1")).to_have_text("Questions of colours")
    page.locator("input.filter").fill("q2")
    expect(page.locator("#questions-table tbody tr:visible")).to_have_count(1)
    page.locator("#questions-table a", has_text="What of q2?").click()
    expect(page.locator("h1")).to_have_text("Results of q2")
    page.locator("#results-table a", has_text="What of q2?").first.click()
    expect(page.locator("h1")).to_have_text("q2")
    expect(page.locator(".verdict").first).to_have_text("different")
    seen.check()
    page.goto(url)

    # Another server takes over.
    process.terminate()
    finish(process)
    expect(page.locator("#connection")).to_contain_text("lost")
    process = watching(folder, port)
    append(folder, response("q1"), response("q2"), response("q3"))
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#run")).to_contain_text("8")
    expect(score).to_have_text("0.722")
    seen.check()
    process.terminate()
    finish(process)


def test_text_of_responses_is_shown_as_text(folder: Folder, browser: Any) -> None:
    folder.write("reference.json", orjson.dumps(hostile.reference()))
    append(folder, *hostile.responses())
    port = free_port()
    process = watching(folder, port, "--alert", "error_rate > 0 over 1")
    seen = Page(browser)
    for path in ("", "results/1", "results/2", "worst", "latest"):
        seen.page.goto(f"http://127.0.0.1:{port}/{path}")
        sync_api.expect(seen.page.locator("body")).to_contain_text("</script><script>")
        seen.check()
    process.terminate()
    finish(process)
    page = folder.file("report.html")
    log, out = folder.file("log.jsonl"), folder.file("o.jsonl")
    evaluate(folder, log, "-o", out, "--report", page)
    seen.page.goto(Path(page).as_uri())
    seen.page.locator("#results-table a").first.click()
    sync_api.expect(seen.page.locator("details[open]").first).to_be_visible()
    seen.page.locator("input.filter").last.fill("no such")
    sync_api.expect(seen.page.locator("#results-table tbody tr:visible")).to_have_count(0)
    seen.page.pdf()
    sync_api.expect(seen.page.locator("details.detail:not([open])")).to_have_count(0)
    seen.check()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1600, "dark")])
def test_pages_are_accessible(folder: Folder, browser: Any, width: int, scheme: str) -> None:
    append(folder, response("q1"), response("q2", False), response("q3"), failed("q3"))
    base = folder.file("base.jsonl")
    log, page = folder.file("log.jsonl"), folder.file("report.html")
    evaluate(folder, log, "-o", base, "--report", page)
    port = free_port()
    process = watching(folder, port, "--alert", "error_rate > 0 over 1", "--baseline", base)
    seen = Page(browser, width, scheme)
    for url in ("", "results/2", "worst"):
        seen.page.goto(f"http://127.0.0.1:{port}/{url}")
        sync_api.expect(seen.page.locator("body")).to_contain_text("What of q2?")
        seen.accessible()
        # Only tables may be wider than the window, in boxes that scroll.
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    process.terminate()
    finish(process)
    seen.page.goto(Path(page).as_uri())
    seen.page.locator("details").first.evaluate("element => { element.open = true; }")
    seen.accessible()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    seen.check()


def test_long_words_do_not_widen_a_page(folder: Folder, browser: Any) -> None:
    address = f"https://example.org/{'endpoint' * 40}"
    append(folder, {"question_id": "q1", "error": f"HTTP 500 from {address}"}, response("q2", False))
    port = free_port()
    process = watching(folder, port)
    seen = Page(browser, 400)
    for path in ("", "results/1", "latest", f"question?id={address}"):
        seen.page.goto(f"http://127.0.0.1:{port}/{path}")
        sync_api.expect(seen.page.locator("body")).to_contain_text("example.org")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
    process.terminate()
    finish(process)


def test_lists_of_results_update_themselves(folder: Folder, browser: Any) -> None:
    port = free_port()
    append(folder, *(response(f"q{i % 3 + 1}", i % 2 == 0) for i in range(60)))
    process = watching(folder, port)
    seen = Page(browser)
    page, expect = seen.page, sync_api.expect
    page.goto(f"http://127.0.0.1:{port}/")
    expect(page.locator("#run dd").first).to_have_text("60", timeout=MILLISECONDS)
    page.get_by_role("link", name="Worst results", exact=True).click()
    rows = page.locator("#results-table tbody tr")
    expect(rows).to_have_count(30)

    # Order, filter and focus outlast an update.
    page.get_by_role("button", name="question").click()
    page.locator("input.filter").fill("q2")
    expect(page.locator(".count")).to_have_text("10 of 30")
    link = page.locator("#results-table tbody tr:visible a").nth(4)
    link.focus()
    address = link.get_attribute("href")
    append(folder, *(response(f"q{i % 3 + 1}", False) for i in range(30)))
    expect(rows).to_have_count(60, timeout=MILLISECONDS)
    expect(page.locator(".count")).to_have_text("20 of 60")
    assert page.evaluate("document.activeElement.getAttribute('href')") == address
    expect(page.locator("#results-table th[aria-sort]")).to_have_text("question")
    expect(page.locator("#connection")).to_have_text("Live")
    seen.check()

    page.get_by_role("link", name="Latest results", exact=True).click()
    expect(rows).to_have_count(90)
    # So does the scroll position; a browser may also move it by the height of the new row.
    page.evaluate("scrollTo(0, 300)")
    append(folder, failed("q3"))
    expect(rows).to_have_count(91, timeout=MILLISECONDS)
    expect(rows.first).to_contain_text("error:")
    assert page.evaluate("scrollY") >= 300
    page.get_by_role("link", name="Overview").click()
    page.locator("#templates-table a", has_text="colours").click()
    questions = page.locator("#questions-table tbody")
    expect(questions).not_to_contain_text("no answer")
    append(folder, *(failed("q1") for _ in range(99)))
    expect(questions).to_contain_text("no answer", timeout=MILLISECONDS)
    seen.check()
    process.terminate()
    finish(process)


def test_the_first_update_keeps_a_filter(folder: Folder, browser: Any) -> None:
    port = free_port()
    append(folder, response("q1", False), response("q2", False))
    process = watching(folder, port)
    page, expect = Page(browser).page, sync_api.expect
    page.goto(f"http://127.0.0.1:{port}/worst")
    expect(page.locator("#results-table tbody tr")).to_have_count(2)
    # Only now are both results read; a page that is drawn earlier waits for the update that is held.
    held: list[Any] = []
    page.route("**/events*", lambda route: held.append(route))
    page.reload()
    expect(page.locator("#results-table tbody tr")).to_have_count(2)
    page.locator("input.filter").fill("q2")
    append(folder, response("q2", False))
    page.wait_for_function("document.querySelector('.count').textContent === '1 of 2'")
    held[0].continue_()
    expect(page.locator(".count")).to_have_text("2 of 3")
    expect(page.locator("input.filter")).to_be_focused()
    process.terminate()
    finish(process)
