"""What a summary says of each question, and how Markdown, JUnit XML and annotations of GitHub
say it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from graphrag_eval_async import load_reference
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.reports.ci import render_annotations, render_junit
from graphrag_eval_async.reports.markdown import MAX_CHARACTERS, render_markdown
from graphrag_eval_async.reports.markdown_text import code_cell, code_span
from graphrag_eval_async.reports.summary import CheckedGate, Reading, Summary
from tests.cli.support import REFERENCE
from tests.support.summaries import failed, result, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

HALF = "steps_score is 0.5, expected >= 1"
NOTHING = ("skipped", "no_score", "no score decides whether it passed")
UNANSWERED = ("failed", "no_answer", "no answer")
SILENT: dict[str, Any] = {"reference_answer": "a"}
ANSWERED: dict[str, Any] = {"reference_answer": "a", "actual_answer": "a"}


@pytest.mark.parametrize(
    ("results", "pass_if", "expected"),
    [
        pytest.param([result("q")], [], ("passed", "", ""), id="passed"),
        pytest.param(
            [result("q"), result("q", 0.0)], [], ("failed", "wrong_order", HALF), id="wrong order"
        ),
        pytest.param(
            [result("q", 0.5)], ["steps_score >= 0.5"], ("passed", "", ""), id="condition holds"
        ),
        pytest.param(
            [result("q", 0.0), failed("q", "a\nb\x1b")],
            [],
            ("error", "agent_error", "a b\\x1b (1 of 2 samples)"),
            id="error and failure",
        ),
        # An answer counts if the run was judged.
        pytest.param(
            [result("q", **ANSWERED, answer_f1=0.9, failure="none")],
            [],
            ("passed", "", ""),
            id="right answer",
        ),
        pytest.param(
            [result("q", **ANSWERED, answer_f1=0.4)],
            [],
            ("failed", "score", "answer_f1 is 0.4, expected >= 0.5"),
            id="wrong answer",
        ),
        pytest.param(
            [result("q", **ANSWERED, answer_match=0, answer_match_reason="number:\nhas 6")],
            [],
            ("failed", "score", "answer_match is 0, expected >= 0.5 (number: has 6)"),
            id="wrong match",
        ),
        pytest.param(
            [result("q", **ANSWERED, answer_eval_error="timeout: 60 s")],
            [],
            ("error", "timeout", "answer_f1 has no value: timeout"),
            id="judge failed",
        ),
        pytest.param(
            [result("p", **ANSWERED, answer_f1=0.9), result("q", **SILENT)],
            [],
            UNANSWERED,
            id="no answer",
        ),
        pytest.param([result("q", **SILENT)], [], ("passed", "", ""), id="answers not judged"),
        pytest.param(
            [result("q", **SILENT)],
            ["answer_f1 >= 0.5"],
            UNANSWERED,
            id="condition without a value",
        ),
        pytest.param([result("q", None)], [], NOTHING, id="no score"),
        pytest.param(
            [result("q", pending=["answer_f1"])],
            [],
            ("skipped", "pending", "pending"),
            id="pending",
        ),
    ],
)
def test_outcomes(
    results: list[dict[str, Any]], pass_if: list[str], expected: tuple[str, str, str]
) -> None:
    [question] = [
        each for each in summary_of(results, pass_if=pass_if).questions if each.question_id == "q"
    ]
    assert question[2:5] == expected


def test_questions_of_the_reference_set_without_a_response() -> None:
    reading = Reading(reference=load_reference(REFERENCE))
    reading.add(result("q2", template_id="colours"))
    found = {question.question_id: question.kind for question in reading.summary().questions}
    assert found == {"q1": "no_response", "q2": "", "q3": "no_response"}


Command = tuple[str, dict[str, str], str]


def decode(text: str, escapes: str) -> str:
    return re.sub(f"%({escapes})", lambda found: unquote(found[0]), text)


def commands(summary: Summary) -> list[Command]:
    """The kinds, properties and messages of annotations, read as the runner of GitHub Actions
    does.
    """
    read: list[Command] = []
    for line in render_annotations(summary):
        found = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
        assert found, line
        pairs = [each.split("=", 1) for each in found[2].split(",")]
        properties = {key: decode(value, "0D|0A|3A|2C|25") for key, value in pairs}
        read.append((found[1], properties, decode(found[3], "0D|0A|25")))
    return read


def test_annotations_of_gates_regressions_and_the_worst_questions() -> None:
    results = [result("a"), result("b", 0.5), failed("c", "down")]
    told = "steps_score >= 1: 0.75"
    gates = [CheckedGate("steps_score >= 1", False, told), CheckedGate("held", True, "held")]
    more: dict[str, Any] = {"places": {"b": "r.jsonl:2"}, "rejected": {"invalid_json": 2}}
    summary = summary_of(results, [result(name) for name in "ab"], gates=gates, **more)
    assert commands(summary) == [
        ("error", {"title": "Gate failed"}, told),
        ("warning", {"title": "Rejected lines"}, "2 invalid_json"),
        ("warning", {"title": "Regression"}, f"b was right in the baseline: {HALF} (r.jsonl:2)"),
        ("warning", {"title": "c: agent_error"}, "down"),
    ]


def test_annotations_are_attached_to_questions_of_the_reference_set() -> None:
    lines = {"regressed": 3, "failed": 9, "right": 12, "down": 20}
    results = [result("regressed", 0.5), result("failed", 0.5), failed("down", "timed out")]
    summary = summary_of(
        [*results, result("new", 0.5)],
        [result("regressed"), result("failed", 0.5)],
        reference_file="sets/a,b.yaml",
        reference_lines=lines,
    )
    places = {
        properties["title"]: (properties.get("file"), properties.get("line"))
        for _, properties, _ in commands(summary)
    }
    assert places == {
        "Regression": ("sets/a,b.yaml", "3"),
        "failed: wrong_order": ("sets/a,b.yaml", "9"),
        "down: agent_error": ("sets/a,b.yaml", "20"),
        "new: wrong_order": (None, None),
    }


def test_no_more_annotations_than_github_shows() -> None:
    gates = [CheckedGate(f"g{i}", False, f"g{i} failed") for i in range(12)]
    results = [result(f"q{i}", 0.0) for i in range(30)]
    results += [result(f"never right {i}", 0.0) for i in range(30)]
    baseline = [result(each["question_id"], float(i < 30)) for i, each in enumerate(results)]
    summary = summary_of(results, baseline, gates=gates, listed=41)
    found = commands(summary)
    assert Counter(kind for kind, _, _ in found) == {"error": 10, "warning": 10, "notice": 10}
    last = {kind: properties["title"] for kind, properties, _ in found}
    assert last == {"error": "And 3 more", "warning": "And 22 more", "notice": "And 21 more"}


CASES = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
"""What the numbers of a suite of JUnit's count."""


