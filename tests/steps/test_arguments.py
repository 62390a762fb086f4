"""Arguments of steps, where a reference step says how they are compared."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import run_evaluation_sync
from graphrag_eval_async.reports.evidence import pairs_of
from tests.support.data import question, template

ARGS: dict[str, Any] = {"city": "Oslo", "days": 2, "filter": {"wind": True, "hours": [6, 18]}}
STEP: dict[str, Any] = {"name": "weather", "args": ARGS}


def result_of(*reference: dict[str, Any], args: Any, **more: Any) -> dict[str, Any]:
    """The result of a response that called the tool with each of these arguments."""
    steps = [{"name": "weather", "args": each, **more} for each in args]
    [result] = run_evaluation_sync(
        template(question(*reference)), [{"question_id": "q", "actual_steps": steps}]
    )
    return result


VALUES = st.sampled_from([0, 1, 1.0, True, None, "1", "", [1], [True], {}, {"a": 1}])
SOME = st.recursive(
    VALUES, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
DICTS = st.dictionaries(st.sampled_from("abc"), SOME, max_size=3)


def plain(value: Any) -> Any:
    """A value that is equal to another exactly if both are the same in JSON."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [*map(plain, value)]
    return ("bool", value) if isinstance(value, bool) else value


def has(actual: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(key in actual and has(actual[key], value) for key, value in expected.items())
    return bool(plain(actual) == plain(expected))


@given(DICTS, DICTS, st.booleans())
def test_agrees_with_a_plain_oracle(expected: Any, actual: Any, as_text: bool) -> None:
    step, given_args = (
        {"name": "weather", "args": expected},
        json.dumps(actual) if as_text else actual,
    )
    given_args = given_args if actual or not as_text else ""
    for mode, agrees in (
        ("exact", plain(expected) == plain(actual)),
        ("subset", has(actual, expected)),
    ):
        result = result_of(step | {"args_match": mode}, args=[given_args])
        assert result["steps_score"] == agrees
        assert result["failure"] == ("none" if agrees else "wrong_args")
        assert (
            agrees
            == ("diff" not in result["reference_steps"][0][0])
            == ("failure_detail" not in result)
        )


@given(st.lists(DICTS, min_size=1, max_size=3), st.lists(DICTS, max_size=3))
def test_steps_take_calls_so_that_most_match(expected: list[Any], calls: list[Any]) -> None:
    steps = [{"name": "weather", "args": args, "args_match": "subset"} for args in expected]
    padded = [*calls, *[None] * len(steps)]
    most = max(
        sum(
            call is not None and has(call, args) for args, call in zip(expected, each, strict=False)
        )
        for each in permutations(padded, len(steps))
    )
    assert result_of(*steps, args=calls)["steps_score"] == most / len(steps)


@pytest.mark.parametrize(
    ("args", "mode", "detail"),
    [
        pytest.param(
            ARGS | {"days": "2"}, "exact", 'args.days: expected 2, got "2"', id="text for a number"
        ),
        pytest.param(
            ARGS | {"filter": {"wind": 1}},
            "subset",
            (
                "args.filter.wind: expected true, got 1; args.filter.hours: expected [6, 18], "
                "got nothing"
            ),
            id="inside an object",
        ),
        pytest.param(
            "Oslo",
            "subset",
            f'args: expected {json.dumps(ARGS)}, got "Oslo"',
            id="text for an object",
        ),
    ],
)
def test_what_differs_is_said(args: Any, mode: str, detail: str) -> None:
    result = result_of(STEP | {"args_match": mode}, args=[args], output="1")
    assert (result["steps_score"], result["failure"]) == (0, "wrong_args")
    assert result["failure_detail"] == detail
    [pair] = pairs_of(result)
    assert [each.text for each in pair.differences] == detail.split("; ")


def test_arguments_under_another_key() -> None:
    for reference, detail in (
        (STEP, f'args: expected {json.dumps(ARGS)}, got "nothing; is arguments meant to be args?"'),
        (STEP | {"args": {}}, None),
    ):
        result = result_of(reference | {"args_match": "subset"}, args=[None], arguments=ARGS)
        assert result.get("failure_detail") == detail


def test_long_texts_are_shown_from_where_they_differ() -> None:
    queries = [f"{'PREFIX ' * 100}SELECT ?{name} {{}}" for name in "ab"]
    step = {"name": "weather", "args": {"query": queries[0]}, "args_match": "exact"}
    for other in (queries[1], queries[0] + " LIMIT 1"):
        result = result_of(step, args=[{"query": other}])
        [diff] = result["reference_steps"][0][0]["diff"]
        assert diff["expected"] != diff["actual"]
        assert max(map(len, (diff["expected"], diff["actual"]))) < 202


def test_a_step_without_output_is_matched_by_its_name_and_arguments() -> None:
    step = STEP | {"args_match": "exact"}
    for output in ({"output": None}, {"output": "1"}, {}):
        assert result_of(step, args=[ARGS], **output)["steps_score"] == 1
    assert result_of(step, args=[ARGS], status="error")["failure"] == "step_error"
    assert result_of(STEP | {"args_match": "exact", "args": {}}, args=[None])["steps_score"] == 1
    # With an output, both count, and the call with the right arguments explains what is wrong.
    both = step | {"output": "1"}
    assert result_of(both, args=[ARGS], output="1")["steps_score"] == 1
    wrong = result_of(both, args=[ARGS, {}], output="2")
    assert wrong["failure"] == "wrong_query_result"
    assert [pair.differences for pair in pairs_of(wrong)] == [[], ()]
    assert result_of(both, args=[None], output=None, status="success")["failure"] == "empty_result"


def test_arguments_are_compared_besides_what_compares_the_output() -> None:
    def shorter(_: Any, actual: Any) -> float:
        return len(actual["output"]) / 2

    reference = template(question(STEP | {"args_match": "subset"}))
    for args, score in ((ARGS, 0.5), ({}, 0)):
        step = {"name": "weather", "args": args, "output": "x"}
        response = {"question_id": "q", "actual_steps": [step]}
        [result] = run_evaluation_sync(reference, [response], comparators={"weather": shorter})
        assert result["steps_score"] == score
