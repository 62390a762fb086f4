"""Queries on a SPARQL endpoint, by the SPARQL 1.1 Protocol:
https://www.w3.org/TR/sparql11-protocol/.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from base64 import b64encode
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.catalogue.media_types import CSV, GRAPHS, SPARQL_RESULTS, TSV
from graphrag_eval_async.config import as_written, secrets
from graphrag_eval_async.errors import ExecutionUnavailable, MalformedStep
from graphrag_eval_async.execution.outcomes import Answer, Kind, QueryFailed, now
from graphrag_eval_async.judge.failures import retry_after
from graphrag_eval_async.judge.scrubber import MAX_SCRUBBED, Scrubber
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.formats.delimited import read_csv, read_tsv
from graphrag_eval_async.steps.formats.json_text import decode_json
from graphrag_eval_async.steps.formats.xml_results import read_xml
from graphrag_eval_async.steps.graphs.reading import read_graph
from graphrag_eval_async.steps.tokens import GRAPH_FORMS, form_of
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import httpx

    from graphrag_eval_async.config import ExecuteConfig
    from graphrag_eval_async.execution.outcomes import Query

ACCEPT_GRAPH = "application/n-triples, text/turtle;q=0.9, application/rdf+xml;q=0.5"

PAUSES = (0.2, 1.0)
"""Minimum seconds before the second and the third attempt, if a server is overloaded or does not
answer.
"""

MAX_WAIT_SECONDS = 60.0
"""Maximum seconds between two attempts; a server that asks for more is not asked again."""

PROBE = "ASK {}"
"""A query that takes no time."""

PROBE_SECONDS = 5.0
"""How long the probe may take."""

SUSPECT = frozenset({408, 502, 503, 504})
"""Status codes of an overloaded endpoint, and of one that gives up on the query.

429 is of the first, unless the reply says that the query timed out.
"""

TIMEOUT_WORDS = ("timed out", "timeout", "time limit", "time out")
"""What servers say, in lower case, if a query took too long."""

OVERLOAD_WORDS = ("throttl", "too many requests", "toomanyrequests", "rate limit", "overload")
"""What servers say, in lower case, if they have too much to do, also with the status code 500."""

THROTTLE_WORDS = ("throttl", "too many requests", "toomanyrequests", "rate limit")
"""What servers say, in lower case, if they have too many requests, also with the status code 400.

A query that a server cannot run has this code, too, and its message may well say "overload".
"""

CHARSETS = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16"})
"""Python's names of the character encodings that replies may have; some others take very long."""

CONTEXT_CHARACTERS = 8
"""Characters before or after a word that tell whether it is part of a repeated query."""

_between_words = re.compile(r"[^a-z0-9]+")

