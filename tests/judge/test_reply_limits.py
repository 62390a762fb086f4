"""How much a judge's reply may take: bytes, inflated or not, and time to quote it."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from typing import Any

import orjson
import pytest

from graphrag_eval_async.config import LimitsConfig
from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.openai_replies import Response, Scrubber, Target, failure_of
from tests.judge.test_openai_faults import KEY, MESSAGES, SCHEMA, TEXTS, judge_of
from tests.judge_server import JudgeServer, Reply, completion, error

MIB = 1 << 20
BOMB_MIB = 100
GZIP = (("Content-Encoding", "gzip"),)


def bomb() -> bytes:
    """A hundred kilobytes that inflates to `BOMB_MIB`."""
    deflate = zlib.compressobj(9, wbits=31)
    return b"".join([*(deflate.compress(b" " * MIB) for _ in range(BOMB_MIB)), deflate.flush()])


async def asked(reply: Reply, *, embed: bool = False, **limits: Any) -> Any:
    async with JudgeServer(lambda _: reply) as server:
        judge = judge_of(server, limits=LimitsConfig(**limits))
        try:
            return await (judge.embed(TEXTS) if embed else judge.complete(MESSAGES, SCHEMA))
        finally:
            await judge.aclose()
            await server.until(lambda: server.counts.connections == 0)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b" " * (8 * MIB), ()),
        (bomb(), GZIP),
        (zlib.compress(b" " * (64 * MIB)), (("Content-Encoding", "deflate"),)),
        (gzip.compress(b"") * (MIB // 5), GZIP),  # Nothing, in 4 MiB.
    ],
)
@pytest.mark.parametrize("embed", [False, True])
async def test_a_reply_that_is_too_large_is_an_error(
    body: bytes, headers: tuple[tuple[str, str], ...], embed: bool
) -> None:
    started = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(JudgeError) as caught:
            await asked(Reply(body, headers=headers), embed=embed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.kind == "invalid_reply"
    assert caught.value.final  # It would be no shorter the second time.
    assert str(caught.value) == (
        "invalid_reply: the reply is longer than 2097152 bytes; raise llm.limits.max_reply_bytes"
    )
    assert peak < 4 * 8 * MIB  # The server of the test holds the body, too.
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("limit", "fits"),
    [(100, False), (MIB, True)],
)
async def test_the_limit_is_an_option(limit: int, fits: bool) -> None:
    body = completion({"value": 1}).body + b" " * 200
    for reply in (Reply(body), Reply(gzip.compress(body), headers=GZIP)):
        if fits:
            assert (await asked(reply, max_reply_bytes=limit))[0] == {"value": 1}
        else:
            with pytest.raises(JudgeError, match="longer than 100 bytes; raise"):
                await asked(reply, max_reply_bytes=limit)


async def test_a_large_reply_within_the_limit_is_read() -> None:
    text = "x" * MIB
    reply, usage = await asked(completion({"value": text}))
    assert reply == {"value": text}
    assert usage is not None


@pytest.mark.parametrize(("body", "headers"), [(b" " * (8 * MIB), ()), (bomb(), GZIP), (b"no gzip", GZIP)])
async def test_an_error_keeps_its_meaning_however_long_it_is(
    body: bytes, headers: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(JudgeUnavailable, match="HTTP 401"):
        await asked(Reply(body, 401, headers))
    with pytest.raises(JudgeError) as caught:
        await asked(Reply(body, 503, (*headers, ("Retry-After", "7"))))
    assert (caught.value.kind, caught.value.retry_after) == ("unavailable", 7.0)


async def test_a_broken_gzip_is_an_unusable_reply() -> None:
    with pytest.raises(JudgeError, match="unavailable: the reply cannot be decompressed") as caught:
        await asked(Reply(b"no gzip", headers=GZIP))
    assert not caught.value.final


async def test_a_cut_gzip_is_an_unusable_reply() -> None:
    whole = gzip.compress(completion({"value": 1}).body)
    with pytest.raises(JudgeError, match="invalid_reply"):
        await asked(Reply(whole[: len(whole) // 2], headers=GZIP))


async def test_a_gzipped_error_is_read() -> None:
    reply = error(400, "Unrecognised parameter")
    with pytest.raises(JudgeError, match="invalid_request: HTTP 400: Unrecognised parameter"):
        await asked(Reply(gzip.compress(reply.body), 400, GZIP))


@pytest.mark.parametrize("text", ["x ", "\n", "x", KEY, KEY[:-1]])
def test_quoting_a_long_text_takes_time_for_its_beginning_only(text: str) -> None:
    body = orjson.dumps({"error": {"message": text * (32 * MIB // len(text))}})
    scrub = Scrubber([KEY])
    started = time.process_time()
    for _ in range(10):
        scrub(text * (32 * MIB // len(text)), 100)
    assert time.process_time() - started < 2
    assert KEY not in str(failure_of(Response(400, {}, body, scrub), Target("llm.generation", "m", "u")))


def test_no_part_of_a_secret_is_left_where_a_text_is_cut() -> None:
    for blanks in range(65_536 - 2 * len(KEY), 65_536 + 2 * len(KEY)):
        assert KEY[:4] not in Scrubber([KEY])(" " * blanks + KEY)
