"""Queries on a SPARQL endpoint, by the SPARQL 1.1 Protocol:
https://www.w3.org/TR/sparql11-protocol/.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.catalogue.media_types import CSV, GRAPHS, SPARQL_RESULTS, TSV
from graphrag_eval_async.config import as_written, secrets
from graphrag_eval_async.errors import ExecutionUnavailable, MalformedStep
from graphrag_eval_async.execution.attempts import (
    MAX_WAIT_SECONDS,
    PAUSES,
    PROBE_SECONDS,
    TIMEOUT_WORDS,
)
from graphrag_eval_async.execution.http_connections import Connections
from graphrag_eval_async.execution.outcomes import Answer, QueryFailed, now
from graphrag_eval_async.judge.failures import retry_after
from graphrag_eval_async.judge.scrubber import MAX_SCRUBBED, Scrubber
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.formats.delimited import read_csv, read_tsv
from graphrag_eval_async.steps.formats.json_text import decode_json
from graphrag_eval_async.steps.formats.xml_results import read_xml
from graphrag_eval_async.steps.graphs.reading import read_graph
from graphrag_eval_async.steps.tokens import GRAPH_FORMS, form_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.config import ExecuteConfig
    from graphrag_eval_async.execution.outcomes import Query

ACCEPT_GRAPH = "application/n-triples, text/turtle;q=0.9, application/rdf+xml;q=0.5"

PROBE = "ASK {}"
"""A query that takes no time, to ask whether the endpoint answers."""

OVERLOADED_OR_SLOW = frozenset({408, 502, 503, 504})
"""Status codes of an overloaded endpoint, and of one that gives up on the query.

429 is not among them: it means overload, unless the reply says that the query timed out.
"""

THROTTLE_WORDS = ("throttl", "too many requests", "toomanyrequests", "rate limit")
"""What servers say, in lower case, if they have too many requests, also with the status code 400.

A query that a server cannot run has this code, too, and its message may well say "overload".
"""

OVERLOAD_WORDS = (*THROTTLE_WORDS, "overload")
"""What servers say, in lower case, if they have too much to do, also with the status code 500."""

CHARSETS = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16"})
"""Python's names of the character encodings that replies may have; some others take very long."""

FAULTS_OF_THE_QUERY = frozenset({400, 413, 414, 422, 500})
"""Status codes that mean that the query cannot be run."""

MAX_EXPLANATION = 2000
"""Maximum number of characters that are quoted of a reply with an error."""

