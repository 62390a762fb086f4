"""Connections to an HTTP server that is not trusted."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.execution.attempts import MAX_CONNECT_SECONDS
from graphrag_eval_async.execution.outcomes import QueryFailed
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from graphrag_eval_async.config import ExecuteConfig

MAX_REDIRECTS = 3
"""Maximum number of redirects that a request follows."""


class HttpReply(NamedTuple):
    """What a server replied to a request."""

    status: int
    headers: httpx.Headers
    body: bytes


class Connections:
    """Connections to one server. Its replies are limited, and come from no other server."""

    def __init__(self, config: ExecuteConfig) -> None:
        """Prepare connections, which takes some 30 ms; the first time in a process, more.

        Args:
            config: credentials, headers and limits. Its address is not used.
        """
        import httpx

        credentials = None
        if config.username is not None:
            credentials = (str(config.username), str(config.password))
        headers = {"User-Agent": f"graphrag-eval-async/{version()}"}
        for name, value in config.headers.items():
            headers[name] = str(value)
        # A few compressed bytes may be gigabytes.
        headers["Accept-Encoding"] = "identity"
        # Without cookies, no answer depends on another.
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        # Without a limit for connecting, a server that cannot be reached would look like a query
        # that takes too long. `request` has the limit of the whole time.
        connect_seconds = min(MAX_CONNECT_SECONDS, config.timeout_sec / 2)

        self.calls = 0
        """Number of requests in flight, for the caller to count."""
        self._max_bytes = config.max_bytes
        self._client = httpx.AsyncClient(
            auth=credentials,
            headers=headers,
            cookies=no_cookies,
            timeout=httpx.Timeout(None, connect=connect_seconds),
            limits=httpx.Limits(max_connections=config.max_in_flight),
            follow_redirects=False,
        )
        # httpx logs the text of addresses, which may hold secrets.
        self._url_without_path_in_logs = type(
            "URL", (httpx.URL,), {"__str__": lambda url: f"{url.scheme}://{url.host}"}
        )

    async def request(
        self,
        method: str,
        url: str,
        seconds: float,
        params: Mapping[str, Any] | None = None,
        **content: Any,
    ) -> HttpReply:
        """Send a request once, and return the reply.

        Args:
            method: the method of HTTP.
            url: the address.
            seconds: maximum time until the whole reply is there.
            params: parameters to add to the address.
            content: further arguments of httpx: `data`, `json` or `headers`.

        Raises:
            QueryFailed: no reply comes in time, or the reply is too long.
        """
        import httpx

        try:
            address = httpx.URL(str(url)).copy_merge_params(params or {})
            async with asyncio.timeout(seconds):
                return await self._follow_redirects(method, address, content)
        except TimeoutError:
            raise QueryFailed("failed", f"it took more than {seconds:g} s", is_slow=True) from None
        except httpx.InvalidURL:
            raise QueryFailed("unavailable", "the address is invalid") from None
        except httpx.HTTPError as error:
            message = f"it cannot be reached: {_reason_without_address(error)}"
            raise QueryFailed("unavailable", message, wait=0) from None

    async def _follow_redirects(
        self, method: str, address: httpx.URL, content: dict[str, Any]
    ) -> HttpReply:
        """Send a request, and return the reply after at most `MAX_REDIRECTS` redirects.

        Raises:
            QueryFailed: there are more redirects, one is to another host, or the reply is too long.
        """
        for _ in range(MAX_REDIRECTS + 1):
            request = self._client.build_request(method, address, **content)
            request.url = self._url_without_path_in_logs(address)
            async with aclosing(await self._client.send(request, stream=True)) as response:
                if not response.has_redirect_location:
                    body = await self._read(response)
                    return HttpReply(response.status_code, response.headers, body)
                target = address.join(response.headers["location"])

            # The request may hold secrets, which only the same server may get.
            same_place = (address.scheme, address.host, address.port)
            same_host_with_tls = ("https", address.host, None)
            if (target.scheme, target.host, target.port) not in {same_place, same_host_with_tls}:
                raise QueryFailed(
                    "unavailable", "it redirects to another host, which is not followed"
                )
            # Follow with GET after 303 and, as browsers do, after 301 and 302 if JSON was sent.
            # Queries, which are sent as a form, are posted again.
            is_get_meant = response.status_code == 303
            if response.status_code < 303 and "json" in content:
                is_get_meant = True
            if is_get_meant:
                method = "GET"
                content = {"headers": content.get("headers")}
            address = target
        raise QueryFailed("unavailable", "it redirects again and again")

    async def _read(self, response: httpx.Response) -> bytes:
        """Return the body of a response.

        Raises:
            QueryFailed: the body is too long, or compressed.
        """
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in {"", "identity"}:
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


def _reason_without_address(error: httpx.HTTPError) -> str:
    """Return why a server cannot be reached, such as "ReadError".

    Only the beginning of the message of a ConnectError is shown, since the rest holds addresses.
    """
    import httpx

    name = type(error).__name__
    if not isinstance(error, httpx.ConnectError):
        return name
    beginning = str(error).partition(",")[0]
    return f"{name}: {beginning}"
