"""What each reply of a server becomes."""

from __future__ import annotations

import json
import re
from html import escape
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import JudgeError, JudgeUnavailable, OpenAIJudge
from graphrag_eval_async.judge.failures import retry_after
from graphrag_eval_async.judge.replies import read_completion
from graphrag_eval_async.judge.scrubber import Scrubber
from graphrag_eval_async.judge.setting_names import SettingNames
from graphrag_eval_async.records.token_usage import TokenUsage
from tests.support.judge_server import JudgeServer, Reply, completion, embeddings, error, json_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.errors import Failure

KEY = "sk-secret-0123456789"
MIB = 1 << 20


MESSAGES = [{"role": "user", "content": "?"}]
SCHEMA = {"title": "Reply", "type": "object", "properties": {}}


async def judged(*replies: Reply) -> list[JudgeError]:
    """The errors of requests with these replies, for a key that is a part of a longer secret."""
    errors = []
    replies_in_turn = iter(replies)
    async with (
        JudgeServer(lambda _: next(replies_in_turn)) as server,
        openai.AsyncOpenAI(
            api_key=f"{KEY}-longer", base_url=server.base_url, max_retries=0
        ) as client,
    ):
        judge = OpenAIJudge(client, "gpt-4o")
        judge.name_settings(SettingNames.of_section("llm.generation"), {KEY})
        for _ in replies:
            with pytest.raises(JudgeError) as caught:
                await judge.complete(MESSAGES, SCHEMA)
            errors.append(caught.value)
    return errors


def read(fields: Any) -> tuple[Any, TokenUsage | None]:
    return read_completion(fields, Scrubber([KEY]), "max_tokens")[:2]


@pytest.mark.parametrize(
    ("reply", "kind", "final"),
    [
        pytest.param(
            error(403, "no", code="content_filter"), "refused", False, id="content filter"
        ),
        pytest.param(
            error(400, "no", code="model_not_found"), "invalid_request", True, id="unknown model"
        ),
        pytest.param(
            error(400, "no", code="billing_hard_limit_reached"),
            "unavailable",
            True,
            id="billing limit",
        ),
        pytest.param(
            error(429, "You exceeded your current quota: insufficient_quota"),
            "rate_limited",
            False,
            id="code in the message",
        ),
        pytest.param(
            json_reply([{"error": {"code": "insufficient_quota"}}], status=429),
            "unavailable",
            True,
            id="error in a list",
        ),
        pytest.param(
            json_reply({"message": "no", "code": "model_not_found"}, status=400),
            "invalid_request",
            True,
            id="code at the top",
        ),
        pytest.param(Reply(b"\xff\xfe", 503), "unavailable", False, id="not UTF-8"),
    ],
)
async def test_other_refusals(reply: Reply, kind: Failure, final: bool) -> None:
    [found] = await judged(reply)
    assert (found.kind, found.final) == (kind, final)
    assert isinstance(found, JudgeUnavailable) == (final and kind == "unavailable")


async def test_texts_of_servers_are_short_and_without_secrets() -> None:
    [found] = map(str, await judged(error(401, f"a\n\tb {KEY}-longer {KEY} " + "x" * 1000)))
    assert re.match(r"invalid_request: gpt-4o at http://.*: HTTP 401: a b \*\*\* \*\*\* xxx", found)
    text = found.partition("/v1: ")[2].partition(";")[0]
    assert text.endswith("x...")
    assert len(text) == 300
    # A secret at the end of an excerpt is not half shown.
    paddings = range(270, 310)
    replies = [error(401, "x" * padding + KEY) for padding in paddings]
    replies += [Reply(b"x" * (padding - 200) + KEY.encode()) for padding in paddings]
    for shown in map(str, await judged(*replies)):
        assert KEY[:4] not in shown


def in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def as_numbers(form: str) -> Callable[[str], str]:
    """A writer that escapes all characters but letters and digits by their numbers."""
    return lambda text: "".join(
        c if c.isascii() and c.isalnum() else form.format(ord(c)) for c in text
    )


WRITERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "URL": quote,
    "URL with plus": quote_plus,
    "JSON": in_json,
    "HTML": escape,
    "decimal HTML": as_numbers("&#{};"),
    "hexadecimal HTML": as_numbers("&#x{:X};"),
    "URL in lower case": lambda text: (
        quote_plus(text).replace("%2F", "%2f").replace("%C3%BC", "%c3%bc")
    ),
    "JSON with escaped signs": lambda text: (
        in_json(text).replace("/", r"\/").replace("+", r"\u002B")
    ),
    "URL in a URL": lambda text: quote(quote(text, safe="")),
    "JSON in JSON": lambda text: in_json(in_json(text)),
    "HTML in HTML": lambda text: escape(escape(text)),
    "HTML in JSON": lambda text: in_json(escape(text)),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@given(secret=st.text("aF2/+&<\"'\\ %=;#-\n\tü😀", min_size=4))
def test_secrets_are_hidden_however_they_are_escaped(
    write: Callable[[str], str], secret: str
) -> None:
    assert Scrubber([secret]).hide(f"x:{write(secret)}") == "x:***"


def test_hiding_takes_linear_time() -> None:
    """Whatever a server writes about whatever secret."""
    parts = ["\\", "%25", "&amp;", "&#0", "%", "&", '\\"', "a", "an", r"\u005c", ";"]
    started = perf_counter()
    for secret in (
        "\\" * 40 + '"a',
        "%25" * 20,
        "&amp;" * 20,
        '"' * 40,
        "a\n" * 20,
        "&;" * 20,
        "a " * 20,
    ):
        for part in parts:
            Scrubber([f"{secret}!"])(part * (99_999 // len(part)) + "a")
    assert perf_counter() - started < 20


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="no header"),
        pytest.param({"retry-after": " 0.5 "}, 0.5, id="seconds"),
        pytest.param({"retry-after": "soon"}, None, id="no time"),
        pytest.param({"retry-after": "Fri, 31 Dec 1999 23:59:59 -0000"}, 0.0, id="past date"),
        pytest.param({"retry-after-ms": "1500", "retry-after": "2"}, 1.5, id="milliseconds first"),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


PARTS = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param({"prompt_tokens": 3, "completion_tokens": 4}, TokenUsage(3, 4), id="tokens"),
        pytest.param(
            {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
            TokenUsage(3, 0, 2),
            id="cached",
        ),
        pytest.param(PARTS | {"total_tokens": 7}, TokenUsage(3, 4), id="reasoning in the output"),
        pytest.param(PARTS | {"total_tokens": 9}, TokenUsage(3, 6), id="reasoning beside it"),
        pytest.param({"prompt_tokens": True}, None, id="boolean"),
        pytest.param({"prompt_tokens": -1}, None, id="negative"),
        pytest.param({"prompt_tokens": "3"}, None, id="text"),
        pytest.param({"prompt_tokens": 2**60}, None, id="too many"),
    ],
)
def test_usage(usage: Any, expected: TokenUsage | None) -> None:
    assert read({"choices": [{"message": {"content": "1"}}], "usage": usage}) == (1, expected)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("text", id="text"),
        pytest.param("[NaN]", id="NaN"),
        pytest.param("1e999", id="infinite"),
        pytest.param("9" * 400, id="too many digits"),
        pytest.param("[" * 9999, id="too deep"),
        pytest.param('"\\ud800"', id="surrogate"),
    ],
)
def test_content_that_is_no_json(content: str) -> None:
    with pytest.raises(JudgeError, match="invalid_reply: the content is not JSON") as caught:
        read(json.loads(completion(content).body))
    assert (caught.value.reply, caught.value.usage, caught.value.final) == (
        content,
        (100, 20, 0),
        False,
    )


def test_only_a_whole_object_is_a_reply_among_the_reasoning() -> None:
    def message(content: str, reasoning: str, reason: str = "stop") -> Any:
        parts = {"content": content, "reasoning_content": reasoning}
        return {"choices": [{"message": parts, "finish_reason": reason}]}

    assert read(message('{"value": 2}', '{"value": 1}')) == ({"value": 2}, None)
    assert read(message("", '{"value": 1}')) == ({"value": 1}, None)
    for wrong in (message("", 'It is {"value": 1}'), message("", '{"value": 1}', "length")):
        with pytest.raises(JudgeError, match="invalid_reply"):
            read(wrong)


async def test_embeddings_come_in_the_order_of_the_texts() -> None:
    order = [3, 0, 2, 1]
    reply = embeddings([[float(i)] for i in order], indexes=order)
    async with (
        JudgeServer(lambda _: reply) as server,
        openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as client,
    ):
        judge = OpenAIJudge(client, "gpt-4o", embedding_model="ada")
        assert (await judge.embed(["a", "b", "c", "d"]))[0] == [[float(i)] for i in range(4)]
