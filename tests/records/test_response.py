"""What a response may be, and what is said of one that cannot be evaluated."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from graphrag_eval_async.records.decoding import BYTES_PER_VALUE, InvalidRecord, load
from graphrag_eval_async.records.line import MAX_LINE_BYTES, MAX_RESULT_BYTES
from graphrag_eval_async.records.response import Response, read_response
from tests.support.cases import each


def read(text: str | dict[str, Any]) -> Response:
    return read_response(
        (text if isinstance(text, str) else json.dumps(text)).encode(), {"q": None}
    )


def reject_of(text: str | dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(InvalidRecord) as caught:
        read(text)
    return caught.value.reason, str(caught.value)


def with_field(key: str, value: str) -> str:
    return f'{{"question_id": "q", {json.dumps(key)}: {value}}}'


def test_lists_objects_and_commas_are_limited() -> None:
    """In text, too: it may be the JSON of an output."""
    most = MAX_LINE_BYTES // BYTES_PER_VALUE
    read(with_field("a", json.dumps("[,{" * (most // 3 - 3))))
    text = with_field("a", json.dumps("[,{" * (most // 3 + 1)))
    reason, message = reject_of(text)
    assert reason == "too_long"
    assert f"more than {most}; shorten the line, for example the outputs of its steps" in message
    assert load(text.encode(), MAX_RESULT_BYTES)["question_id"] == "q"


@each(
    ("fields", "failed"),
    [
        ({"status": "success", "error": None}, False),
        ({"status": "error"}, True),
        ({"error": ""}, True),
        ({"status": "success", "error": 0}, True),
        *(({"id": id_}, False) for id_ in ("", 0, 1.5)),
        *(({"actual_steps": [{}] * count}, False) for count in (0, 1)),
        ({"actual_steps": [{"name": None}]}, False),
        ({"actual_steps": [{"name": "x", "status": "success", "output": [], "args": 3}]}, False),
        # Other keys are metadata, also where they look like misnamed ones.
        ({"steps": 3, "answer": 5}, False),
        ({"steps": [], "tool_calls": ["n"]}, False),
        ({"steps": [{"name": "n"}], "actual_steps": []}, False),
        ({"answer": "draft", "actual_answer": "a"}, False),
        ({"error": "timeout", "output": "so far"}, True),
        ({"messages": [{"role": "user"}], "actual_answer": "a", "answers_seen": "3"}, False),
        ({"actual_steps": [{"name": "n", "status": "error", "result": "x"}]}, False),
    ],
)
def test_valid_responses(fields: dict[str, Any], failed: bool) -> None:
    response = read({"question_id": "q", **fields})
    assert response.failed is failed
    kept = {key: value for key, value in fields.items() if value is not None}
    assert response.fields == {"question_id": "q", **kept}


@each(
    ("key", "value"),
    [
        *(
            ("elapsed_sec", value)
            for value in ("1e300", "18446744073709551616", "-1e-9", "true", '"1"')
        ),
        *(("id", value) for value in ("true", "[]", "9" * 25)),
        *(("status", value) for value in ('"failed"', "1", '["error"]')),
        *(("actual_answer", value) for value in ("1", '["a"]')),
        *(("actual_steps", value) for value in ("{}", '"[]"', "[[]]", '[{}, "x"]')),
        *(
            ("actual_steps[0].name", f'[{{"name": {value}}}]')
            for value in ("1", '["sparql_query"]')
        ),
        *(("actual_steps[0].status", f'[{{"status": {value}}}]') for value in ("1", '"ok"', '""')),
    ],
)
def test_invalid_fields(key: str, value: str) -> None:
    reason, message = reject_of(with_field(key.partition("[")[0], value))
    assert reason == "invalid_field"
    assert message.startswith(key)
    assert len(message) < 200


def test_metrics_that_the_agent_claims_are_set_aside() -> None:
    step = {
        "name": "retrieval",
        "retrieval_answer_f1": "high",
        "k_cost": 9,
        "metadata": {"a": 1},
        "x": 2,
    }
    response = read({"question_id": "q", "actual_steps": [step, {"name": "retrieval"}]})
    claimed = {"retrieval_answer_f1": "high", "k_cost": 9, "metadata": {"a": 1}}
    assert response.fields["actual_steps"] == [
        {"name": "retrieval", "x": 2, "metadata": claimed},
        {"name": "retrieval"},
    ]


@each("key", ["other", "error", "actual_steps"])
def test_depth_counts_from_the_record(key: str) -> None:
    place = with_field(key, '[{"args": %s}]')
    response = read(place % ("[" * 197 + "]" * 197))
    assert orjson.dumps([response.fields, response.metadata])
    for depth in (198, 253, 900, 100_000):
        assert reject_of(place % ("[" * depth + "]" * depth))[0] == "too_deep"


@each(
    ("step", "status"),
    [
        *((step | {"output": "x"}, "success") for step in ({}, {"status": None}, {"error": ""})),
        *(
            (step, "error")
            for step in ({"error": "x"}, {"error": "x", "output": "x"}, {"error": ""})
        ),
        ({"error": "x", "status": "success", "output": "y"}, "success"),
        ({}, None),
    ],
)
def test_a_missing_status_is_inferred(step: dict[str, Any], status: str | None) -> None:
    response = read({"question_id": "q", "actual_steps": [{"name": "n", **step}]})
    assert response.fields["actual_steps"][0].get("status") == status
    assert list(response.usable) == ["n" if status == "success" else None]


STEP = {"name": "retrieve_data_points", "output": "[]"}


@each(
    ("response", "message"),
    [
        ({"steps": [{"name": "n"}]}, "steps: did you mean actual_steps?"),
        ({"actualSteps": [{}]}, "actualSteps: did you mean actual_steps?"),
        ({"tool_calls": [{"name": "n"}]}, "tool_calls: did you mean actual_steps?"),
        ({"actual_anwser": "a"}, "actual_anwser: did you mean actual_answer?"),
        (
            {"messages": [{"role": "user"}]},
            "messages: looks like an agent trace; to read it, use format=",
        ),
        *(
            ({"actual_steps": [step]}, f"actual_steps[0]{message}")
            for step, message in [
                ({"tool": "n", "output": "x"}, ".tool: did you mean actual_steps[0].name?"),
                ({"name": "n", "result": "x"}, ".result: did you mean actual_steps[0].output?"),
                (STEP | {"arguments": {}}, ".arguments: did you mean actual_steps[0].args?"),
                (STEP | {"args": "{}"}, ".args: expected an object, got a string; parse it"),
                ({"type": "tool_use", "name": "n"}, ": this is a tool call without its result; "),
                ({"function": {"name": "n"}}, ": this is a tool call without its result; "),
            ]
        ),
    ],
)
def test_a_probably_misnamed_key_is_reported(response: dict[str, Any], message: str) -> None:
    reason, found = reject_of({"question_id": "q", **response})
    assert reason == "invalid_field"
    assert found.startswith(message)


@each(
    ("response", "reason", "hint"),
    [
        ({"question_id": 1, "input_tokens": "x"}, "invalid_field", ""),
        ({"question_id": "x", "input_tokens": "x"}, "unknown_question_id", ""),
        ({"question_id": ""}, "missing_question_id", ""),
        ({"questionId": "q"}, "missing_question_id", "(is 'questionId' meant to be question_id?)"),
        ({"messages": [{"role": "user"}]}, "missing_question_id", "or --format auto"),
        ({"resourceSpans": [{}]}, "missing_question_id", "or --format otlp"),
        (
            {"question": "Who?"},
            "missing_question_id",
            "--format plain finds its question by `question`",
        ),
        (
            {"question": "Who?", "qname": "g:1"},
            "missing_question_id",
            "text2sparql finds its question by `qname`",
        ),
        ({"id": "q"}, "missing_question_id", "(id is the id of the response itself)"),
        ({"x": "q"}, "missing_question_id", "must name its question"),
        ('[{"role": "user"}]', "not_an_object", 'agent traces need format="auto" or --format auto'),
    ],
)
def test_what_names_no_question(response: Any, reason: str, hint: str) -> None:
    found, message = reject_of(response)
    assert found == reason
    assert message.endswith(hint)
