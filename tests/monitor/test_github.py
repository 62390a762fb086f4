from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.monitor.github import render_annotations
from graphrag_eval_async.monitor.summary import CheckedGate, Summary
from graphrag_eval_async.text import one_line
from tests.monitor.summaries import failed, result, summary_of


class Command(NamedTuple):
    kind: str
    properties: dict[str, str]
    message: str


ESCAPES = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


def decode(text: str, escapes: list[str]) -> str:
    for escape in escapes:
        text = text.replace(escape, ESCAPES[escape])
    return text


def parse(line: str) -> Command:
    """Read a command as the runner of GitHub Actions does."""
    found = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert found, line
    pairs = [each.split("=", 1) for each in found[2].split(",")]
    properties = {key: decode(value, [*ESCAPES]) for key, value in pairs}
    return Command(found[1], properties, decode(found[3], ["%0D", "%0A", "%25"]))


def commands(summary: Summary) -> list[Command]:
    return [*map(parse, render_annotations(summary))]


def test_gates_regressions_and_the_worst_questions() -> None:
    results = [result("a"), result("b", 0.5), failed("c", "down")]
    told = "steps_score >= 1: 0.75"
    gates = [CheckedGate("steps_score >= 1", False, told), CheckedGate("held", True, "held")]
    summary = summary_of(
        results,
        [result(name) for name in "ab"],
        gates=gates,
        places={"b": "r.jsonl:2"},
        rejected={"invalid_json": 2},
    )
    half = "steps_score is 0.5, expected >= 1 (r.jsonl:2)"
    assert commands(summary) == [
        ("error", {"title": "Gate failed"}, told),
        ("warning", {"title": "Rejected lines"}, "2 invalid_json"),
        ("warning", {"title": "Regression"}, f"b was right in the baseline: {half}"),
        ("warning", {"title": "c: response_error"}, "down"),
        ("notice", {"title": "b: wrong_order"}, half),
    ]


def test_no_more_than_github_shows() -> None:
    gates = [CheckedGate(f"g{i}", False, f"g{i} failed") for i in range(12)]
    results = [result(f"q{i}", 0.0) for i in range(30)]
    summary = summary_of(results, [result(f"q{i}") for i in range(30)], gates=gates, listed=11)
    found = commands(summary)
    assert Counter(command.kind for command in found) == {"error": 10, "warning": 10, "notice": 10}
    last = {command.kind: command.properties["title"] for command in found}
    assert last == {"error": "And 3 more", "warning": "And 23 more", "notice": "And 2 more"}


@given(st.text(max_size=20) | st.text(st.sampled_from("%:,\r\n=;a"), max_size=20))
def test_every_text_is_one_command(text: str) -> None:
    [gate, warning] = commands(summary_of([failed(f"q{text}", text)], gates=[CheckedGate("g", False, text)]))
    assert gate.message == one_line(text)
    assert warning == (
        "warning",
        {"title": one_line(f"q{text}: response_error")},
        one_line(text) or "no message",
    )