def parsed(summary: Summary) -> ET.Element:
    """The XML, whose counts and times are right."""
    root = ET.fromstring(render_junit(summary).encode())  # noqa: S314  (it is our own)
    for suites in (root, *root):
        for attribute in CASES.keys() & suites.keys():
            assert int(suites.get(attribute, "")) == len([*suites.iter(CASES[attribute])])
        times = [float(case.get("time", "")) for case in suites.iter("testcase")]
        assert abs(float(suites.get("time", "")) - sum(times)) < 1e-9
    return root


def test_questions_and_gates_are_test_cases() -> None:
    results = [
        result("a", elapsed_sec=1.25),
        result("b", 0.5),
        failed("c", "down"),
        result("d", None),
    ]
    gates = [
        CheckedGate("steps_score >= 1", False, "steps_score >= 1: 0.75"),
        CheckedGate("g", True, "held"),
    ]
    root = parsed(summary_of(results, gates=gates, places={"b": "r.jsonl:2"}))
    questions, checked = root
    assert [suite.get("name") for suite in root] == ["questions", "gates"]
    cases = [(case.get("classname"), case.get("name")) for case in questions]
    assert cases == [("t", name) for name in "abcd"]
    told = [
        (each.tag, each.get("type"), each.get("message"), each.text)
        for case in questions
        for each in case
    ]
    assert told == [
        ("failure", "wrong_order", HALF, f"wrong_order: {HALF} (r.jsonl:2)"),
        ("error", "agent_error", "down", "agent_error: down"),
        ("skipped", None, "no score decides whether it passed", None),
    ]
    assert questions.get("time") == questions[0].get("time") == "1.250"
    assert [case.get("name") for case in checked] == ["steps_score >= 1", "g"]
    [failure] = checked.iter("failure")
    assert failure.get("message") == "steps_score >= 1: 0.75"


