"""How much a judge's reply may take: bytes, inflated or not, and time to quote it."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from typing import Any

import orjson
import pytest

from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LimitsConfig, LLMConfig
from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.refusals import Denied, Response, Scrubber
from tests.judge.support import VERDICT, Opened, message
from tests.support.judge_server import JudgeServer, Reply, completion

KEY = "sk-secret-0123456789"
MIB = 1 << 20
BOMB_MIB = 100
GZIP = (("Content-Encoding", "gzip"),)


def bomb() -> bytes:
    """A hundred kilobytes that inflates to `BOMB_MIB`."""
    deflate = zlib.compressobj(9, wbits=31)
    return b"".join([*(deflate.compress(b" " * MIB) for _ in range(BOMB_MIB)), deflate.flush()])


async def asked(reply: Reply, *, embed: bool = False, **limits: Any) -> Any:
    async with JudgeServer(lambda _: reply) as server:
        connection: Any = {"provider": "openai", "base_url": server.base_url, "api_key": KEY}
        generation = GenerationConfig(**connection, model="gpt-4o")
        embedding = EmbeddingConfig(**connection, model="text-embedding-3-small")
        judge = Opened(LLMConfig(generation=generation, embedding=embedding, limits=LimitsConfig(**limits)))
        try:
            return await (
                judge.embed(["a", "b", "c"]) if embed else judge.complete(message(), VERDICT.schema)
            )
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
    bodies: list[tuple[bytes, Any]] = [
        (b" " * (8 * MIB), ()),
        (bomb(), GZIP),
        (zlib.compress(b" " * (64 * MIB)), (("Content-Encoding", "deflate"),)),
        (gzip.compress(b"") * (MIB // 5), GZIP),  # Nothing, in 4 MiB.
    ]
    for body, headers in bodies:
        error, peak = await failing(Reply(body, headers=headers))
        text = "invalid_reply: the reply is longer than 2097152 bytes; raise llm.limits.max_reply_bytes"
        assert (str(error), error.final) == (text, True)  # It would be no shorter the second time.
        assert peak < 4 * 8 * MIB  # The server of the test holds the body, too.


async def test_the_limit_is_an_option() -> None:
    body = completion({"value": 1}).body + b" " * 200
    for reply in (Reply(body), Reply(gzip.compress(body), headers=GZIP)):
        assert (await asked(reply, max_reply_bytes=MIB))[0] == {"value": 1}
        with pytest.raises(JudgeError, match="longer than 100 bytes; raise"):
            await asked(reply, max_reply_bytes=100)


async def test_an_error_keeps_its_meaning_however_long_it_is() -> None:
    bodies: list[tuple[bytes, Any]] = [(b" " * (8 * MIB), ()), (bomb(), GZIP), (b"no gzip", GZIP)]
    for body, headers in bodies:
        with pytest.raises(Denied, match="HTTP 401"):
            await asked(Reply(body, 401, headers))
        error, _ = await failing(Reply(body, 503, (*headers, ("Retry-After", "7"))))
        assert (error.kind, error.retry_after) == ("unavailable", 7.0)


async def test_a_broken_gzip_is_an_unusable_reply() -> None:
    error, _ = await failing(Reply(b"no gzip", headers=GZIP))
    assert str(error).startswith("unavailable: the reply cannot be decompressed")
    assert not error.final


async def test_a_reply_of_too_many_values_is_refused_before_it_is_decoded() -> None:
    """As lists and dicts, 2 MiB take 40 to 100 MiB and, all at once, up to 0.7 s."""
    junk = f"[{','.join(['[]'] * (MIB // 2))}]"
    choice = '{"choices":[{"message":{"content":%s},"finish_reason":"stop"}],"logprobs":%s}'
    for where, body in {
        "content": choice % (f'"{{\\"value\\": {junk}}}"', "0"),
        "body": choice % ('"{}"', junk),
        "vectors": f'{{"data":[{{"embedding":{junk}}}]}}',
        "usage": f'{{"data":[{{"embedding":[1.0]}}],"usage":{junk}}}',
        "error": junk,
    }.items():
        reply = Reply(body.encode(), 400 if where == "error" else 200)
        error, peak = await failing(reply, embed=where in {"vectors", "usage"})
        assert error.kind == ("invalid_request" if where == "error" else "invalid_reply"), where
        assert peak < 16 * MIB, where


def test_a_long_text_that_is_quoted_shows_no_secret() -> None:
    body = orjson.dumps({"error": {"message": KEY * (4 * MIB // len(KEY))}})
    scrub = Scrubber([KEY])
    assert KEY[:4] not in str(Response(400, {}, body, scrub).failure("llm.generation", "m at u"))
