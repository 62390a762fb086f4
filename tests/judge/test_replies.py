"""What each misbehaviour of a server becomes: one request, one error, its kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.refusals import Response, Scrubber, retry_after
from graphrag_eval_async.judge.replies import read_completion, read_embeddings
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.support.cases import each
from tests.support.judge_server import Reply, completion, embeddings, error, json_reply

if TYPE_CHECKING:
    from graphrag_eval_async.errors import Failure

KEY = "sk-secret-0123456789"
USED = TokenUsage(100, 20)
TARGET = ("llm.generation", "gpt-4o at https://host/v1")


def judged(reply: Reply) -> JudgeError:
    scrub = Scrubber([KEY, f"{KEY}-longer"])
    return Response(reply.status, dict(reply.headers), reply.body, scrub).failure(*TARGET)


@each(
    ("reply", "kind", "final"),
    [
        (error(403, "no", code="content_filter"), "refused", False),
        (error(400, "no", type="content_policy_violation"), "refused", False),
        (error(400, "no", code="model_not_found"), "invalid_request", True),
        (error(400, "no", code="billing_hard_limit_reached"), "unavailable", True),
        (error(429, "You exceeded your current quota: insufficient_quota"), "rate_limited", False),
        (error(500, "no", code="insufficient_quota"), "unavailable", False),
        (error(418, "no"), "invalid_request", False),
        (error(429, "no", code={"insufficient_quota": 1}), "rate_limited", False),
        (json_reply([{"error": {"code": "insufficient_quota"}}], status=429), "unavailable", True),
        (json_reply({"message": "no", "code": "model_not_found"}, status=400), "invalid_request", True),
        (json_reply({"error": None}, status=400), "invalid_request", False),
        (Reply(b"\xff\xfe", 503), "unavailable", False),
        (Reply(b"[" * 100_000, 500), "unavailable", False),
        (Reply(b"", 304), "invalid_request", False),
    ],
)  # fmt: skip
def test_other_refusals(reply: Reply, kind: Failure, final: bool) -> None:
    found = judged(reply)
    assert (found.kind, found.final) == (kind, final)
    assert isinstance(found, JudgeUnavailable) == (final and kind == "unavailable")


def test_texts_of_servers_are_short_and_without_secrets() -> None:
    found = str(judged(error(400, f"a\n\tb {KEY}-longer {KEY} " + "x" * 1000)))
    assert found.startswith("invalid_request: HTTP 400: a b *** *** xxx")
    assert found.endswith("x...")
    assert len(found) == len("invalid_request: ") + 300


def test_a_secret_at_the_end_of_an_excerpt_is_not_half_shown() -> None:
    for padding in range(270, 310):
        assert KEY[:4] not in str(judged(error(400, "x" * padding + KEY)))
        reply = Reply(b"x" * (padding - 200) + KEY.encode())
        with pytest.raises(JudgeError) as caught:
            read(reply.body)
        assert KEY[:4] not in str(caught.value)


@each(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 -0000"}, 0.0),
        ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def read(body: bytes) -> tuple[Any, TokenUsage | None]:
    response = Response(200, {"content-type": "text/plain"}, body, Scrubber([KEY]))
    value, usage, _ = read_completion(response)
    return value, usage


def read_vectors(body: bytes) -> tuple[list[list[float]], TokenUsage | None]:
    return read_embeddings(Response(200, {}, body))


USAGES: list[tuple[Any, TokenUsage | None]] = [
    ({"prompt_tokens": 3, "completion_tokens": 4}, TokenUsage(3, 4)),
    ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}, TokenUsage(3, 0, 2)),
    ({"prompt_tokens": 3, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 2},
      "total_tokens": 7}, TokenUsage(3, 4)),
    ({"prompt_tokens": 3, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 2},
      "total_tokens": 9}, TokenUsage(3, 6)),
    *(({"prompt_tokens": count}, None) for count in (True, -1, 3.5, "3", 2**60)),
    ({"prompt_tokens": 3, "completion_tokens": -4}, None),
    ([], None),
    (None, None),
]  # fmt: skip


@each(("usage", "expected"), USAGES)
def test_usage(usage: Any, expected: TokenUsage | None) -> None:
    body = json_reply({"choices": [{"message": {"content": "1"}}], "usage": usage}).body
    assert read(body) == (1, expected)


@each("content", ["text", "[NaN]", "-Infinity", "1e999", "9" * 400, "'a'", "[" * 9999, '"\\ud800"'])
def test_content_that_is_no_json(content: str) -> None:
    with pytest.raises(JudgeError, match="invalid_reply: the content is not JSON") as caught:
        read(completion(content).body)
    assert (caught.value.reply, caught.value.usage, caught.value.final) == (content, USED, False)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(leaves, min_size=1, max_size=3) | st.dictionaries(TEXT, leaves, min_size=1, max_size=3)


TEXT = st.text(st.sampled_from('ab {}[],:"\\\n\t\x01'), max_size=8)
OBJECTS = st.dictionaries(
    TEXT, st.recursive(TEXT | st.integers(0, 9) | st.none(), nested), min_size=1, max_size=3
)


@given(OBJECTS, st.data())
def test_a_part_of_a_broken_object_is_never_the_reply(value: dict[str, Any], data: st.DataObject) -> None:
    content = json.dumps({"outer": value, "more": [value]})
    cut = data.draw(st.integers(1, len(content) - 1))
    with pytest.raises(JudgeError, match="the content is not JSON") as caught:
        read(completion(content[:cut]).body)
    assert caught.value.message.endswith(f"; it ends with {content[:cut][-100:]!r}")


@each(
    ("message", "reason", "found"),
    [
        ({"content": "", "reasoning_content": '{"value": 1}'}, "stop", {"value": 1}),
        ({"content": '{"value": 2}', "reasoning_content": '{"value": 1}'}, "stop", {"value": 2}),
        ({"content": "", "reasoning_content": '{"value": 1}'}, "length", None),
        ({"content": "", "reasoning_content": 'It is {"value": 1}'}, "stop", None),
        ({"content": "", "reasoning_content": '{"value": 1, "value": 2}'}, "stop", None),
    ],
)
def test_a_reply_among_the_reasoning(message: dict[str, Any], reason: str | None, found: Any) -> None:
    body = json_reply({"choices": [{"message": message, "finish_reason": reason}]}).body
    if found is None:
        with pytest.raises(JudgeError, match="invalid_reply"):
            read(body)
    else:
        assert read(body) == (found, None)


@given(st.permutations(range(6)))
def test_embeddings_come_in_the_order_of_the_texts(order: list[int]) -> None:
    body = embeddings([[float(i)] for i in order], indexes=order).body
    assert read_vectors(body)[0] == [[float(i)] for i in range(6)]


@each(
    "data",
    [
        None,
        [{"embedding": [1]}, {}],
        [{"embedding": [1]}, {"embedding": [True]}],
        [{"embedding": [1]}, {"embedding": "AACAPw=="}],
        [{"embedding": [1], "index": 0}, {"embedding": [1]}],
        [{"embedding": [1], "index": 1}, {"embedding": [1], "index": 2}],
    ],
)
def test_no_embeddings(data: Any) -> None:
    with pytest.raises(JudgeError, match="invalid_reply") as caught:
        read_vectors(json_reply({"data": data, "usage": {"prompt_tokens": 7}}).body)
    assert caught.value.usage == TokenUsage(7)