@given(
    st.text(max_size=20)
    | st.text(st.sampled_from("%:,\r\n=;a"), max_size=20)
    | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Cn"]), max_size=5)
)
def test_every_text_is_one_command_and_xml(text: str) -> None:
    wrong = result(f"q{text}", 0.0, template_id=f"t{text}", failure=f"f{text}")
    gates = [CheckedGate("g", False, text)]
    summary = summary_of([wrong, failed(f"e{text}", text)], gates=gates, places={f"q{text}": text})
    root = parsed(summary)
    case, error = root[0]
    assert (case.get("classname"), case.get("name")) == (one_line(f"t{text}"), one_line(f"q{text}"))
    assert case[0].get("type") == one_line(f"f{text}")
    shown = one_line(text) or "no message"
    assert error[0].get("message") == shown
    [gate, warning, _] = commands(summary)
    assert gate[2] == one_line(text)
    assert warning == ("warning", {"title": one_line(f"e{text}: agent_error")}, shown)


PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
MARKUP = st.text(st.sampled_from("`|\\@<>&;#[]()*_~!:. $-=+\n\r\t\x1b\u202eab0"), max_size=30)


def tokens(page: str) -> Iterator[Token]:
    for token in PARSER.parse(page):
        yield from token.children or [token]


@given(MARKUP | st.text(max_size=30))
def test_text_from_data_is_a_code_span(text: str) -> None:
    shown = one_line(text).replace("##[", r"##\x5b")
    in_cell = re.sub(r"\\(?=\|)", r"\\x5c", shown)
    for page, wanted in (
        (f"- {code_span(text)}", shown),
        (f"| {code_cell(text)} |\n|---|\n| {code_cell(text)} |", in_cell),
    ):
        found = {(token.type, token.content) for token in tokens(page) if token.content}
        assert found == {("code_inline", wanted) if shown else ("text", "(empty)")}


EVIL = "@all `<img src=x>` | [a](http://b) **c** <!-- ##[error]d #1 \\| ::error::e"


@pytest.mark.parametrize(
    "evil",
    [
        pytest.param(EVIL, id="plain"),
        pytest.param("``" + EVIL, id="after backticks"),
        pytest.param(EVIL + "`", id="before a backtick"),
        pytest.param(f"{EVIL}\n\n# {EVIL}\n", id="lines and a heading"),
        pytest.param(f"|{EVIL}|\\", id="cells of a table"),
    ],
)
def test_nothing_from_data_is_markup(evil: str) -> None:
    more: dict[str, Any] = {"template_id": f"t {evil}", "failure": f"f {evil}", f"m {evil}": 0.5}
    more["judge"] = {"outputs": [f"m {evil}"], "fractions": [f"m {evil}"], "model": f"j {evil}"}
    results = [result(f"q{i} {evil}", i / 40, **more) for i in range(20)]
    results.append(failed(f"e {evil}", evil, **more))
    before = [result(f"q{i} {evil}", 1.0, **more | {"judge": {}}) for i in range(21)]
    rejects: dict[str, Any] = {"rejected": {"invalid_json": 1}, "rejects": [f"{evil}: line 1"]}
    gates = [CheckedGate(f"g {evil}", False, f"{evil} >= 1")]
    page = render_markdown(summary_of(results, before, gates=gates, **rejects))
    found = [*tokens(page)]
    assert {token.type for token in found if "html" in token.type or "link" in token.type} == set()
    assert not re.search(
        "[@`*#]|::|<[^0]", "".join(token.content for token in found if token.type == "text")
    )
    assert sum("@all" in token.content for token in found if token.type == "code_inline") > 30
    rows = re.findall(r"<tr>.*?</tr>", PARSER.render(page), re.DOTALL)
    assert len(rows) > 15
    assert all(row.count("</t") - 1 in {2, 4, 5, 6, 9} for row in rows)
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in page.splitlines())


