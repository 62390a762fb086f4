"""The HTML report in a real browser, where one is installed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from anyio.from_thread import start_blocking_portal

from graphrag_eval_async import run_evaluation
from tests.cli.support import REFERENCE, failed, response
from tests.support import hostile
from tests.support.browser import NEEDS_BROWSER, Page, expect
from tests.support.summaries import report_of, result

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_BROWSER
RESPONSES = [response("q2", False), response("q1"), response("q3"), failed("q3")]
BASELINE = [result(name, template_id="colours") for name in ("q1", "q2")]
SCREENS = pytest.mark.parametrize(
    ("width", "scheme"), [(400, "light"), (400, "dark"), (1400, "light"), (1400, "dark")]
)


def write_report(path: Path, responses: list[Any], reference: Any = REFERENCE) -> str:
    """Write a report on responses, of which two were right in the baseline; return its address."""
    with start_blocking_portal() as portal:
        results = portal.call(partial(run_evaluation, reference, responses, missing="skip"))
    path.write_text(report_of(results, BASELINE))
    return path.as_uri()


@SCREENS
def test_a_report_is_accessible_and_fits_its_screen(
    tmp_path: Path,
    browser: Any,
    width: int,
    scheme: str,
) -> None:
    seen = Page(browser, width, scheme)
    seen.page.goto(write_report(tmp_path / "report.html", RESPONSES))
    verdict = seen.page.locator("#verdict")
    expect(verdict).to_contain_text("1 of 3 questions passed, 2 did not")
    expect(verdict.locator(".big").first).to_have_text("0.667")
    boxes = [
        seen.page.locator(f"#{name}").bounding_box() for name in ("verdict", "moved", "failures")
    ]
    assert boxes == sorted(boxes, key=lambda box: box["y"])
    # Nobody scrolls sideways, not even within a table.
    scroll = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth + 1).length"
    assert seen.page.locator(".scroll:visible").evaluate_all(scroll) == 0
    seen.page.locator("details.detail").first.evaluate("element => { element.open = true; }")
    for side in ("Expected", "Actual"):
        heading = seen.page.locator(".pair").first.get_by_role("heading", name=side, exact=True)
        expect(heading).to_be_visible()
    seen.accessible()
    seen.check()


def test_a_report_with_many_templates_and_repeats_is_accessible(
    tmp_path: Path,
    browser: Any,
) -> None:
    seen = Page(browser)
    path = tmp_path / "report.html"
    questions = [(f"q{place}", f"template {place}") for place in range(15)]
    results = [
        result(question, place % 2 / 2, template_id=template, sample=sample)
        for place, (question, template) in enumerate(questions)
        for sample in (0, 1)
    ]
    before = [result(question, template_id=template) for question, template in questions]
    path.write_text(report_of(results, before))
    seen.page.goto(path.as_uri())
    seen.page.locator("#moved details").evaluate_all("all => all.forEach(each => each.open = true)")
    seen.accessible()
    seen.check()


def test_a_report_shows_what_moved_and_folds_what_did_not(
    tmp_path: Path,
    browser: Any,
) -> None:
    seen = Page(browser)
    path = tmp_path / "report.html"
    questions = [
        (f"{name}{place}", name) for name in ("fell", "same", "also") for place in range(9)
    ]
    before = [result(question, template_id=template) for question, template in questions]
    results = [
        result(question, 0.0 if template == "fell" else 1.0, template_id=template)
        for question, template in questions
    ]
    path.write_text(report_of(results, before))
    seen.page.goto(path.as_uri())
    rows = seen.page.locator("#moved tbody tr:visible th")
    expect(rows).to_have_text(["fell", "all questions"])
    seen.page.get_by_text("2 templates without a clear change").click()
    expect(rows).to_have_text(["fell", "all questions", "also", "same"])
    seen.check()


def test_text_of_responses_is_shown_as_text(
    tmp_path: Path,
    browser: Any,
) -> None:
    seen = Page(browser)
    responses: list[Any] = hostile.responses()
    seen.page.goto(write_report(tmp_path / "report.html", responses, hostile.reference()))
    expect(seen.page.locator("#failures .actual").first).to_contain_text("<img src=x")
    expect(seen.page.locator("#questions-table tbody th")).to_contain_text("<img src=x")
    seen.check()


def test_the_list_of_questions_shows_failures_or_changed_ones_or_all(
    tmp_path: Path,
    browser: Any,
) -> None:
    seen = Page(browser)
    wrong = result("wrong", 0.0, question_text="Which is wrong?")
    results = [wrong, result("better"), result("right"), result("other")]
    before = [result("wrong", 0.0), result("better", 0.0), result("right"), result("other")]
    path = tmp_path / "report.html"
    path.write_text(report_of(results, before))
    page = seen.page
    page.goto(path.as_uri())
    rows = page.locator("#questions-table tbody tr:visible th")
    expect(rows).to_have_text(["Which is wrong? wrong"])
    page.get_by_label("Changed (1)").check()
    expect(rows).to_have_text(["better"])
    page.get_by_label("All (4)").check()
    expect(rows).to_have_count(4)
    page.get_by_label("Filter:").last.fill("other")
    expect(rows).to_have_text(["other"])
    page.get_by_label("Failures (1)").check()
    expect(rows).to_have_count(0)
    page.get_by_label("Filter:").last.fill("")
    rows.first.get_by_role("link").click()
    expect(page.locator("details[open]")).to_contain_text("Which is wrong?")
    seen.check()


def test_without_a_script_there_is_no_filter(
    tmp_path: Path,
    browser: Any,
) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_of([result("wrong", 0.0), result("right")]))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    expect(page.locator("#questions-table tbody tr:visible")).to_have_count(2)
    expect(page.locator(".tools:visible")).to_have_count(0)
    context.close()


def test_many_questions_are_sorted_in_a_moment(
    tmp_path: Path,
    browser: Any,
) -> None:
    seen, path = Page(browser), tmp_path / "report.html"
    path.write_text(report_of([result(f"q{i}", i % 7 / 7) for i in range(6000)]))
    seen.page.goto(path.as_uri())
    session = seen.context.new_cdp_session(seen.page)
    # Processor time: a tenth of a second, but half a minute if rows were moved one by one.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    seen.page.locator("#questions-table button.sort").nth(2).evaluate("each => each.click()")
    taken = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    assert taken["ScriptDuration"] < 2
    values = seen.page.locator("#questions-table tbody td:nth-child(3)").all_text_contents()
    assert len(values) == 6000
    assert values == sorted(values, reverse=True)
