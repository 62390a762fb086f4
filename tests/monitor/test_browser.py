"""Dashboard and report in a real browser, where one is installed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from anyio import create_memory_object_stream
from anyio.from_thread import start_blocking_portal

from graphrag_eval_async import Dashboard, evaluate_stream
from graphrag_eval_async.aggregates import Last
from tests.cli.support import REFERENCE, failed, response
from tests.support import hostile
from tests.support.browser import NEEDS_BROWSER, Page, expect
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from anyio.streams.memory import MemoryObjectSendStream

pytestmark = NEEDS_BROWSER


@contextmanager
def running(
    *responses: Any, reference: Any = REFERENCE, port: int = 0, **options: Any
) -> Iterator[tuple[str, Callable[..., None]]]:
    """The address of a run, and what gives it responses.

    It is in another thread, since the browser has an event loop in this one.
    """

    @asynccontextmanager
    async def served() -> AsyncIterator[tuple[str, MemoryObjectSendStream[Any]]]:
        given, source = create_memory_object_stream[Any](inf)

        async def consume() -> None:
            async for _ in dashboard:
                pass

        stream = evaluate_stream(reference, source, ordered=True)
        async with Dashboard(stream, port=port, window=Last(2), **options) as dashboard:
            consuming = asyncio.create_task(consume())
            yield dashboard.url, given
            given.close()
            await consuming

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served()) as (url, given),
    ):

        def add(*responses: Any) -> None:
            for each in responses:
                portal.call(given.send_nowait, each)

        add(*responses)
        yield url, add


def test_a_run_is_seen_as_it_goes_on(browser: Any) -> None:
    port, seen = free_port(), Page(browser)
    page = seen.page
    score, rows = page.locator("#metrics .big").first, page.locator("#templates-table tbody th")
    connection = page.locator("#connection")
    with running(response("q1"), response("q2", False), response("q3"), port=port) as (url, add):
        # A browser does not try again by itself after such an answer.
        page.route("**/events", lambda route: route.fulfill(status=502))
        page.goto(url)
        expect(connection).to_contain_text("lost")
        page.unroute("**/events")
        expect(connection).to_have_text("Live")
        expect(score).to_have_text("0.500")
        expect(page.locator("#metrics .rest").first).to_contain_text("0.667 overall")

        # The order and the filter that a person chose, and the focus, outlast an update.
        page.get_by_role("link", name="Templates", exact=True).click()
        for order in (["a:b=c", "colours"], ["colours", "a:b=c"]):
            page.get_by_role("button", name="steps_score").first.click()
            expect(rows.locator("a")).to_have_text(order)
        link = rows.nth(1).locator("a")
        link.focus()
        add(response("q3", False), response("q3", False))
        expect(rows.locator("a")).to_have_text(["a:b=c", "colours"])
        assert seen.is_focused(rows.first.locator("a"))
        box = page.locator("input.filter").first
        box.fill("col")
        add(failed("q3"), response("q1"), response("q1", False))
        visible = page.locator("#templates-table tbody tr:visible th a")
        expect(visible).to_have_text(["colours"])
        expect(page.locator("#templates-table th[aria-sort]")).to_have_attribute(
            "aria-sort", "ascending"
        )
        expect(page.locator(".count")).to_have_text("1 of 2")
        assert seen.is_focused(box)

        # So they do a visit to other pages.
        page.locator("#templates-table a", has_text="colours").click()
        expect(page.locator("h1")).to_have_text("Questions of colours")
        page.go_back()
        expect(visible).to_have_text(["colours"])
        expect(page.locator("#templates-table th[aria-sort]")).to_have_attribute(
            "aria-sort", "ascending"
        )
        page.locator("#templates-table a", has_text="colours").click()
        page.locator("#questions-table a", has_text="What of q2?").click()
        page.locator("#results-table a", has_text="What of q2?").first.click()
        expect(page.locator("h1")).to_have_text("q2")
        expect(page.locator(".verdict").first).to_have_text("different")
        page.goto(url)
        expect(score).to_have_text("0.500")
        seen.check()
    expect(connection).to_have_text("Ended")
    # The page shows another run at the same address, too.
    with running(response("q1"), port=port):
        expect(connection).to_have_text("Live")
        expect(score).to_have_text("1.000")
    seen.check()


def test_lists_of_results_keep_filter_and_place(browser: Any) -> None:
    seen = Page(browser)
    page, rows = seen.page, seen.page.locator("#results-table tbody tr")
    count, box = page.locator(".count"), page.locator("input.filter")
    with running(response("q1", False), response("q2", False)) as (url, add):
        page.goto(url)
        expect(page.locator("#progress")).to_contain_text("2 of 3 questions")
        page.get_by_role("link", name="Worst results", exact=True).click()
        expect(rows).to_have_count(2)
        # A filter outlasts the first update, too.
        held: list[Any] = []
        worst = page.url
        page.goto("about:blank")
        page.route("**/events*", lambda route: held.append(route))
        with page.expect_request("**/events*"):
            page.goto(worst)
        expect(rows).to_have_count(2)
        box.fill("q2")
        expect(count).to_have_text("1 of 2")
        add(response("q2", False))
        held.pop().continue_()
        expect(count).to_have_text("2 of 3")
        assert seen.is_focused(box)
        page.unroute("**/events*")
        # A browser may also move the place by the height of the new row.
        add(*(response("q1") for _ in range(80)))
        page.get_by_role("link", name="Latest results", exact=True).click()
        expect(rows).to_have_count(83)
        page.evaluate("scrollTo(0, 300)")
        add(failed("q3"))
        expect(rows.first).to_contain_text("error:")
        assert page.evaluate("scrollY") >= 300
        seen.check()


def test_text_of_responses_is_shown_as_text(browser: Any) -> None:
    seen, responses = Page(browser), hostile.responses()
    page = seen.page
    with running(*responses, reference=hostile.reference(), alerts=["error_rate > 0 over 1"]) as (
        url,
        _,
    ):
        for path in ("", "results/1", "results/2", "worst", "latest"):
            page.goto(f"{url}{path}")
            expect(page.locator("body")).to_contain_text("</script><script>")
            seen.check()


def scores_are_in_sight(page: Any, width: int, tables: tuple[str, ...]) -> None:
    """The first score of a table is seen without scrolling sideways."""
    for name in tables:
        heading = page.locator(f"#{name} thead .sort", has_text="steps_score")
        place = 1 + heading.evaluate("button => button.closest('th').cellIndex")
        for cell in (heading, page.locator(f"#{name} tbody tr:first-child > :nth-child({place})")):
            box = cell.bounding_box()
            assert 0 <= box["x"] < box["x"] + box["width"] <= width, name


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1600, "dark")])
def test_pages_are_accessible(browser: Any, width: int, scheme: str) -> None:
    address = f"https://example.org/{'endpoint' * 40}"
    responses = [response("q2", False), response("q1"), response("q3"), failed("q3")]
    seen = Page(browser, width, scheme)
    tables = ("templates-table", "worst-table")
    long = {"question_id": "q1", "error": f"HTTP 500 from {address}"}
    with running(long, *responses, alerts=["error_rate > 0 over 1"]) as (url, _):
        seen.page.goto(url)
        expect(seen.page.locator("#progress")).to_contain_text("5 results")
        expect(seen.page.locator("#metrics")).to_contain_text("over 3 questions")
        scores_are_in_sight(seen.page, width, (*tables, "latest-table"))
        score = seen.page.locator("#metrics .big").first.bounding_box()
        assert score["y"] + score["height"] < 800  # On the first screen of a phone.
        seen.accessible()
        seen.check()
        for path in ("results/2", "results/1"):
            seen.page.goto(f"{url}{path}")
            seen.accessible()
            seen.check()
