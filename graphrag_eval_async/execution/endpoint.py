"""Queries on a SPARQL endpoint, by the SPARQL 1.1 Protocol:
https://www.w3.org/TR/sparql11-protocol/.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from codecs import BOM_UTF8
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.catalogue.media_types import GRAPHS, SPARQL_RESULTS
from graphrag_eval_async.config import as_written, secrets
from graphrag_eval_async.errors import ExecutionUnavailable, MalformedStep
from graphrag_eval_async.execution.outcomes import Answer, QueryFailed, now
from graphrag_eval_async.judge.failures import retry_after
from graphrag_eval_async.judge.scrubber import Scrubber
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.formats.json_text import decode_json
from graphrag_eval_async.steps.formats.xml_results import read_xml
from graphrag_eval_async.steps.graphs.reading import read_graph
from graphrag_eval_async.steps.tokens import GRAPH_FORMS, form_of
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from graphrag_eval_async.config import ExecuteConfig
    from graphrag_eval_async.execution.outcomes import Query

ACCEPT_GRAPH = "application/n-triples, text/turtle;q=0.9, application/rdf+xml;q=0.5"

# Minimum seconds between the attempts if a server is overloaded or does not answer.
PAUSES = (
    0.2,
    1.0,
)

MAX_WAIT_SECONDS = 60.0
"""Maximum seconds between two attempts; a server that asks for more is not asked again."""

PROBE, PROBE_SECONDS = "ASK {}", 5.0  # A query that takes no time, and how long it may take.

SUSPECT = frozenset({408, 502, 503, 504})
"""Status codes of an overloaded endpoint, and of one that gives up on the query.

