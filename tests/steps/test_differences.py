"""The differences that results list for steps with partial credit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import Evaluator, ReferenceDataError, load_reference
from graphrag_eval_async.steps.differences import MAX_CELLS, MAX_DIFFERENCES, MAX_TEXT, first_of_each
from tests.steps.test_failure import PARTIAL, ROWS, STATIONS, table, templates, took
from tests.support.data import HEAVY_BYTES


async def diff_of(found: str, **keys: Any) -> Any:
    """The diff of the result, which is the same whether it is scored at once or in a thread."""
    reference = templates([PARTIAL | keys])
    response = {"question_id": "q", "actual_steps": [took(PARTIAL, found, id="call")]}
    evaluator = Evaluator(reference)
    result = await evaluator.evaluate(response)
    large = await evaluator.evaluate(response | {"padding": "x" * HEAVY_BYTES})
    (step,) = result["reference_steps"][0]
    assert [step] == large["reference_steps"][0]
    assert "diff" not in reference[0]["questions"][0]["reference_steps"][0][0]
    assert step.get("matches") == ("call" if result["steps_score"] else None)
    return step.get("diff")


async def test_every_kind() -> None:
    assert await diff_of(table(*ROWS[:2])) == [{"kind": "missing_row", "row": {"a": "T3", "b": "380"}}]
    assert await diff_of(table(*ROWS, ("T9", "10"))) == [{"kind": "extra_row", "row": {"a": "T9", "b": "10"}}]
    # Under the names of the reference, whatever the actual ones; `row` counts the actual rows.
    turned = table(("380", "T3"), ("221", "T2"), ("110", "T1"), names="xy")
    assert await diff_of(turned) == [
        {"kind": "wrong_value", "row": 1, "column": "b", "expected": "220", "actual": "221"}
    ]
    assert await diff_of(table(("T1",), ("T2",), ("T3",))) == [{"kind": "missing_column", "column": "b"}]


async def test_rows_that_agree_in_less_than_half_are_missing_and_extra() -> None:
    wide = table(("a", "b", "c"), ("d", "e", "f"))
    assert await diff_of(table(("a", "b", "c"), ("d", "x", "y")), output=wide) == [
        {"kind": "missing_row", "row": {"a": "d", "b": "e", "c": "f"}},
        {"kind": "extra_row", "row": {"a": "d", "b": "x", "c": "y"}},
    ]


async def test_they_are_bounded() -> None:
    wide = [[f"{row}-{column}" + "x" * 1000 for column in range(14)] for row in range(30)]
    other = [[*row] for row in wide]
    for index, row in enumerate(other[:12]):
        row[index] = "y" * 1000
    found = await diff_of(table(*other[:28]), output=table(*wide))
    assert found is not None
    assert len(found) == MAX_DIFFERENCES
    assert [each["kind"] for each in found] == ["missing_row"] * 2 + ["wrong_value"] * 8
    assert all(len(text) == MAX_TEXT + 1 for text in found[0]["row"].values())
    assert len(found[-1]["actual"]) == MAX_TEXT + 1
    assert len(found[0]["row"]) <= MAX_CELLS


async def test_unbound_cells_are_null() -> None:
    def document(*rows: dict[str, str]) -> str:
        bindings = [{name: {"type": "literal", "value": text} for name, text in row.items()} for row in rows]
        return json.dumps({"head": {"vars": ["a", "b"]}, "results": {"bindings": bindings}})

    expected = document({"a": "1"}, {"a": "2", "b": "x"}, {"a": "3"})
    assert await diff_of(document({"a": "1", "b": "y"}, {"a": "2", "b": "x"}), output=expected) == [
        {"kind": "missing_row", "row": {"a": "3", "b": None}},
        {"kind": "wrong_value", "row": 0, "column": "b", "expected": None, "actual": "y"},
    ]


def test_kinds_share_the_room() -> None:
    kinds = [[{"kind": kind, "row": number} for number in range(20)] for kind in "abc"]
    assert [each["kind"] for each in first_of_each(*kinds)] == [*"aaaabbbccc"]
    assert [each["kind"] for each in first_of_each(kinds[0][:1], kinds[1], [])] == [*"abbbbbbbbb"]
    assert first_of_each([], []) == []


async def test_a_result_can_be_used_as_a_reference_set() -> None:
    result = await Evaluator(templates([PARTIAL])).evaluate(
        {"question_id": "q", "actual_steps": [took(PARTIAL, table(*ROWS[:2]))]}
    )
    again = load_reference(templates(*result["reference_steps"]))
    assert "diff" not in str(again.questions["q"].reference_steps)


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (STATIONS | {"score": "f2"}, "score: .*write exact or f1"),
        ({"name": "x", "output": "y", "score": "f1"}, "score: f1 is only for outputs"),
        (STATIONS | {"name": "retrieval", "score": "f1"}, "score: f1 is only for outputs"),
    ],
)
def test_an_invalid_score_is_an_error_that_names_the_key(step: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ReferenceDataError, match=wanted) as caught:
        load_reference(templates([step]))
    assert "reference_steps[0][0].score" in str(caught.value)
    if step["name"] == "x":  # Your own comparator may have its own key.
        load_reference(templates([step]), comparators={"x": lambda *_: 1.0})