def test_a_page_has_the_numbers_of_the_snapshot() -> None:
    down = failed("c", "timed out", reference_steps=[])
    summary = summary_of(
        [result("a"), result("a", 0.5), result("b", 0.0), down, result("d")],
        [result(name) for name in "abcd"],
        gates=[CheckedGate("x", True, "x held"), CheckedGate("y", False, "y failed")],
        places={"b": "r.jsonl:3"},
        rejected={"invalid_json": 2},
    )
    page, place = render_markdown(summary), -1
    interval = summary.snapshot["micro"]["steps_score"]["interval"]
    ends = f"[{interval['low']:.2f}, {interval['high']:.2f}]"
    for line in (
        "## \N{CROSS MARK} Evaluation: 1 of 2 gates failed; no clear change from the baseline\n",
        f"`steps_score` 0.583 {ends} over 3 of 4 questions, without errors; -0.417 from 1.000. ",
        "`error_rate` 0.250 in 1 of 5 results; +0.25 from 0.000.\n",
        "Compared with the baseline: Undecided, may be due to chance: `error_rate` 0 -> 0.25, ",
        "2 regressions, 0 improvements.\n",
        "1 of 4 questions passed, 3 did not.\n",
        "5 results, 1 of them an error of the agent.\n",
        "2 rejected lines.\n",
        "- \N{CROSS MARK} failed: `y failed`\n- \N{WHITE HEAVY CHECK MARK} held: `x held`\n",
        "### What moved, by template\n",
        "| `all questions` | `error_rate` | 4 | 0.000 | 0.250 | +0.25 |",
        "| `all questions` | `steps_score` | 3 | 1.000 | 0.583 | -0.417 |",
        "### Why questions failed\n",
        "| `wrong_order: right rows in the wrong order` | `a` |  | `no answer` | 2 |\n",
        "### Questions that got worse\n",
        "| `b` | `t` | `wrong_order` | `r.jsonl:3` | `steps_score` 1 -> 0, -1 |\n",
        "### Means by template\n",
        "| `t` | 5 | 1 | 0.583",
        "### Rejected lines: 2 invalid_json\n",
    ):
        before, place = place, page.find(line)
        assert place > before, f"{line} is not there, or not in this order"


def test_a_page_has_a_maximum() -> None:
    """Long tables fill it; what is short stays whole, and what is missing is counted."""
    for count, width in ((400, 40), (3000, 2)):
        results = [result(f"q{i}" * width, 0.5, template_id=f"t{i}" * width) for i in range(count)]
        gates = [CheckedGate("x", False, "x" * 600)] * count
        more: dict[str, Any] = {"rejected": {"too_long": 1}, "rejects": ["r.jsonl: long"]}
        page = render_markdown(summary_of(results, gates=gates, listed=300, **more))
        assert MAX_CHARACTERS - 2000 < len(page) <= MAX_CHARACTERS
        cut = r"^\*Cut: the last (\d+) (?:lines|rows)\.\*$"
        told = re.findall(cut, page, re.MULTILINE)
        assert len(told) == 3
        assert "- `r.jsonl: long`" in page
        assert f"| `no answer` | {count} |" in page
        shown = sum(line.startswith("- \N{CROSS MARK}") for line in page.splitlines())
        assert shown + int(told[0]) == len(gates)
