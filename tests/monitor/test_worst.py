"""The worst questions have the lowest means, with errors as 0: the same ones on every screen."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.monitor.worst import questions_in_slices, worst_questions
from tests.cli.support import run
from tests.monitor.summaries import failed, result

if TYPE_CHECKING:
    from tests.cli.support import Folder

pytest.importorskip("jinja2")

COUNTS = {"gone": (0, 3), "bad": (90, 1), "poor": (40, 6), "fair": (20, 0), "rare": (2, 1), "good": (0, 0)}
"""How many of the results of a question are wrong, and how many are errors; the worst first."""

WORST = [*COUNTS][:-1]


def results() -> list[dict[str, Any]]:
    found = []
    for question, (wrong, errors) in COUNTS.items():
        found += [result(question, 0.0, failure="missed_retrieval") for _ in range(wrong)]
        found += [failed(question, "TimeoutError") for _ in range(errors)]
        if question != "gone":
            found += [result(question) for _ in range(100 - wrong - errors)]
    Random(1).shuffle(found)
    return found


def order_in(text: str) -> list[str]:
    return [*dict.fromkeys(re.findall(rf"\b({'|'.join(COUNTS)})\b", text))]


def test_every_screen_names_the_same_worst_questions_in_the_same_order(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    lines, page, html = folder.lines(*results()), folder.file("page.md"), folder.file("page.html")
    assert run("aggregate", lines) == 0
    told = capfd.readouterr()
    assert order_in((told.out + told.err).partition("worst questions by steps_score:")[2]) == WORST
    assert run("report", lines, "--markdown", page, "--github", "-o", html) == 0
    annotations = capfd.readouterr().out
    assert order_in(Path(page).read_text().partition("### Worst questions")[2].partition("###")[0]) == WORST
    for kind, names in (("warning", WORST[:1]), ("notice", WORST[1:])):
        shown = "\n".join(line for line in annotations.splitlines() if line.startswith(f"::{kind} title="))
        assert order_in(shown) == names
    text = Path(html).read_text()
    table = text.partition('id="worst-table"')[2].partition("<tbody>")[2].partition("</table>")[0]
    assert order_in(table) == WORST
    answer = text.partition("Worst question")[2].partition("</div>")[0]
    assert "steps_score 0 over 3 results, 3 of them errors" in answer


OUTCOMES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, 0.0, 0.5, 1.0])), max_size=30)


@given(OUTCOMES, st.integers(0, 30), st.booleans())
def test_errors_count_as_zero_however_results_are_split(
    outcomes: list[tuple[str, float | None]], cut: int, include_errors: bool
) -> None:
    made = [failed(name) if score is None else result(name, score) for name, score in outcomes]
    parts = []
    for some in (made[:cut], made[cut:]):
        part = RunningAggregates(include_errors=include_errors)
        for each in some:
            part.add(each)
        parts.append(RunningAggregates.from_bytes(part.to_bytes()))
    aggregates = parts[0].merge(parts[1])
    expected = []
    if any(score is not None for _, score in outcomes):
        for name in {name for name, _ in outcomes}:
            own = [score for other, score in outcomes if other == name]
            values = [score or 0.0 for score in own if score is not None or not include_errors]
            if values and sum(values) < len(values):
                expected.append((sum(values) / len(values), name))
    found = worst_questions(aggregates)
    assert {(each.mean, each.question) for each in found} == {*expected}
    assert found == sorted(found, key=lambda each: each.rank)
    assert asyncio.run(questions_in_slices(aggregates)) == found
