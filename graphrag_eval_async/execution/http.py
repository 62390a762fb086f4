"""Requests to one server that is not trusted: limited in time and size, and never to another host."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from graphrag_eval_async.execution.outcomes import QueryFailed
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from graphrag_eval_async.config import ExecuteConfig

MAX_REDIRECTS = 3
MAX_CONNECT_SECONDS = 10.0


class Reply(NamedTuple):
    """What the server replied, whatever its status."""

    status: int
    headers: httpx.Headers
    body: bytes


class Connections:
    """The connections to a server, on one event loop."""

    def __init__(self, config: ExecuteConfig) -> None:
        """Takes some 30 ms; of `config`, the address does not count."""
        user = None if config.username is None else (str(config.username), str(config.password))
        connect = min(MAX_CONNECT_SECONDS, config.timeout_sec / 2)  # Else the query would be to blame.
        self.calls = 0  # For its users to count.
        self._max_bytes = config.max_bytes
        self._client = httpx.AsyncClient(
            auth=user,
            headers={
                "User-Agent": f"graphrag-eval-async/{version()}",
                **{name: str(value) for name, value in config.headers.items()},
                "Accept-Encoding": "identity",  # A few compressed bytes may be gigabytes.
            },
            # A session of the server would make one answer depend on those before.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=httpx.Timeout(None, connect=connect),  # The rest is `seconds` of `request`.
            limits=httpx.Limits(max_connections=config.max_in_flight),
            follow_redirects=False,
        )

    async def request(self, method: str, url: str, *, seconds: float, **content: Any) -> Reply:
        """Make one attempt; raises `QueryFailed` if no reply comes in time, or one that is too long."""
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(method, url, content)
        except TimeoutError:
            raise QueryFailed("failed", f"it took more than {seconds:g} s", is_slow=True) from None
        except httpx.InvalidURL:
            raise QueryFailed("unavailable", "the address is invalid") from None
        except httpx.HTTPError as error:
            message = f"it cannot be reached: {type(error).__name__}"
            raise QueryFailed("unavailable", message, wait=0) from None

    async def _follow(self, method: str, url: str, content: dict[str, Any]) -> Reply:
        for _ in range(MAX_REDIRECTS + 1):
            request = self._client.build_request(method, url, **content)
            request.url = _Unlogged(request.url)
            async with aclosing(await self._client.send(request, stream=True)) as response:
                if not response.is_redirect:
                    return Reply(response.status_code, response.headers, await self._read(response))
                url = _redirected(url, response.headers.get("location", ""))
        raise QueryFailed("unavailable", "it redirects again and again")

    async def _read(self, response: httpx.Response) -> bytes:
        """The body, if it is not too long."""
        if response.headers.get("content-encoding", "identity").lower() not in {"", "identity"}:
            raise QueryFailed("unavailable", "it compresses results although it was asked not to")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._max_bytes:
                raise QueryFailed("failed", f"it returns more than {self._max_bytes:,} bytes")
        return bytes(body)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class _Unlogged(httpx.URL):
    """An address of which httpx logs only the host: the rest may be secret."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}/..."


def _redirected(url: str, location: str) -> str:
    """The address to go to; only to the same host, as the request may hold secrets."""
    old, new = httpx.URL(url), httpx.URL(url).join(location)
    places = {(old.scheme, old.host, old.port), ("https", old.host, None)}
    if (new.scheme, new.host, new.port) not in places:
        raise QueryFailed("unavailable", "it redirects to another host, which is not followed")
    return str(new)
