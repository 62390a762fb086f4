from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.monitor.webhooks import SIGNATURE, Webhook, parse_address
from tests.monitor.hooks import hook
from tests.support.cases import each
from tests.support.deadlines import in_time
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from graphrag_eval_async.monitor.alerts import Change

CHANGE: Change = {"alert": "a & b: <!channel> < 0.8", "state": "started", "template": "a & b", "value": 0.75}
PAGE = Path(__file__).parents[2] / "docs" / "watch.md"


async def posted(url: str, secret: bytes | None = None) -> str | None:
    async with leaving_nothing():
        return await Webhook(parse_address(url), secret, backoff=0.001)(CHANGE)


@in_time
async def test_it_posts_the_facts_and_a_text_for_slack() -> None:
    with hook(200) as (host, posts):
        assert await posted(f"http://us3r:passw0rd@{host}/services/T0KEN?key=S3CRET#part") is None
    [post] = posts
    assert post.path == "/services/T0KEN?key=S3CRET"
    assert post.headers["content-type"] == "application/json"
    assert post.headers["authorization"] == "Basic dXMzcjpwYXNzdzByZA=="
    assert SIGNATURE.lower() not in post.headers
    text = post.facts.pop("text")
    assert text == "alert started: a &amp; b: &lt;!channel&gt; &lt; 0.8: 0.75"
    assert {**post.facts, "text": text} == {**CHANGE, "text": text}


@in_time
async def test_what_may_pass_is_tried_again() -> None:
    for status in (500, 503, 429, 408):
        with hook(status, status, 204) as (host, posts):
            assert await posted(f"http://{host}/") is None
        assert len(posts) == 3
        assert len({post.body for post in posts}) == 1


@in_time
async def test_attempts_are_bounded_and_failures_keep_secrets() -> None:
    for status, attempts in ((500, 5), (302, 1)):  # Redirects are not followed.
        with hook(status) as (host, posts):
            problem = await posted(f"http://us3r:passw0rd@{host}/T0KEN?key=S3CRET")
        assert problem == f"was answered with status {status} (attempt {attempts} of 5)"
        assert len(posts) == attempts


@in_time
async def test_the_snippet_of_the_documentation_verifies_signatures() -> None:
    [snippet] = [
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "hmac" in text
    ]
    names: dict[str, Any] = {}
    exec(snippet, names)  # noqa: S102
    with hook(200) as (host, posts):
        assert await posted(f"http://{host}/", b"my secret") is None
    [post] = posts
    assert names["is_genuine"](post.body, post.headers[SIGNATURE.lower()], b"my secret")
    assert not names["is_genuine"](post.body + b" ", post.headers[SIGNATURE.lower()], b"my secret")
    assert not names["is_genuine"](post.body, post.headers[SIGNATURE.lower()], b"another")


BAD = ["T0KEN", "file:///T0KEN", "https:///T0KEN", "https://host:99999/T0KEN", "https://host/T0KEN here"]
BAD += ["https://host/T0KEN\r\nX: y", "https://h\u00f4st/T0KEN", "https://[::1/T0KEN", "${NO_SUCH}/T0KEN"]


@each("text", BAD)
def test_errors_do_not_quote_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a URL|NO_SUCH") as error:
        parse_address(text)
    assert "T0KEN" not in str(error.value)
