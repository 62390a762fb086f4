"""What a response may be, and what is said of one that cannot be evaluated."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from graphrag_eval_async.records.decoding import BYTES_PER_VALUE, InvalidRecord, load
from graphrag_eval_async.records.line import MAX_LINE_BYTES, MAX_RESULT_BYTES
from graphrag_eval_async.records.response import Response, read_response


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


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        pytest.param({"status": "success", "error": None}, False, id="success"),
        pytest.param({"status": "error"}, True, id="status of error"),
        pytest.param({"error": ""}, True, id="empty error"),
        pytest.param({"status": "success", "error": 0}, True, id="error of a number"),
        pytest.param({"id": ""}, False, id="empty id"),
        pytest.param({"id": 0}, False, id="id of an integer"),
        pytest.param({"id": 1.5}, False, id="id of a float"),
        pytest.param({"actual_steps": []}, False, id="no steps"),
        pytest.param({"actual_steps": [{}]}, False, id="empty step"),
        pytest.param({"actual_steps": [{"name": None}]}, False, id="name of null"),
        pytest.param(
            {"actual_steps": [{"name": "x", "status": "success", "output": [], "args": 3}]},
            False,
            id="whole step",
        ),
        # Other keys are metadata, also where they look like misnamed ones.
        pytest.param({"steps": 3, "answer": 5}, False, id="numbers"),
        pytest.param({"steps": [], "tool_calls": ["n"]}, False, id="lists"),
        pytest.param({"steps": [{"name": "n"}], "actual_steps": []}, False, id="steps twice"),
        pytest.param({"answer": "draft", "actual_answer": "a"}, False, id="answer twice"),
        pytest.param({"error": "timeout", "output": "so far"}, True, id="output of an error"),
        pytest.param(
            {"messages": [{"role": "user"}], "actual_answer": "a", "answers_seen": "3"},
            False,
            id="messages beside an answer",
        ),
        pytest.param(
            {"actual_steps": [{"name": "n", "status": "error", "result": "x"}]},
            False,
            id="result of a failed step",
        ),
    ],
)
def test_valid_responses(fields: dict[str, Any], failed: bool) -> None:
    response = read({"question_id": "q", **fields})
    assert response.failed is failed
    kept = {key: value for key, value in fields.items() if value is not None}
    assert response.fields == {"question_id": "q", **kept}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("elapsed_sec", "1e300", id="time too long"),
        pytest.param("elapsed_sec", "18446744073709551616", id="time of 65 bits"),
        pytest.param("elapsed_sec", "-1e-9", id="time below 0"),
        pytest.param("elapsed_sec", "true", id="time of a boolean"),
        pytest.param("elapsed_sec", '"1"', id="time of text"),
        pytest.param("id", "true", id="id of a boolean"),
        pytest.param("id", "[]", id="id of a list"),
        pytest.param("id", "9" * 25, id="id of 25 digits"),
        pytest.param("status", '"failed"', id="unknown status"),
        pytest.param("status", "1", id="status of a number"),
        pytest.param("status", '["error"]', id="status of a list"),
        pytest.param("actual_answer", "1", id="answer of a number"),
        pytest.param("actual_answer", '["a"]', id="answer of a list"),
        pytest.param("actual_steps", "{}", id="steps of an object"),
        pytest.param("actual_steps", '"[]"', id="steps of text"),
        pytest.param("actual_steps", "[[]]", id="step of a list"),
        pytest.param("actual_steps", '[{}, "x"]', id="step of text"),
        pytest.param("actual_steps[0].name", '[{"name": 1}]', id="name of a number"),
        pytest.param("actual_steps[0].name", '[{"name": ["sparql_query"]}]', id="name of a list"),
        pytest.param("actual_steps[0].status", '[{"status": 1}]', id="step status of a number"),
        pytest.param("actual_steps[0].status", '[{"status": "ok"}]', id="unknown step status"),
        pytest.param("actual_steps[0].status", '[{"status": ""}]', id="empty step status"),
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


@pytest.mark.parametrize("key", ["other", "error", "actual_steps"])
def test_depth_counts_from_the_record(key: str) -> None:
    place = with_field(key, '[{"args": %s}]')
    response = read(place % ("[" * 197 + "]" * 197))
    assert orjson.dumps([response.fields, response.metadata])
    for depth in (198, 253, 900, 100_000):
        assert reject_of(place % ("[" * depth + "]" * depth))[0] == "too_deep"


@pytest.mark.parametrize(
    ("step", "status"),
    [
        pytest.param({"output": "x"}, "success", id="output"),
        pytest.param({"status": None, "output": "x"}, "success", id="output and null"),
        pytest.param({"error": "", "output": "x"}, "success", id="output and empty error"),
        pytest.param({"error": "x"}, "error", id="error"),
        pytest.param({"error": "x", "output": "x"}, "error", id="error and output"),
        pytest.param({"error": ""}, "error", id="empty error"),
        pytest.param({"error": "x", "status": "success", "output": "y"}, "success", id="status"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_a_missing_status_is_inferred(step: dict[str, Any], status: str | None) -> None:
    response = read({"question_id": "q", "actual_steps": [{"name": "n", **step}]})
    assert response.fields["actual_steps"][0].get("status") == status
    assert list(response.usable) == ["n" if status == "success" else None]


STEP = {"name": "retrieve_data_points", "output": "[]"}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        pytest.param({"steps": [{"name": "n"}]}, "steps: did you mean actual_steps?", id="steps"),
        pytest.param(
            {"actualSteps": [{}]}, "actualSteps: did you mean actual_steps?", id="camel case"
        ),
        pytest.param(
            {"tool_calls": [{"name": "n"}]},
            "tool_calls: did you mean actual_steps?",
            id="tool calls",
        ),
        pytest.param(
            {"actual_anwser": "a"}, "actual_anwser: did you mean actual_answer?", id="misspelt"
        ),
        pytest.param(
            {"messages": [{"role": "user"}]},
            "messages: looks like an agent trace; to read it, use format=",
            id="messages",
        ),
    ],
)
def test_a_probably_misnamed_key_is_reported(response: dict[str, Any], message: str) -> None:
    reason, found = reject_of({"question_id": "q", **response})
    assert reason == "invalid_field"
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        pytest.param(
            {"tool": "n", "output": "x"}, ".tool: did you mean actual_steps[0].name?", id="tool"
        ),
        pytest.param(
            {"name": "n", "result": "x"},
            ".result: did you mean actual_steps[0].output?",
            id="result",
        ),
        pytest.param(
            STEP | {"arguments": {}}, ".arguments: did you mean actual_steps[0].args?", id="args"
        ),
        pytest.param(
            STEP | {"args": "{}"}, ".args: expected an object, got a string; parse it", id="text"
        ),
        pytest.param(
            {"type": "tool_use", "name": "n"},
            ": this is a tool call without its result; ",
            id="call of Anthropic",
        ),
        pytest.param(
            {"function": {"name": "n"}},
            ": this is a tool call without its result; ",
            id="call of OpenAI",
        ),
    ],
)
def test_a_probably_misnamed_key_of_a_step_is_reported(step: dict[str, Any], message: str) -> None:
    reason, found = reject_of({"question_id": "q", "actual_steps": [step]})
    assert reason == "invalid_field"
    assert found.startswith(f"actual_steps[0]{message}")


@pytest.mark.parametrize(
    ("response", "reason", "hint"),
    [
        pytest.param({"question_id": 1, "input_tokens": "x"}, "invalid_field", "", id="number"),
        pytest.param(
            {"question_id": "x", "input_tokens": "x"}, "unknown_question_id", "", id="unknown"
        ),
        pytest.param({"question_id": ""}, "missing_question_id", "", id="blank"),
        pytest.param(
            {"questionId": "q"},
            "missing_question_id",
            "(is 'questionId' meant to be question_id?)",
            id="camel case",
        ),
        pytest.param(
            {"messages": [{"role": "user"}]}, "missing_question_id", "or --format auto", id="trace"
        ),
        pytest.param(
            {"resourceSpans": [{}]}, "missing_question_id", "or --format otlp", id="spans"
        ),
        pytest.param(
            {"question": "Who?"},
            "missing_question_id",
            "--format plain finds its question by `question`",
            id="question",
        ),
        pytest.param(
            {"question": "Who?", "qname": "g:1"},
            "missing_question_id",
            "text2sparql finds its question by `qname`",
            id="question and name",
        ),
        pytest.param(
            {"id": "q"},
            "missing_question_id",
            "(id is the id of the response itself)",
            id="id of the response",
        ),
        pytest.param({"x": "q"}, "missing_question_id", "must name its question", id="another key"),
        pytest.param(
            '[{"role": "user"}]',
            "not_an_object",
            'agent traces need format="auto" or --format auto',
            id="list of messages",
        ),
    ],
)
def test_what_names_no_question(response: Any, reason: str, hint: str) -> None:
    found, message = reject_of(response)
    assert found == reason
    assert message.endswith(hint)