429 is of the first, unless the reply says that the query timed out.
"""

TIMEOUT_WORDS = ("timed out", "timeout", "time limit", "time out")
"""What servers say, in lower case, if a query took too long."""

OVERLOAD_WORDS = ("throttl", "too many requests", "toomanyrequests", "rate limit", "overload")
"""What servers say, in lower case, if they have too much to do, also with the status code 500."""

TAIL_CHARACTERS = 300
"""Characters at the end of a reply that was cut off, which are quoted: they say why."""

# Status codes that mean that the query cannot be run.
OF_THE_QUERY = frozenset({400, 413, 414, 422, 500})

MAX_REDIRECTS = 3
MAX_CONNECT_SECONDS = 10.0
LARGE = 1 << 17  # Size in bytes above which results are read in a thread.


class Connections:
    """Connections to one server, which is not trusted: its replies are limited, and come from no
    other.
    """

    def __init__(self, config: ExecuteConfig) -> None:
        """Takes some 30 ms, more for the first. Of `config`, the address does not count."""
        import httpx

        user = None if config.username is None else (str(config.username), str(config.password))
        # Else the query would be to blame.
        connect = min(MAX_CONNECT_SECONDS, config.timeout_sec / 2)
        self.calls = 0  # For the caller to count.
        self._max_bytes = config.max_bytes
        self._client = httpx.AsyncClient(
            auth=user,
            headers={
                "User-Agent": f"graphrag-eval-async/{version()}",
                **{name: str(value) for name, value in config.headers.items()},
                "Accept-Encoding": "identity",  # A few compressed bytes may be gigabytes.
            },
            cookies=CookieJar(
                DefaultCookiePolicy(allowed_domains=[])
            ),  # No answer depends on another.
            timeout=httpx.Timeout(None, connect=connect),  # The rest is in `request`.
            limits=httpx.Limits(max_connections=config.max_in_flight),
            follow_redirects=False,
        )
        # httpx logs addresses, which may hold secrets.
        self._unlogged = type(
            "URL", (httpx.URL,), {"__str__": lambda url: f"{url.scheme}://{url.host}"}
        )

    async def request(
        self,
        method: str,
        url: str,
        seconds: float,
        params: Mapping[str, Any] | None = None,
        **content: Any,
    ) -> tuple[int, httpx.Headers, bytes]:
        """Make one attempt; raises `QueryFailed` if no reply comes, or not in time, or a long
        one.
        """
        import httpx

        try:
            address = httpx.URL(str(url)).copy_merge_params(params or {})
            async with asyncio.timeout(seconds):
                for _ in range(MAX_REDIRECTS + 1):
                    request = self._client.build_request(method, address, **content)
                    request.url = self._unlogged(address)
                    async with aclosing(await self._client.send(request, stream=True)) as response:
                        if not response.has_redirect_location:
                            return (
                                response.status_code,
                                response.headers,
                                await self._read(response),
                            )
                        new = address.join(response.headers["location"])
                    places = {
                        (address.scheme, address.host, address.port),
                        ("https", address.host, None),
                    }
                    # The request may hold secrets.
                    if (
                        new.scheme,
                        new.host,
                        new.port,
                    ) not in places:
                        raise QueryFailed(
                            "unavailable", "it redirects to another host, which is not followed"
                        )
                    if response.status_code == 303 or (
                        response.status_code < 303 and "json" in content
                    ):
                        method, content = "GET", {"headers": content.get("headers")}
                    address = new
            raise QueryFailed("unavailable", "it redirects again and again")
        except TimeoutError:
            raise QueryFailed("failed", f"it took more than {seconds:g} s", is_slow=True) from None
        except httpx.InvalidURL:
            raise QueryFailed("unavailable", "the address is invalid") from None
        except httpx.HTTPError as error:
            reason = f": {error}".partition(",")[0] if isinstance(error, httpx.ConnectError) else ""
            message = f"it cannot be reached: {type(error).__name__}{reason}"  # Without addresses.
            raise QueryFailed("unavailable", message, wait=0) from None

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
        await self._client.aclose()


class _Body(NamedTuple):
    """A successful reply; `max_rows` is what the endpoint says that it returns at most."""

    data: bytes
    media_type: str
    max_rows: str | None


class Endpoint:
    """Runs queries on an endpoint."""

    def __init__(self, config: ExecuteConfig) -> None:
        assert config.endpoint is not None  # noqa: S101
        self._config = config
        self._url = config.endpoint
        hidden = secrets(config)
        if config.username is not None:
            hidden.add(b64encode(f"{config.username}:{config.password}".encode()).decode())
        self._scrub = Scrubber(hidden)
        self._slots = asyncio.Semaphore(config.max_in_flight)
        self._connections: Connections | None = None
        self._prologue = "".join(
            f"PREFIX {name}: <{iri}>\n" for name, iri in config.prefixes.items()
        )

    async def open(self) -> None:
        """Check that the endpoint answers."""
        if self._connections is None:
            self._connections = await asyncio.to_thread(Connections, self._config)
        try:
            await self._within(PROBE, SPARQL_RESULTS)
        except QueryFailed as error:
            if error.kind != "invalid":  # It may know no ASK.
                where = f"execute.endpoint: {as_written(self._url)}"
                raise ExecutionUnavailable(f"{where}: {error.message}") from None

    async def run(self, query: Query, *, of_agent: bool = False) -> Answer:
        """Run a query; one of an agent may be to blame for what looks like a failure of the
        endpoint.
        """
        at, is_graph = now(), form_of(query.text) in GRAPH_FORMS
        accept = ACCEPT_GRAPH if is_graph else SPARQL_RESULTS
        body = await self._within(self._prologue + query.text, accept, of_agent=of_agent)
        read = _graph if is_graph else _table
        try:
            if len(body.data) > LARGE:
                text, count = await asyncio.to_thread(read, body)
            else:
                text, count = read(body)
        except _CutOff as cut_off:
            tail = self._scrub(cut_off.tail)
            message = f"the results end in the middle of a reply: {tail}"
            raise QueryFailed("truncated", message) from None
        except (MalformedStep, UnicodeDecodeError, KeyError, TypeError):
            returned = body.media_type or "no media type"
            wanted = "graph" if is_graph else "SPARQL results"
            message = f"the endpoint returned {returned}, from which no {wanted} can be read"
            raise QueryFailed("unavailable", message) from None
        what = "triples" if is_graph else "rows"
        if count > self._config.max_rows:
            raise QueryFailed("failed", f"it returns more than {self._config.max_rows:,} {what}")
        if count and f"{count}" == body.max_rows:
            message = (
                f"{count:,} {what}, as many rows as X-SPARQL-MaxRows allows; there may be more"
            )
            raise QueryFailed("truncated", message)
        return Answer(text, body.media_type if is_graph else SPARQL_RESULTS, at)

    async def _within(self, query: str, accept: str, *, of_agent: bool = False) -> _Body:
        """Return the results; tries again while the endpoint is overloaded.

        A query of an agent is to blame if each attempt fails as it does when a query takes too long
        for the endpoint, and the endpoint answers a probe before and after each but the first.
        """
        wait = 0.0
        async with self._slots:
            for pause in (None, *PAUSES):
                if pause is not None:
                    await asyncio.sleep(max(pause, wait))
                    of_agent = of_agent and await self._answers()
                try:
                    return await self._timed(query, accept, self._config.timeout_sec)
                except QueryFailed as error:
                    failed = error.with_traceback(None)
                if failed.wait is None:
                    break
                wait = failed.wait
                of_agent = (
                    of_agent and failed.is_suspect and (pause is None or await self._answers())
                )
            else:
                if of_agent:
                    what = f"{len(PAUSES) + 1} attempts failed while the endpoint answered {PROBE}"
                    failed = QueryFailed("failed", f"{what}: {failed.message}", is_slow=True)
        raise failed

    async def _answers(self) -> bool:
        """Whether the endpoint answers a probe, if only that it does not know ASK."""
        try:
            await self._timed(PROBE, SPARQL_RESULTS, min(PROBE_SECONDS, self._config.timeout_sec))
        except QueryFailed as error:
            return error.kind == "invalid"
        return True

    async def _timed(self, query: str, accept: str, seconds: float) -> _Body:
        """Make one attempt, if it is answered in time."""
        assert self._connections is not None  # noqa: S101
        content = {"data": {"query": query}, "headers": {"Accept": accept}}
        status, headers, body = await self._connections.request(
            "POST", self._url, seconds, **content
        )
        if status == 206 or (status < 300 and "x-sql-state" in headers):
            raise QueryFailed("truncated", "it answers only in part (HTTP 206 or X-SQL-State)")
        if status >= 300:
            raise self._failure(status, retry_after(headers) or 0, body)
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        return _Body(body.removeprefix(BOM_UTF8), media_type, headers.get("x-sparql-maxrows"))

    def _failure(self, status: int, wait: float, body: bytes) -> QueryFailed:
        """The failure that a status code stands for. Servers explain invalid queries in plain
        text.
        """
        text = self._scrub(body[: 1 << 16].decode(errors="replace"), limit=2000)
        said = f": {text}" if text and not text.startswith("<") else ""
        lowered = text.lower()
        says_overload = any(word in lowered for word in OVERLOAD_WORDS)
        if status == 500 and says_overload and wait <= MAX_WAIT_SECONDS:
            return QueryFailed("unavailable", f"it answers HTTP {status}{said}", wait=wait)
        if status in OF_THE_QUERY:
            return QueryFailed("invalid" if status == 400 else "failed", f"HTTP {status}{said}")
        if status not in SUSPECT and status != 429:
            said = "; check headers, username and password" if status in {401, 403} else ""
        elif wait > MAX_WAIT_SECONDS:
            said = f" and asks to wait for {wait:.0f} s{said}"
        else:
            message = f"it answers HTTP {status}{said}"
            says_timeout = any(word in lowered for word in TIMEOUT_WORDS)
            is_suspect = status in SUSPECT or (status == 429 and says_timeout)
            return QueryFailed("unavailable", message, wait=wait, is_suspect=is_suspect)
        return QueryFailed("unavailable", f"it answers HTTP {status}{said}")

    async def aclose(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.aclose()


def _graph(body: _Body) -> tuple[str, int]:
    """A graph as text, and the number of its triples."""
    if body.media_type not in GRAPHS:
        raise MalformedStep("no media type of a graph")
    text = body.data.decode()
    return text, len(read_graph(text, body.media_type, Budget(), lenient=False).statements)


class _CutOff(Exception):  # noqa: N818
    """Results that end in the middle, or after which an error follows."""

    def __init__(self, text: str) -> None:
        self.tail = " ".join(text[-TAIL_CHARACTERS:].split())
        super().__init__(self.tail)


def _table(body: _Body) -> tuple[str, int]:
    """Return SPARQL results as text of JSON, and the number of their rows.

    XML is read, too, since some servers return it whatever was asked for.

    Raises:
        _CutOff: the results are not complete.
        MalformedStep, KeyError, TypeError: they are no results.
    """
    text = body.data.decode()
    read = _read_whole_xml if text.lstrip().startswith("<") else _read_whole_json
    document = read(text)
    if "results" not in document:
        if type(document["boolean"]) is not bool:
            raise MalformedStep("no boolean")
        return orjson.dumps(document).decode(), 0
    bindings = document["results"]["bindings"]
    if not isinstance(bindings, list):
        raise MalformedStep("no bindings")
    return orjson.dumps(document).decode(), len(bindings)


def _read_whole_xml(text: str) -> dict[str, Any]:
    try:
        return read_xml(text)
    except MalformedStep:
        if "<sparql" in text and not text.rstrip().endswith("</sparql>"):
            raise _CutOff(text) from None
        raise


def _read_whole_json(text: str) -> dict[str, Any]:
    stripped = text.strip()
    if not stripped.startswith("{"):
        raise MalformedStep("no JSON object")
    try:
        decoded = decode_json(stripped)
    except MalformedStep:
        if '"head"' in stripped or '"bindings"' in stripped:
            raise _CutOff(stripped) from None
        raise
    if decoded.rest:
        raise _CutOff(stripped)
    document: dict[str, Any] = decoded.value
    return document