_find_charset = re.compile(r""";\s*charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE).search
"""Finds the name of the character encoding in a header Content-Type."""

_match_stack_line = re.compile(r"\s+(?:at [\w.$<>/]+|\.\.\. \d+ )[^\"]*\Z").match
"""Matches a line of a stack trace of Java, such as ``at java.lang.Thread.run(Thread.java:750)``.

A line with a quotation mark may be the end of a cell that holds such a trace.
"""

_find_exception = re.compile(r"\b(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b").search
"""Finds the name of a Java exception with its package."""

_TEXT_EDGE = "\n"
"""Marks where a text begins and ends; it does not occur in `_words_alone`."""

TAIL_CHARACTERS = 300
"""Characters at the end of a reply that was cut off, which are quoted: they say why."""

OF_THE_QUERY = frozenset({400, 413, 414, 422, 500})
"""Status codes that mean that the query cannot be run."""

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
        """Return the body of a response.

        Raises:
            QueryFailed: it is compressed, or longer than `max_bytes`.
        """
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
    """The body of a successful reply."""

    data: bytes
    media_type: str  # In lower case, without parameters; empty if the endpoint gives none.
    charset: str  # Python's name of the character encoding, one of `CHARSETS`.
    max_rows: str | None  # How many rows the endpoint returns at most; None if it does not say so.


def prologue_of(prefixes: Iterable[tuple[str, str]]) -> str:
    """Return the declarations of prefixes, given as pairs of a name and an IRI."""
    return "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes)


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
        self._prologue = prologue_of(config.prefixes.items())

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
        """Run a query, and return what it returns.

        Args:
            query: a query that only reads.
            of_agent: whether an agent wrote it. Then it may be to blame for what looks like a
                failure of the endpoint.

        Raises:
            QueryFailed: it has no answer, or only a part of it came.
        """
        started_at = now()
        is_graph = form_of(query.text) in GRAPH_FORMS
        accept = ACCEPT_GRAPH if is_graph else SPARQL_RESULTS
        prologue = self._prologue + prologue_of(query.prefixes)
        body = await self._within(prologue + query.text, accept, of_agent=of_agent)

        read = _read_graph_in if is_graph else _read_table_in
        try:
            if len(body.data) > LARGE:
                content = await asyncio.to_thread(read, body)
            else:
                content = read(body)
        except _CutOff as cut_off:
            message = f"the results end in the middle of a reply: {self._tail_of(cut_off.text)}"
            raise QueryFailed("truncated", message) from None
        except (MalformedStep, UnicodeDecodeError, KeyError, TypeError):
            returned = body.media_type or "no media type"
            wanted = "graph" if is_graph else "SPARQL results"
            message = f"the endpoint returned {returned}, from which no {wanted} can be read"
            raise QueryFailed("unavailable", message) from None

        self._check_count(content.size, body.max_rows, unit="triples" if is_graph else "rows")
        return Answer(content.text, content.media_type, started_at)

    def _tail_of(self, text: str) -> str:
        """Return the end of a reply that was cut off, on one line and without secrets.

        Secrets are hidden before the end is taken: it may begin within one, and what is left of it
        would not be recognized.
        """
        shown = self._scrub.hide(text[-MAX_SCRUBBED:])
        return " ".join(shown[-TAIL_CHARACTERS:].split())

    def _check_count(self, count: int, max_rows: str | None, *, unit: str) -> None:
        """Check that a query returned no more than is allowed, and that nothing is missing.

        Args:
            count: how many rows or triples it returned.
            max_rows: how many rows the endpoint returns at most; None if it does not say so.
            unit: what is counted.

        Raises:
            QueryFailed: it returned too much, or as much as the endpoint returns at most.
        """
        if count > self._config.max_rows:
            raise QueryFailed("failed", f"it returns more than {self._config.max_rows:,} {unit}")
        if count > 0 and str(count) == max_rows:
            message = (
                f"{count:,} {unit}, as many rows as X-SPARQL-MaxRows allows; there may be more"
            )
            raise QueryFailed("truncated", message)

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
        """Send a query once, and return the body of a successful reply.

        Args:
            query: the query, with the prefixes that it needs.
            accept: the media types in which its results may come.
            seconds: how long the reply may take.

        Raises:
            QueryFailed: no reply came in time, or it is not successful, or only a part of one.
        """
        assert self._connections is not None  # noqa: S101
        content = {"data": {"query": query}, "headers": {"Accept": accept}}
        status, headers, body = await self._connections.request(
            "POST", self._url, seconds, **content
        )
        # Virtuoso sends X-SQL-State with what it found before its time was up.
        if status == 206 or (status < 300 and "x-sql-state" in headers):
            raise QueryFailed("truncated", "it answers only in part (HTTP 206 or X-SQL-State)")
        if status >= 300:
            raise self._failure(status, retry_after(headers) or 0, body, query)
        content_type = headers.get("content-type", "")
        return _Body(
            data=body.removeprefix(codecs.BOM_UTF8),
            media_type=content_type.partition(";")[0].strip().lower(),
            charset=_charset_in(content_type),
            max_rows=headers.get("x-sparql-maxrows"),
        )

    def _failure(self, status: int, wait: float, body: bytes, query: str) -> QueryFailed:
        """Return the failure that a reply with an error stands for.

        Args:
            status: the status code, from 300 on.
            wait: the seconds after which the server asks to be asked again; 0 if it does not.
            body: the body. Servers explain in it, as plain text, what is wrong with a query.
            query: the query that was sent, which the body may repeat.
        """
        text = self._scrub(body[:MAX_SCRUBBED].decode(errors="replace"), limit=2000)
        explanation = ""
        if text and not text.startswith("<"):  # Not a page of HTML.
            explanation = f": {text}"
        answer = f"it answers HTTP {status}"

        is_overloaded = status == 429 or status in SUSPECT
        if status in (400, 500):
            words = OVERLOAD_WORDS if status == 500 else THROTTLE_WORDS
            is_overloaded = _says(words, text, query=query) and wait <= MAX_WAIT_SECONDS
        if status in OF_THE_QUERY and not is_overloaded:
            kind: Kind = "invalid" if status == 400 else "failed"
            return QueryFailed(kind, f"HTTP {status}{explanation}")
        if not is_overloaded:
            is_login = status in (401, 403)
            advice = "; check headers, username and password" if is_login else ""
            return QueryFailed("unavailable", f"{answer}{advice}")
        if wait > MAX_WAIT_SECONDS:
            message = f"{answer} and asks to wait for {wait:.0f} s{explanation}"
            return QueryFailed("unavailable", message)

        is_timeout = status == 429 and _says(TIMEOUT_WORDS, text, query=query)
        is_suspect = status in SUSPECT or is_timeout
        return QueryFailed(
            "unavailable", f"{answer}{explanation}", wait=wait, is_suspect=is_suspect
        )

    async def aclose(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.aclose()


def _says(words: Iterable[str], text: str, *, query: str) -> bool:
    """Return whether a server's text has one of some words outside the query that it repeats.

    Servers escape and reformat what they repeat, so a word is of the query if the characters before
    or after it are there, too, whatever stands between letters and digits.
    """
    text = f"{_TEXT_EDGE}{_words_alone(text)}{_TEXT_EDGE}"
    query = _words_alone(query)
    for word in words:
        start = text.find(word)
        while start >= 0:
            end = start + len(word)
            with_text_before = text[max(start - CONTEXT_CHARACTERS, 0) : end]
            with_text_after = text[start : end + CONTEXT_CHARACTERS]
            if with_text_before not in query and with_text_after not in query:
                return True
            start = text.find(word, end)
    return False


def _words_alone(text: str) -> str:
    """Return the letters and digits of a text in lower case, with a blank for what is between."""
    return _between_words.sub(" ", text.lower())


def _charset_in(content_type: str) -> str:
    """Return Python's name of the character encoding in a header; UTF-8 if it names none.

    An encoding that is not in `CHARSETS` is also taken for UTF-8.
    """
    parameter = _find_charset(content_type)
    if parameter is None:
        return "utf-8"
    try:
        name = codecs.lookup(parameter[1]).name
    except LookupError:
        return "utf-8"
    return name if name in CHARSETS else "utf-8"


class _Content(NamedTuple):
    """What was read from the body of a reply."""

    text: str
    media_type: str
    size: int  # How many triples or rows there are; 0 for the answer to ASK.


def _read_graph_in(body: _Body) -> _Content:
    """Return a graph as the text that it is; raise `MalformedStep` if it is none."""
    if body.media_type not in GRAPHS:
        raise MalformedStep("no media type of a graph")
    text = body.data.decode(body.charset)
    graph = read_graph(text, body.media_type, Budget(), lenient=False)
    return _Content(text, body.media_type, len(graph.statements))


class _CutOff(Exception):  # noqa: N818
    """Results that end in the middle, or after which an error follows.

    Attributes:
        text: the whole reply.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__("results that end in the middle")


def _read_table_in(body: _Body) -> _Content:
    """Return SPARQL results: rows of CSV and TSV as they are, and everything else as text of JSON.

    XML, CSV and TSV are read, too, since some servers return them whatever was asked for.

    Raises:
        _CutOff: the results are not complete.
        MalformedStep, KeyError, TypeError: they are no results.
    """
    text = body.data.decode(body.charset)
    is_json_or_xml = text.lstrip().startswith(("{", "<"))
    if body.media_type in (CSV, TSV) and not is_json_or_xml:
        document = _read_whole_lines(text, body.media_type)
        size = _count_rows(document)
        if size > 0:
            # JSON would need the types of cells, which CSV does not tell.
            return _Content(text, body.media_type, size)
    elif text.lstrip().startswith("<"):
        document = _read_whole_xml(text)
    else:
        document = _read_whole_json(text)
    json_text = orjson.dumps(document).decode()
    return _Content(json_text, SPARQL_RESULTS, _count_rows(document))


def _count_rows(document: Mapping[str, Any]) -> int:
    """Return how many rows SPARQL results in the form of JSON have; 0 for the answer to ASK.

    Raises:
        MalformedStep, KeyError, TypeError: they are no results.
    """
    if "results" not in document:
        if type(document["boolean"]) is not bool:
            raise MalformedStep("no boolean")
        return 0
    bindings = document["results"]["bindings"]
    if not isinstance(bindings, list):
        raise MalformedStep("no bindings")
    return len(bindings)


def _read_whole_lines(text: str, media_type: str) -> Mapping[str, Any]:
    """Return SPARQL results in CSV or TSV in the form of JSON.

    Raises:
        _CutOff: an exception of the server, or another text, follows the rows.
        MalformedStep: they are no results.
    """
    last_line = text.rstrip().rpartition("\n")[2]
    if _match_stack_line(last_line) is not None:
        # In a table with one column, each line of the stack trace would be a row.
        raise _CutOff(text)
    try:
        table = read_csv(text, is_declared=True) if media_type == CSV else read_tsv(text)
    except MalformedStep:
        if _find_exception(text) is not None:
            raise _CutOff(text) from None
        raise
    if table.unread:
        raise _CutOff(text)
    return table.document


def _read_whole_xml(text: str) -> Mapping[str, Any]:
    """Return SPARQL results in XML as an object of JSON.

    Raises:
        _CutOff: their last tag is missing.
        MalformedStep: they are no results.
    """
    try:
        return read_xml(text)
    except MalformedStep:
        if "<sparql" in text and not text.rstrip().endswith("</sparql>"):
            raise _CutOff(text) from None
        raise


def _read_whole_json(text: str) -> Mapping[str, Any]:
    """Return the object in a text.

    Raises:
        _CutOff: it begins as SPARQL results do, but is broken, or other text follows.
        MalformedStep: it is no object.
    """
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
