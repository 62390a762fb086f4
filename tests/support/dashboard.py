"""Pages of a dashboard, fetched over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import re
from contextlib import asynccontextmanager, closing
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from graphrag_eval_async import Dashboard, evaluate_stream
from tests.cli.support import DEADLINE_SECONDS, REFERENCE, failed, response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


RESPONSES = [response("q1"), response("q2", False), response("q3"), failed("q3")]


def text_of(html: str, tag: str = "main") -> str:
    """What is read in the first element of a kind."""
    [inner] = re.findall(rf"<{tag}\b.*?>(.*?)</{tag}>", html, re.DOTALL)[:1]
    return " ".join(unescape(re.sub("<[^>]+>", " ", inner)).split())


def fetch(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Return the status, the headers in lower case, and the text of a page."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=DEADLINE_SECONDS)) as connection:
        connection.request("GET", url.partition(parts.netloc)[2], headers=headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()


async def get(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Fetch a page in a thread, so that the loop can serve it."""
    return await asyncio.wait_for(asyncio.to_thread(fetch, url, **headers), DEADLINE_SECONDS)


@asynccontextmanager
async def finished(
    responses: Any = RESPONSES, reference: Any = REFERENCE, **options: Any
) -> AsyncIterator[Dashboard]:
    """A dashboard whose stream has ended."""
    stream = evaluate_stream(reference, responses, ordered=True)
    async with Dashboard(stream, port=0, **options) as dashboard:
        async for _ in dashboard:
            pass
        yield dashboard
