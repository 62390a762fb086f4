from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from graphrag_eval_async.monitor.markdown import MAX_CHARACTERS, cell, code, render_markdown
from graphrag_eval_async.monitor.summary import CheckedGate
from graphrag_eval_async.text import one_line
from tests.monitor.summaries import failed, result, summary_of
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
MARKUP = st.text(st.sampled_from("`|\\@<>&;#[]()*_~!:. $-=+\n\r\t\x1b\u202eab0"), max_size=30)


def tokens(page: str) -> Iterator[Token]:
    for token in PARSER.parse(page):
        yield from token.children or [token]


@given(MARKUP | st.text(max_size=30))
def test_text_from_data_is_a_code_span(text: str) -> None:
    shown = one_line(text).replace("##[", r"##\x5b")
    in_cell = re.sub(r"\\(?=\|)", r"\\x5c", shown)
    for page, wanted in ((f"- {code(text)}", shown), (f"| {cell(text)} |\n|---|\n| {cell(text)} |", in_cell)):
        found = {(token.type, token.content) for token in tokens(page) if token.content}
        assert found == {("code_inline", wanted) if shown else ("text", "(empty)")}


EVIL = "@all `<img src=x>` | [a](http://b) **c** <!-- ##[error]d #1 \\| ::error::e"


@each("evil", [EVIL, "``" + EVIL, EVIL + "`", f"{EVIL}\n\n# {EVIL}\n", f"|{EVIL}|\\"])
def test_nothing_from_data_is_markup(evil: str) -> None:
    more: dict[str, Any] = {"template_id": f"t {evil}", "failure": f"f {evil}", f"m {evil}": 0.5}
    more["judge"] = {"outputs": [f"m {evil}"], "fractions": [f"m {evil}"], "model": f"j {evil}"}
    results = [result(f"q{i} {evil}", i / 40, **more) for i in range(20)] + [
        failed(f"e {evil}", evil, **more)
    ]
    before = [result(f"q{i} {evil}", 1.0, **more | {"judge": {}}) for i in range(21)]
    summary = summary_of(
        results,
        before,
        gates=[CheckedGate(f"g {evil}", False, f"{evil} >= 1")],
        rejected={"invalid_json": 1},
        rejects=[f"{evil}: line 1"],
    )
    page = render_markdown(summary)
    found = [*tokens(page)]
    assert {token.type for token in found if "html" in token.type or "link" in token.type} == set()
    assert not re.search("[@`*#]|::|<[^0]", "".join(token.content for token in found if token.type == "text"))
    assert sum("@all" in token.content for token in found if token.type == "code_inline") > 30
    rows = re.findall(r"<tr>.*?</tr>", PARSER.render(page), re.DOTALL)
    assert len(rows) > 30
    assert all(row.count("</t") - 1 in {2, 4, 5, 6, 7} for row in rows)
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in page.splitlines())


def section(page: str, title: str) -> list[str]:
    return page.split(f"\n### {title}")[1].split("\n### ")[0].splitlines()


def test_the_numbers_are_those_of_the_snapshot() -> None:
    results = [
        result("a"),
        result("a", 0.5),
        result("b", 0.0),
        failed("c", "timed out", reference_steps=[]),
        result("d"),
    ]
    baseline = [result(name) for name in "abcd"]
    gates = [CheckedGate("x", True, "x held"), CheckedGate("y", False, "y failed")]
    summary = summary_of(
        results, baseline, gates=gates, places={"b": "r.jsonl:3"}, rejected={"invalid_json": 2}
    )
    page = render_markdown(summary)
    head = page.split("\n### ")[0].splitlines()
    assert head[0] == "## \N{CROSS MARK} Evaluation: 1 of 2 gates failed"
    counted = "4 questions: 1 passed, 2 failed, 1 with an error."
    assert head[2] == f"5 results, 1 error, 2 rejected lines; {counted}"
    assert head[4].startswith("**Compared with the baseline:** Undecided: what changed may be chance. 2 regr")
    assert head[6:8] == ["- \N{CROSS MARK} failed: `y failed`", "- \N{WHITE HEAVY CHECK MARK} held: `x held`"]
    scores = section(page, "Scores")
    mean, interval = "0.583", summary.snapshot["micro"]["steps_score"]["interval"]
    ends = f"[{interval['low']:.2f}, {interval['high']:.2f}]"
    steps = f"| `steps_score` | {mean} {ends} | 4 of 5 | 1 -> 0.5833, -0.417 |"
    assert [line for line in scores if line.startswith(steps)]
    assert "| `error_rate` | 0.25 | 5 | 0 -> 0.25, +0.25 |" in "\n".join(scores)
    assert "| `b` | `t` | `steps_score` 0 | `wrong_order` | `r.jsonl:3` |" in section(
        page, "Worst questions: 3 of 3"
    )
    assert "| `c` | `t` | `steps_score` 0 | `response_error: timed out` |  |" in section(
        page, "Worst questions"
    )
    assert "| `b` | `t` | `steps_score` | 1 -> 0, -1 | `r.jsonl:3` |" in section(
        page, "Questions that got worse"
    )
    assert "| `wrong_order` | 2 |" in section(page, "Failures by reason")
    assert "### Rejected lines: 2 invalid_json" in page


def test_a_page_has_a_maximum() -> None:
    """Long tables fill it; what is short stays whole, and what is missing is counted."""
    for count, width in ((400, 40), (3000, 2)):
        results = [result(f"q{i}" * width, 0.5, template_id=f"t{i}" * width) for i in range(count)]
        gates = [CheckedGate("x", False, "x" * 600)] * count
        more: dict[str, Any] = {"rejected": {"too_long": 1}, "rejects": ["r.jsonl: long"]}
        page = render_markdown(summary_of(results, gates=gates, listed=300, **more))
        assert MAX_CHARACTERS - 2000 < len(page) <= MAX_CHARACTERS
        cut = r"^\*Cut: the last (\d+) lines; a page has at most 60,000 characters\.\*$"
        told = re.findall(cut, page, re.MULTILINE)
        assert len(told) == 3
        assert "- `r.jsonl: long`" in page
        assert f"| `wrong_order` | {count} |" in page
        shown = sum(line.startswith("- \N{CROSS MARK}") for line in page.splitlines())
        assert shown + int(told[0]) == len(gates)
