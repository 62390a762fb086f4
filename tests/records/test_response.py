from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from graphrag_eval_async.records.decoding import BYTES_PER_VALUE, InvalidRecord
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.records.response import Response, read_response
from tests.cases import each

COUNTS = ["input_tokens", "output_tokens", "total_tokens", "elapsed_sec"]


def read(text: str | bytes) -> Response:
    return read_response(text if isinstance(text, bytes) else text.encode(), {"q": None})


def reject_of(text: str | bytes) -> tuple[str, str]:
    with pytest.raises(InvalidRecord) as caught:
        read(text)
    return caught.value.reason, str(caught.value)


def with_field(key: str, value: str) -> str:
    return f'{{"question_id": "q", {json.dumps(key)}: {value}}}'


@pytest.mark.parametrize("members", ["[]", "{}", '"[,"', "1"])
def test_lists_objects_and_commas_are_limited(members: str) -> None:
    """In text, too: it may be the JSON of an output."""
    most = MAX_LINE_BYTES // BYTES_PER_VALUE
    each = 1 + sum(map(members.count, "[{,"))
    listed = [members] * (most // each - 3)
    read(with_field("a", f"[{','.join(listed)}]"))
    text = with_field("a", f"[{','.join(listed + [members] * 5)}]")
    reason, message = reject_of(text)
    assert reason == "too_long"
    assert f"max_line_bytes / 64 = {most}; raise it" in message
    read_response(text.encode(), {"q": None}, 2 * MAX_LINE_BYTES)
    with pytest.raises(InvalidRecord):
        read_response(text.encode(), {"q": None}, 1)


@pytest.mark.parametrize("text", ["null", "1", "1.5", "true", '"q"', "[]", '[{"question_id": "q"}]'])
def test_only_objects_are_responses(text: str) -> None:
    assert reject_of(text)[0] == "not_an_object"


@each(
    ("text", "reason"),
    [
        ("{}", "missing_question_id"),
        ('{"question_id": null}', "missing_question_id"),
        ('{"question_id": ""}', "missing_question_id"),
        ('{"Question_ID": "q"}', "missing_question_id"),
        ('{"question_id": 1}', "invalid_field"),
        ('{"question_id": ["q"]}', "invalid_field"),
        ('{"question_id": {"q": 1}}', "invalid_field"),
        ('{"question_id": "p"}', "unknown_question_id"),
        ('{"question_id": "q "}', "unknown_question_id"),
        ('{"question_id": "p", "input_tokens": "x"}', "unknown_question_id"),
    ],
)
def test_question_ids(text: str, reason: str) -> None:
    assert reject_of(text)[0] == reason


def test_fields_and_metadata() -> None:
    response = read(
        '{"x": 1, "question_id": "q", "id": "r", "error": null, "steps_score": 1, "status": null}'
    )
    assert not response.failed
    assert response.question_id == "q"
    assert response.fields == {"question_id": "q", "id": "r", "x": 1, "steps_score": 1}
    assert response.metadata == {"x": 1, "steps_score": 1}


@each(
    ("fields", "failed"),
    [
        ('"status": "success"', False),
        ('"error": null', False),
        ('"status": "success", "error": null', False),
        ('"status": "error"', True),
        ('"error": "boom"', True),
        ('"error": ""', True),
        ('"error": false', True),
        ('"error": {"code": 1}', True),
        ('"status": "success", "error": 0', True),
    ],
)
def test_which_responses_failed(fields: str, failed: bool) -> None:
    assert read(f'{{"question_id": "q", {fields}}}').failed is failed


@each("key", COUNTS)
@each(
    ("value", "accepted"),
    [
        ("0", True),
        ("-0.0", True),
        ("1.5", True),
        ("1e300", False),
        ("18446744073709551615", True),
        ("18446744073709551616", False),
        ("9223372036854775807.0", False),
        ("9" * 25, False),
        ("9" * 10_000, False),
        ("1e400", False),
        ("-1", False),
        ("-" + "9" * 25, False),
        ("-1e-300", False),
        ("true", False),
        ('"1"', False),
        ("[1]", False),
        ("{}", False),
    ],
)
def test_counts(key: str, value: str, accepted: bool) -> None:
    if accepted:
        response = read(with_field(key, value))
        assert response.fields == {"question_id": "q", key: json.loads(value)}
        assert (response.metrics, response.numbers) == ((key,), (json.loads(value),))
    else:
        reason, message = reject_of(with_field(key, value))
        assert reason == "invalid_field"
        assert message.startswith(f"{key}: ")
        assert len(message) < 200


@each(
    ("key", "value"),
    [
        ("id", "true"),
        ("id", "[]"),
        ("id", "{}"),
        ("id", "9" * 25),
        ("id", "-" + "9" * 25),
        ("status", '"failed"'),
        ("status", "1"),
        ("status", '["error"]'),
        ("actual_answer", "1"),
        ("actual_answer", '["a"]'),
        ("actual_steps", "{}"),
        ("actual_steps", '"[]"'),
        ("actual_steps", "[[]]"),
        ("actual_steps", "[null]"),
        ("actual_steps", '[{}, "x"]'),
        ("actual_steps", '[{"name": 1}]'),
        ("actual_steps", '[{"name": ["sparql_query"]}]'),
    ],
)
def test_invalid_fields(key: str, value: str) -> None:
    reason, message = reject_of(with_field(key, value))
    assert reason == "invalid_field"
    assert message.startswith(key)


def test_the_step_is_named() -> None:
    assert reject_of(with_field("actual_steps", '[{"name": "a"}, {"name": 1}]'))[1].startswith(
        "actual_steps[1].name: "
    )


def test_metrics_that_the_agent_claims_are_set_aside() -> None:
    step = {"name": "retrieval", "retrieval_answer_f1": "high", "k_cost": 9, "metadata": {"a": 1}, "x": 2}
    response = read(with_field("actual_steps", json.dumps([step, {"name": "retrieval"}])))
    claimed = {"retrieval_answer_f1": "high", "k_cost": 9, "metadata": {"a": 1}}
    assert response.fields["actual_steps"] == [
        {"name": "retrieval", "x": 2, "metadata": claimed},
        {"name": "retrieval"},
    ]


@each(
    ("key", "value"),
    [
        ("id", '""'),
        ("id", "0"),
        ("id", "1.5"),
        ("actual_answer", '""'),
        ("actual_steps", "[]"),
        ("actual_steps", "[{}]"),
        ("actual_steps", '[{"name": "x", "status": "success", "output": [], "args": 3}]'),
        ("actual_steps", '[{"name": null}]'),
        ("actual_steps", '[{"name": "retrieval", "retrieval_answer_recall_reason": "why"}]'),
        ("actual_steps", '[{"name": "sparql_query", "retrieval_answer_recall": "unused"}]'),
    ],
)
def test_valid_fields(key: str, value: str) -> None:
    assert read(with_field(key, value)).fields == {"question_id": "q", key: json.loads(value)}


def arrays(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("place", "above"),
    [
        ('{"question_id": "q", "other": %s}', 1),
        ('{"question_id": "q", "error": %s}', 1),
        ('{"question_id": "q", "actual_steps": [{"args": %s}]}', 3),
        ('{"question_id": "q", "actual_steps": [{"args": {"a": %s}}]}', 4),
    ],
)
def test_depth_counts_from_the_record(place: str, above: int) -> None:
    response = read(place % arrays(200 - above))
    assert orjson.dumps([response.fields, response.metadata])
    for depth in (201 - above, 253, 900, 1_000_000):
        assert reject_of(place % arrays(depth))[0] == "too_deep"


@pytest.mark.parametrize(
    "place",
    [
        "%s",
        '{"question_id": %s}',
        '{"question_id": "unknown", "x": %s}',
        '{"question_id": "q", "input_tokens": %s}',
        '{"question_id": "q", "actual_steps": %s}',
        '{"question_id": "q", "actual_steps": [{"name": %s}]}',
        '{"x": %s, "question_id": null}',
    ],
)
def test_too_deep_goes_before_other_reasons(place: str) -> None:
    for depth in (250, 900, 1_000_000):
        assert reject_of(place % arrays(depth))[0] == "too_deep"


@each(
    ("step", "status"),
    [
        ({"output": "x"}, "success"),
        ({"output": "x", "status": None}, "success"),
        ({"output": "x", "error": None}, "success"),
        ({"error": "x"}, "error"),
        ({"error": "x", "output": "x"}, "error"),
        ({"error": "", "output": "x"}, "success"),
        ({"error": ""}, "error"),
        ({"error": "x", "status": "success", "output": "y"}, "success"),
        ({}, None),
    ],
)
def test_a_missing_status_is_inferred(step: dict[str, Any], status: str | None) -> None:
    response = read(json.dumps({"question_id": "q", "actual_steps": [{"name": "n", **step}]}))
    assert response.fields["actual_steps"][0].get("status") == status
    assert list(response.usable) == ["n" if status == "success" else None]


@each("status", ["completed", "ok", "failed", "Success", ""])
def test_a_status_is_success_or_error(status: str) -> None:
    text = json.dumps(
        {"question_id": "q", "actual_steps": [{}, {"name": "n", "status": status, "output": 1}]}
    )
    expected = f'actual_steps[1].status: expected "success" or "error", got {status!r}'
    assert reject_of(text) == ("invalid_field", expected)


@each(
    ("response", "message"),
    [
        ({"steps": [{"name": "n"}]}, "steps: did you mean actual_steps?"),
        ({"trajectory": [{"name": "n"}]}, "trajectory: did you mean actual_steps?"),
        (
            {"actual_steps": [{"name": "retrieve_data_points", "output": "[]", "arguments": {}}]},
            "actual_steps[0].arguments: did you mean actual_steps[0].args?",
        ),
        (
            {"actual_steps": [{"name": "retrieve_time_series", "output": "[]", "args": "{}"}]},
            "actual_steps[0].args: expected an object, got a string; parse it",
        ),
        (
            {"actual_steps": [{"type": "tool_use", "name": "n", "input": {}}]},
            (
                "actual_steps[0]: this is a tool call without its result; a step has both. "
                "To convert messages to steps, use response_from_trace or --format auto"
            ),
        ),
        (
            {"messages": [{"role": "user"}]},
            'messages: looks like an agent trace; to read it, use format="auto" or --format auto',
        ),
        ({"actualSteps": [{}]}, "actualSteps: did you mean actual_steps?"),
        ({"tool_calls": [{"name": "n"}]}, "tool_calls: did you mean actual_steps?"),
        ({"answer": "a"}, "answer: did you mean actual_answer?"),
        ({"actual_anwser": "a"}, "actual_anwser: did you mean actual_answer?"),
        ({"actual_steps": [{"tool": "n"}]}, "actual_steps[0].tool: did you mean actual_steps[0].name?"),
        (
            {"actual_steps": [{"name": "n", "result": "x"}]},
            "actual_steps[0].result: did you mean actual_steps[0].output?",
        ),
        (
            {"actual_steps": [{"type": "function", "function": {"name": "n", "arguments": "{}"}}]},
            (
                "actual_steps[0].function: this is an OpenAI tool call; a step has name, args, status and "
                "output. To convert messages to steps, use response_from_openai or --format openai"
            ),
        ),
    ],
)
def test_a_probably_misnamed_key_is_reported(response: dict[str, Any], message: str) -> None:
    assert reject_of(json.dumps({"question_id": "q", **response})) == ("invalid_field", message)


@each(
    "response",
    [
        {"steps": 3, "answer": 5},
        {"steps": [], "tool_calls": ["n"]},
        {"steps": [{"name": "n"}], "actual_steps": []},
        {"answer": "draft", "actual_answer": "a"},
        {"error": "timeout", "output": "so far"},
        {"messages": [{"role": "user"}], "actual_answer": "a", "answers_seen": "3"},
        {
            "actual_steps": [
                {"name": "n", "status": "error", "result": "x"},
                {"name": "n", "output": 1, "result": 2},
            ]
        },
    ],
)
def test_other_keys_are_metadata(response: dict[str, Any]) -> None:
    read(json.dumps({"question_id": "q", **response}))


@each(
    ("response", "hint"),
    [
        ({"questionId": "q"}, "(is 'questionId' meant to be question_id?)"),
        ({"qid": "q"}, "(is 'qid' meant to be question_id?)"),
        ({"messages": [{"role": "user"}]}, "or --format auto"),
        ({"resourceSpans": [{}]}, "or --format otlp"),
        ({"id": "q"}, "(id is the id of the response itself)"),
        ({"x": "q"}, "must name its question"),
    ],
)
def test_hints_for_a_missing_question_id(response: dict[str, str], hint: str) -> None:
    reason, message = reject_of(json.dumps(response))
    assert reason == "missing_question_id"
    assert message.endswith(hint)


def test_a_list_of_messages_gets_a_hint() -> None:
    with pytest.raises(
        InvalidRecord, match='got an array; to read agent traces, use format="auto" or --format auto'
    ):
        read_response(b'[{"role": "user", "content": "?"}]', {})
    with pytest.raises(InvalidRecord, match=r"got an array$"):
        read_response(b"[1]", {})