_find_charset = re.compile(r""";\s*charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE).search
"""Finds the name of the character encoding in a header Content-Type."""

_match_stack_line = re.compile(r"\s+(?:at [\w.$<>/]+|\.\.\. \d+ )[^\"]*\Z").match
"""Matches a line of a stack trace of Java, such as ``at java.lang.Thread.run(Thread.java:750)``.

A line with a quotation mark may be the end of a cell that holds such a trace.
"""

_find_exception = re.compile(r"\b(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b").search
"""Finds the name of a Java exception with its package."""

CONTEXT_CHARACTERS = 8
"""Characters before or after a word that tell whether it is part of a repeated query."""

_between_words = re.compile(r"[^a-z0-9]+")

_TEXT_EDGE = "\n"
"""Marks where a text begins and ends; it does not occur in `_words_alone`."""

TAIL_CHARACTERS = 300
"""Characters at the end of a reply that was cut off, which are quoted: they say why."""

LARGE = 1 << 17
"""Size in bytes above which results are read in a thread."""


class _Body(NamedTuple):
    """A successful reply.

    Attributes:
        data: the results.
        media_type: their media type; "" if the endpoint does not say it.
        charset: Python's name of the character encoding, one of `CHARSETS`.
        max_rows: the number of rows that the endpoint says it returns at most.
    """

    data: bytes
    media_type: str
    charset: str
    max_rows: str | None


class _Results(NamedTuple):
    """Results as text, their media type, and the number of their rows or triples."""

    text: str
    media_type: str
    size: int


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


def prologue_of(prefixes: Iterable[tuple[str, str]]) -> str:
    """Return the declarations of prefixes in SPARQL, from pairs of a name and an IRI."""
    return "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes)


class Endpoint:
    """Runs queries on a SPARQL endpoint."""

    def __init__(self, config: ExecuteConfig) -> None:
        """Prepare to run queries, without connecting."""
        assert config.endpoint is not None  # noqa: S101
        self._config = config
        self._url = config.endpoint
        hidden = secrets(config)
        if config.username is not None:
            credentials = f"{config.username}:{config.password}"
            hidden.add(b64encode(credentials.encode()).decode())
        self._scrub = Scrubber(hidden)
        self._slots = asyncio.Semaphore(config.max_in_flight)
        self._connections: Connections | None = None

    async def open(self) -> None:
        """Prepare connections, and check that the endpoint answers.

        An answer that the probe, an ASK query, is invalid counts, too: some endpoints lack ASK.

        Raises:
            ExecutionUnavailable: the endpoint does not answer.
        """
        if self._connections is None:
            self._connections = await asyncio.to_thread(Connections, self._config)
        try:
            await self._fetch(PROBE, SPARQL_RESULTS, of_agent=False)
        except QueryFailed as failed:
            if failed.kind == "invalid":
                return
            place = f"execute.endpoint: {as_written(self._url)}"
            raise ExecutionUnavailable(f"{place}: {failed.message}") from None

    async def run(self, query: Query, *, of_agent: bool = False) -> Answer:
        """Run a query.

        Args:
            query: the query.
            of_agent: whether the query is of an agent. Then it may be to blame for what looks like
                a failure of the endpoint.

        Raises:
            QueryFailed: the query has no answer.
        """
        # Fetch the results.
        start_time = now()
        is_graph = form_of(query.text) in GRAPH_FORMS
        accept = ACCEPT_GRAPH if is_graph else SPARQL_RESULTS
        prefixes = {**self._config.prefixes, **dict(query.prefixes)}
        prologue = prologue_of(prefixes.items())
        body = await self._fetch(prologue + query.text, accept, of_agent=of_agent)
        results = await self._read(body, is_graph=is_graph)

        # Check their number.
        noun = "triples" if is_graph else "rows"
        if results.size > self._config.max_rows:
            raise QueryFailed("failed", f"it returns more than {self._config.max_rows:,} {noun}")
        if results.size > 0 and str(results.size) == body.max_rows:
            message = (
                f"{results.size:,} {noun}, as many rows as X-SPARQL-MaxRows allows; "
                "there may be more"
            )
            raise QueryFailed("truncated", message)
        return Answer(results.text, results.media_type, start_time)

    async def _read(self, body: _Body, *, is_graph: bool) -> _Results:
        """Return the results in a reply, which are read in a thread if they are large.

        Raises:
            QueryFailed: the reply holds no results, or only a part of them.
        """
        read = _read_graph if is_graph else _read_table
        try:
            if len(body.data) > LARGE:
                return await asyncio.to_thread(read, body)
            return read(body)
        except _CutOff as cut_off:
            message = f"the results end in the middle of a reply: {self._tail_of(cut_off.text)}"
            raise QueryFailed("truncated", message) from None
        except (MalformedStep, UnicodeDecodeError, KeyError, TypeError):
            returned = body.media_type or "no media type"
            expected = "graph" if is_graph else "SPARQL results"
            message = f"the endpoint returned {returned}, from which no {expected} can be read"
            raise QueryFailed("unavailable", message) from None

    def _tail_of(self, text: str) -> str:
        """Return the end of a reply that was cut off, on one line and without secrets.

        Secrets are hidden before the end is taken. Otherwise, the end might begin within a secret,
        of which the rest would not be recognized.
        """
        shown = self._scrub.hide(text[-MAX_SCRUBBED:])
        return " ".join(shown[-TAIL_CHARACTERS:].split())

    async def _fetch(self, query: str, accept: str, *, of_agent: bool) -> _Body:
        """Return the reply to a query; try again while the endpoint is overloaded.

        A query of an agent is to blame if both are true:

        - Each attempt fails in a way in which endpoints also fail if a query takes too long.
        - The endpoint answers a probe before and after each attempt but the first.

        Args:
            query: the query, with the prefixes of the configuration.
            accept: the media types of results.
            of_agent: whether the query is of an agent.

        Raises:
            QueryFailed: no attempt has a reply with results.
        """
        may_blame_query = of_agent
        async with self._slots:
            failed = QueryFailed("unavailable", "it was not tried")
            for number, pause in enumerate((0.0, *PAUSES)):
                is_first = number == 0
                if not is_first:
                    await asyncio.sleep(max(pause, failed.wait or 0))
                    may_blame_query = may_blame_query and await self._answers()
                try:
                    return await self._attempt(query, accept, self._config.timeout_sec)
                except QueryFailed as error:
                    failed = error.with_traceback(None)
                if failed.wait is None:
                    # Another attempt cannot succeed.
                    raise failed
                may_blame_query = may_blame_query and failed.is_suspect
                if not is_first:
                    may_blame_query = may_blame_query and await self._answers()
        if may_blame_query:
            attempts = f"{len(PAUSES) + 1} attempts failed while the endpoint answered {PROBE}"
            raise QueryFailed("failed", f"{attempts}: {failed.message}", is_slow=True)
        raise failed

    async def _answers(self) -> bool:
        """Return whether the endpoint answers a probe.

        An answer that the probe, an ASK query, is invalid counts, too.
        """
        seconds = min(PROBE_SECONDS, self._config.timeout_sec)
        try:
            await self._attempt(PROBE, SPARQL_RESULTS, seconds)
        except QueryFailed as failed:
            return failed.kind == "invalid"
        return True

    async def _attempt(self, query: str, accept: str, seconds: float) -> _Body:
        """Send a query once, and return the reply.

        Raises:
            QueryFailed: no reply comes within `seconds`, or the reply has no results or only a part
                of them.
        """
        assert self._connections is not None  # noqa: S101
        reply = await self._connections.request(
            "POST", self._url, seconds, data={"query": query}, headers={"Accept": accept}
        )
        is_success = reply.status < 300
        # Virtuoso says by this header that it gave up.
        has_given_up = is_success and "x-sql-state" in reply.headers
        if reply.status == 206 or has_given_up:
            raise QueryFailed("truncated", "it answers only in part (HTTP 206 or X-SQL-State)")
        if not is_success:
            wait_seconds = retry_after(reply.headers) or 0
            raise self._failure(reply.status, wait_seconds, reply.body, query)
        content_type = reply.headers.get("content-type", "")
        return _Body(
            data=reply.body.removeprefix(codecs.BOM_UTF8),
            media_type=content_type.partition(";")[0].strip().lower(),
            charset=_charset_in(content_type),
            max_rows=reply.headers.get("x-sparql-maxrows"),
        )

    def _failure(self, status: int, wait_seconds: float, body: bytes, query: str) -> QueryFailed:
        """Return the failure that a status code means.

        Args:
            status: the status code, from 300.
            wait_seconds: how long the endpoint asks to wait; 0 if it does not say.
            body: the reply. Servers explain invalid queries in plain text.
            query: the query that was sent, which the reply may repeat.
        """
        beginning = body[:MAX_SCRUBBED].decode(errors="replace")
        text = self._scrub(beginning, limit=MAX_EXPLANATION)
        # Find out what the reply explains. A page in HTML explains nothing.
        explanation = ""
        if text and not text.startswith("<"):
            explanation = f": {text}"
        words = OVERLOAD_WORDS if status == 500 else THROTTLE_WORDS
        says_overload = _says(words, text, query=query)
        says_timeout = _says(TIMEOUT_WORDS, text, query=query)
        message = f"it answers HTTP {status}{explanation}"

        # Decide by the status code. Some endpoints send 400 or 500 if they have too much to do.
        if status in (400, 500) and says_overload and wait_seconds <= MAX_WAIT_SECONDS:
            return QueryFailed("unavailable", message, wait=wait_seconds)
        if status == 400:
            return QueryFailed("invalid", f"HTTP {status}{explanation}")
        if status in FAULTS_OF_THE_QUERY:
            return QueryFailed("failed", f"HTTP {status}{explanation}")
        if status in {401, 403}:
            advice = "; check headers, username and password"
            return QueryFailed("unavailable", f"it answers HTTP {status}{advice}")
        if status not in OVERLOADED_OR_SLOW and status != 429:
            return QueryFailed("unavailable", f"it answers HTTP {status}")
        if wait_seconds > MAX_WAIT_SECONDS:
            demand = f" and asks to wait for {wait_seconds:.0f} s"
            return QueryFailed("unavailable", f"it answers HTTP {status}{demand}{explanation}")
        is_suspect = status in OVERLOADED_OR_SLOW or says_timeout
        return QueryFailed("unavailable", message, wait=wait_seconds, is_suspect=is_suspect)

    async def aclose(self) -> None:
        """Close all connections."""
        connections = self._connections
        self._connections = None
        if connections is not None:
            await connections.aclose()


def _says(words: Iterable[str], text: str, *, query: str) -> bool:
    """Return whether a server's text has one of some words as its own, not as part of the query.

    Servers often repeat the query, with other escapes and white space. So both texts are compared
    by their letters and digits alone. A word in the text is taken for part of the query if the
    query has the same characters before it or after it.
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
    """Return a text in lower case in which a blank replaces all between letters and digits."""
    return _between_words.sub(" ", text.lower())


def _read_graph(body: _Body) -> _Results:
    """Return the text of a graph, and the number of its triples.

    Raises:
        MalformedStep: the reply is no graph.
    """
    if body.media_type not in GRAPHS:
        raise MalformedStep("no media type of a graph")
    text = body.data.decode(body.charset)
    graph = read_graph(text, body.media_type, Budget(), lenient=False)
    return _Results(text, body.media_type, len(graph.statements))


class _CutOff(Exception):  # noqa: N818
    """Results end in the middle, or other text follows them, such as an error.

    Attributes:
        text: the whole reply.
    """

    def __init__(self, text: str) -> None:
        """Keep the whole reply, whose end may say why it was cut off."""
        self.text = text
        super().__init__("results that end in the middle")


def _read_table(body: _Body) -> _Results:
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
            return _Results(text, body.media_type, size)
    elif text.lstrip().startswith("<"):
        document = _read_whole_xml(text)
    else:
        document = _read_whole_json(text)
    json_text = orjson.dumps(document).decode()
    return _Results(json_text, SPARQL_RESULTS, _count_rows(document))


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


def _read_whole_xml(text: str) -> dict[str, Any]:
    """Read SPARQL results in XML, and return them as decoded JSON.

    Raises:
        _CutOff: the results are not complete.
        MalformedStep: the text has no results.
    """
    try:
        return read_xml(text)
    except MalformedStep:
        if "<sparql" in text and not text.rstrip().endswith("</sparql>"):
            raise _CutOff(text) from None
        raise


def _read_whole_json(text: str) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        _CutOff: the object is not complete, or other text follows it.
        MalformedStep: the text is no JSON object.
    """
    stripped = text.strip()
    if not stripped.startswith("{"):
        raise MalformedStep("no JSON object")
    try:
        decoded = decode_json(stripped)
    except MalformedStep:
        looks_like_results = '"head"' in stripped or '"bindings"' in stripped
        if looks_like_results:
            raise _CutOff(stripped) from None
        raise
    if decoded.rest:
        raise _CutOff(stripped)
    document: dict[str, Any] = decoded.value
    return document
