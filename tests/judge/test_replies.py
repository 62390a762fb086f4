"""What each reply of a server becomes, and how much it may take: bytes, inflated or not, and values."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LimitsConfig, LLMConfig
from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.refusals import Denied, Response, Scrubber, retry_after
from graphrag_eval_async.judge.replies import read_completion, read_embeddings
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.judge.support import VERDICT, Opened, message
from tests.support.cases import each
from tests.support.judge_server import JudgeServer, Reply, completion, embeddings, error, json_reply

if TYPE_CHECKING:
    from graphrag_eval_async.errors import Failure

KEY = "sk-secret-0123456789"
MIB = 1 << 20


def judged(reply: Reply) -> JudgeError:
    response = Response(reply.status, dict(reply.headers), reply.body, Scrubber([KEY, f"{KEY}-longer"]))
    return response.failure("llm.generation", "gpt-4o at https://host/v1")


def read(body: bytes) -> tuple[Any, TokenUsage | None]:
    return read_completion(Response(200, {"content-type": "text/plain"}, body, Scrubber([KEY])))[:2]


@each(
    ("reply", "kind", "final"),
    [
        (error(403, "no", code="content_filter"), "refused", False),
        (error(400, "no", type="content_policy_violation"), "refused", False),
        (error(400, "no", code="model_not_found"), "invalid_request", True),
        (error(400, "no", code="billing_hard_limit_reached"), "unavailable", True),
        (error(429, "You exceeded your current quota: insufficient_quota"), "rate_limited", False),
        (error(500, "no", code="insufficient_quota"), "unavailable", False),
        (error(429, "no", code={"insufficient_quota": 1}), "rate_limited", False),
        (json_reply([{"error": {"code": "insufficient_quota"}}], status=429), "unavailable", True),
        (json_reply({"message": "no", "code": "model_not_found"}, status=400), "invalid_request", True),
        (json_reply({"error": None}, status=400), "invalid_request", False),
        (Reply(b"\xff\xfe", 503), "unavailable", False),
        (Reply(b"[" * 100_000, 500), "unavailable", False),
    ],
)
def test_other_refusals(reply: Reply, kind: Failure, final: bool) -> None:
    found = judged(reply)
    assert (found.kind, found.final) == (kind, final)
    assert isinstance(found, JudgeUnavailable) == (final and kind == "unavailable")


def test_texts_of_servers_are_short_and_without_secrets() -> None:
    found = str(judged(error(400, f"a\n\tb {KEY}-longer {KEY} " + "x" * 1000)))
    assert found.startswith("invalid_request: HTTP 400: a b *** *** xxx")
    assert found.endswith("x...")
    assert len(found) == len("invalid_request: ") + 300
    for padding in range(270, 310):  # A secret at the end of an excerpt is not half shown.
        assert KEY[:4] not in str(judged(error(400, "x" * padding + KEY)))
        with pytest.raises(JudgeError) as caught:
            read(b"x" * (padding - 200) + KEY.encode())
        assert KEY[:4] not in str(caught.value)
    assert KEY[:4] not in str(judged(error(400, KEY * (MIB // len(KEY)))))


@each(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 -0000"}, 0.0),
        ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


PARTS = {"prompt_tokens": 3, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 2}}


@each(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, TokenUsage(3, 4)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}, TokenUsage(3, 0, 2)),
        (PARTS | {"total_tokens": 7}, TokenUsage(3, 4)),
        (PARTS | {"total_tokens": 9}, TokenUsage(3, 6)),
        *(({"prompt_tokens": count}, None) for count in (True, -1, 3.5, "3", 2**60)),
        ({"prompt_tokens": 3, "completion_tokens": -4}, None),
        ([], None),
    ],
)
def test_usage(usage: Any, expected: TokenUsage | None) -> None:
    body = json_reply({"choices": [{"message": {"content": "1"}}], "usage": usage}).body
    assert read(body) == (1, expected)


@each("content", ["text", "[NaN]", "-Infinity", "1e999", "9" * 400, "'a'", "[" * 9999, '"\\ud800"'])
def test_content_that_is_no_json(content: str) -> None:
    with pytest.raises(JudgeError, match="invalid_reply: the content is not JSON") as caught:
        read(completion(content).body)
    assert (caught.value.reply, caught.value.usage, caught.value.final) == (content, (100, 20, 0), False)


TEXT = st.text(st.sampled_from('ab {}[],:"\\\n\t\x01'), max_size=8)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(leaves, min_size=1, max_size=3) | st.dictionaries(TEXT, leaves, min_size=1, max_size=3)


@given(nested(st.recursive(TEXT | st.integers(0, 9) | st.none(), nested)), st.data())
def test_a_part_of_a_broken_object_is_never_the_reply(value: Any, data: st.DataObject) -> None:
    content = json.dumps({"outer": value, "more": [value]})
    cut = data.draw(st.integers(1, len(content) - 1))
    with pytest.raises(JudgeError, match="the content is not JSON") as caught:
        read(completion(content[:cut]).body)
    assert caught.value.message.endswith(f"; it ends with {content[:cut][-100:]!r}")


def test_only_a_whole_object_is_a_reply_among_the_reasoning() -> None:
    def message(content: str, reasoning: str, reason: str = "stop") -> bytes:
        parts = {"content": content, "reasoning_content": reasoning}
        return json_reply({"choices": [{"message": parts, "finish_reason": reason}]}).body

    assert read(message('{"value": 2}', '{"value": 1}')) == ({"value": 2}, None)
    assert read(message("", '{"value": 1}')) == ({"value": 1}, None)
    for wrong in (message("", 'It is {"value": 1}'), message("", '{"value": 1}', "length")):
        with pytest.raises(JudgeError, match="invalid_reply"):
            read(wrong)


def test_embeddings_come_in_the_order_of_the_texts() -> None:
    order = [3, 0, 2, 1]
    body = embeddings([[float(i)] for i in order], indexes=order).body
    assert read_embeddings(Response(200, {}, body))[0] == [[float(i)] for i in range(4)]


GZIP = (("Content-Encoding", "gzip"),)
DEFLATE = zlib.compressobj(9, wbits=31)
BOMB = b"".join([*(DEFLATE.compress(b" " * MIB) for _ in range(100)), DEFLATE.flush()])
"""A hundred kilobytes that inflate to 100 MiB."""


async def asked(reply: Reply, *, embed: bool = False, **limits: Any) -> Any:
    async with JudgeServer(lambda _: reply) as server:
        connection: Any = {"provider": "openai", "base_url": server.base_url, "api_key": KEY}
        generation = GenerationConfig(**connection, model="gpt-4o")
        embedding = EmbeddingConfig(**connection, model="text-embedding-3-small")
        judge = Opened(LLMConfig(generation=generation, embedding=embedding, limits=LimitsConfig(**limits)))
        try:
            return await (judge.embed(["a", "b"]) if embed else judge.complete(message(), VERDICT.schema))
        finally:
            await judge.aclose()
            await server.until(lambda: server.counts.connections == 0)


@pytest.fixture(autouse=True, scope="module")
def imported() -> None:
    """What is imported with the first request is no memory of a reply."""
    asyncio.run(asked(completion({"value": 1})))


async def failing(reply: Reply, *, embed: bool = False) -> tuple[JudgeError, int]:
    """The error, and the most memory that it took."""
    tracemalloc.start()
    try:
        with pytest.raises(JudgeError) as caught:
            await asked(reply, embed=embed)
        return caught.value, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_a_reply_that_is_too_large_is_an_error() -> None:
    long = Reply(b" " * (8 * MIB))
    bomb = Reply(BOMB, headers=GZIP)
    nothing = Reply(gzip.compress(b"") * (MIB // 5), headers=GZIP)  # In 4 MiB.
    deflated = Reply(zlib.compress(b" " * (64 * MIB)), headers=(("Content-Encoding", "deflate"),))
    for reply in (long, bomb, nothing, deflated):
        error, peak = await failing(reply)
        text = "invalid_reply: the reply is longer than 2097152 bytes; raise llm.limits.max_reply_bytes"
        assert (str(error), error.final) == (text, True)  # It would be no shorter the second time.
        assert peak < 4 * 8 * MIB  # The server of the test holds the body, too.
    body = completion({"value": 1}).body + b" " * 200
    for reply in (Reply(body), Reply(gzip.compress(body), headers=GZIP)):
        assert (await asked(reply, max_reply_bytes=300 + len(body)))[0] == {"value": 1}
        with pytest.raises(JudgeError, match="longer than 100 bytes; raise"):
            await asked(reply, max_reply_bytes=100)


async def test_an_error_keeps_its_meaning_however_long_it_is() -> None:
    bodies: list[tuple[bytes, Any]] = [(b" " * (8 * MIB), ()), (BOMB, GZIP), (b"no gzip", GZIP)]
    for body, headers in bodies:
        with pytest.raises(Denied, match="HTTP 401"):
            await asked(Reply(body, 401, headers))
        error, _ = await failing(Reply(body, 503, (*headers, ("Retry-After", "7"))))
        assert (error.kind, error.retry_after) == ("unavailable", 7.0)
    error, _ = await failing(Reply(b"no gzip", headers=GZIP))
    assert str(error).startswith("unavailable: the reply cannot be decompressed")
    assert not error.final


async def test_a_reply_of_too_many_values_is_refused_before_it_is_decoded() -> None:
    """As lists and dicts, 2 MiB take 40 to 100 MiB and, all at once, up to 0.7 s."""
    junk = f"[{','.join(['[]'] * (MIB // 2))}]"
    choice = '{"choices":[{"message":{"content":%s},"finish_reason":"stop"}],"logprobs":%s}'
    for where, body in {
        "content": choice % (orjson.dumps(f'{{"value": {junk}}}').decode(), "0"),
        "body": choice % ('"{}"', junk),
        "vectors": f'{{"data":[{{"embedding":{junk}}}]}}',
        "usage": f'{{"data":[{{"embedding":[1.0]}}],"usage":{junk}}}',
        "error": junk,
    }.items():
        reply = Reply(body.encode(), 400 if where == "error" else 200)
        error, peak = await failing(reply, embed=where in {"vectors", "usage"})
        assert error.kind == ("invalid_request" if where == "error" else "invalid_reply"), where
        assert peak < 16 * MIB, where
