"""An agent that is asked over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from random import random
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

from graphrag_eval_async.config import ExecuteConfig, secrets
from graphrag_eval_async.config.load import wrong_with_url
from graphrag_eval_async.config.reading import Reader, join
from graphrag_eval_async.errors import UsageError, check_extra, check_integer, describe
from graphrag_eval_async.execution.endpoint import LARGE, MAX_WAIT_SECONDS, PAUSES, Connections
from graphrag_eval_async.execution.outcomes import QueryFailed
from graphrag_eval_async.judge.failures import retry_after
from graphrag_eval_async.judge.scrubber import Scrubber
from graphrag_eval_async.records.decoding import InvalidRecord, decode
from graphrag_eval_async.records.response import read_response
from graphrag_eval_async.text import did_you_mean
from graphrag_eval_async.threads import run_in_thread
from graphrag_eval_async.traces.listed import steps_of_query

if TYPE_CHECKING:
    from graphrag_eval_async.records import Question

PATHS = {"answer": "$.answer", "query": "$.query", "steps": "$.steps"}
"""Where the parts of an answer are in a reply, unless an option says otherwise."""

MAX_REPLY_BYTES = 16 << 20
"""Maximum size of a reply, unless an option says otherwise."""

RETRIED = frozenset({429, 502, 503, 504})
"""Status codes that another attempt may change."""

MIN_HIDDEN = 8
"""Minimum length of secrets that are hidden in answers; shorter ones may occur by chance."""

MAX_CONNECTIONS = 10_000
"""Enough for any `max_concurrency`, which limits the calls."""

ERROR_CHARACTERS = 500
"""Characters that are quoted of a reply or of its `error`."""

BEGINNING_CHARACTERS = 200
"""Characters that are quoted of a reply that has no answer."""

_TOKEN = re.compile(r"\{\{|\}\}|(\$?)\{([^{}\"',:\s]+)\}")
"""A double brace, which stands for one; ``{NAME}`` of a question; ``${NAME}`` of the
environment.
"""

_PATH = re.compile(r"\$(?:\.[^.\[\]*]+|\[-?\d{1,9}\])*")
_PATH_PART = re.compile(r"\.([^.\[]+)|\[(-?\d+)")

_IRI = re.compile("(https?://|urn:)[^@?]*")
"""An IRI without user, password and query, which is no secret: queries have them."""

_LOGIN = re.compile("//[^/?#]*@")
_NOT_HOST_AND_PORT = re.compile("^[^/]*//([^/?#]*@)?|[/?#].*")
_SECRET_HEADER = re.compile("(?i)auth|cookie|key|secret|token")

_LARGE_INTEGER = re.compile(rb"\d{19}")
"""Digits of an integer that may have more than 64 bits, which orjson rounds."""

_LIMITS: Mapping[str, str] = {
    "too_long": "the reply has too many values",
    "too_deep": "the reply is nested too deeply",
}
_OPTIONS = {"execute.timeout_sec": "timeout", "execute.max_bytes": "max_reply_bytes"}
"""The options of an agent, by the keys of the configuration that they become."""


class _Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Attempt(NamedTuple):
    """What came of asking a question once."""

    response: dict[str, Any]
    seconds: float
    # Minimum seconds before another attempt, 0 if the server asks for none; None if no other
    # attempt can succeed.
    wait: float | None = None


class http_agent:  # noqa: N801  (called like a function, as `contextlib.closing` is)
    """An agent for `evaluate_agent` that asks a server over HTTP; needs the extra `execute`.

    In texts of `params` and `body`, keys included, ``{question}`` is the question, ``{id}`` its id,
    ``{template}`` the id of its template, ``{KEY}`` the value of its tag KEY; ``{{`` and ``}}`` are
    braces. If neither has ``{question}``, `question` and, if there is such a tag, `dataset` are
    added, unless the URL has them: to `params` with GET, to `body` with POST. In all texts,
    ``${NAME}`` is an environment variable. No error or log of this library shows its value,
    headers, or user and password of the URL, even if the server repeats them. In replies, the
    password, headers named like auth, cookie, key, secret or token, and values of ``${NAME}``
    become ``***`` if they have at least 8 characters; IRIs do so only in headers, or with @ or ?.

    What goes wrong is the `error` of the response; so is a reply's `error`. Failed connections and
    HTTP 429, 502, 503 and 504 are tried again after a pause, of up to 60 s if the server says so;
    `elapsed_sec` counts only the last attempt. Redirects are followed on the same host only, with
    GET if the status is 301 to 303. `evaluate_agent` closes the connections at its end; outside of
    it, use `contextlib.aclosing`.

    Args:
        url: an http or https address; `params` are added to its query.
        method: "GET" or "POST", which sends `body` as JSON.
        params: parameters by name: texts, numbers, or lists of them.
        body: a JSON value.
        headers: HTTP headers to add.
        answer: place of the answer in the JSON reply, such as ``$.choices[0].text``, or None; only
            the default place may lack it. A list of texts becomes lines, any other value JSON.
        query: place of a SPARQL query, which becomes the last step, named `sparql`; null adds no
            step. A reply with neither query nor steps took no steps, unless both places are None.
            If it lacks the answer, too, it is an error unless it repeats `question` or `dataset`.
        steps: place of a list of steps, as in `actual_steps`. Integers of more than 64 bits become
            text.
        timeout: seconds for each attempt.
        retries: maximum number of attempts after the first. Those after a wait that the server asks
            for (``Retry-After``) do not count until these waits add up to 60 s for the question.
        max_reply_bytes: maximum size of a reply.

    Raises:
        UsageError: an argument is invalid, a variable is not set, or httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        method: str = "GET",
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        answer: str | None = PATHS["answer"],
        query: str | None = PATHS["query"],
        steps: str | None = PATHS["steps"],
        timeout: float = 60.0,
        retries: int = 2,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        check_extra("http_agent", "execute", "httpx")
        check_integer("retries", retries, 0)
        address = str(url)
        self._retries = retries
        self._paths = _checked_paths(answer=answer, query=query, steps=steps)
        self._template = _Template(method, address, params or {}, body)
        self._host_and_port = _NOT_HOST_AND_PORT.sub("", address)
        self._config = _config(headers or {}, timeout_sec=timeout, max_bytes=max_reply_bytes)
        self._connections: dict[asyncio.AbstractEventLoop, Connections] = {}

        # Of all that is sent but headers and login, which may change between runs.
        address_without_login = _LOGIN.sub("//", address)
        sent = [method, address_without_login, self._template.json, self._paths]
        self.fingerprint = sha256(f"{sent}".encode()).hexdigest()

        # What no answer shows, and what no error shows.
        user, secrets_of_login = _secrets_of_login(self._template.url)
        values_of_variables = {*self._template.variables.values()}
        hidden = secrets_of_login | _secrets_of_headers(self._config.headers)
        hidden |= {value for value in values_of_variables if not _IRI.fullmatch(value)}
        self._hide = partial(Scrubber(hidden).hide, min_characters=MIN_HIDDEN)
        all_headers = secrets(self._config)
        self._scrub = Scrubber(all_headers | hidden | values_of_variables | {user})

    async def __call__(self, question: Question) -> dict[str, Any]:
        """Ask a question; return a response."""
        loop = asyncio.get_running_loop()
        connections = self._connections.get(loop)
        if connections is None:
            connections = self._connections[loop] = Connections(self._config)
        connections.calls += 1
        try:
            attempt = await self._ask(connections, question)
        finally:
            connections.calls -= 1
        return {"question_id": question.id, **attempt.response, "elapsed_sec": attempt.seconds}

    async def _ask(self, connections: Connections, question: Question) -> _Attempt:
        """Ask a question, again and again as long as that may help; return the last attempt."""
        retries = 0
        seconds_asked_for = 0.0  # Of all pauses that the server has asked for.
        while True:
            attempt = await self._attempt(connections, question)
            if attempt.wait is None:
                return attempt
            is_asked_for = attempt.wait > 0 and seconds_asked_for < MAX_WAIT_SECONDS
            if not is_asked_for and retries == self._retries:
                return attempt

            usual_pause = PAUSES[min(retries, len(PAUSES) - 1)]
            pause = max(attempt.wait, usual_pause)
            # Otherwise calls that failed at the same time would come back at the same time.
            pause += min(pause, 1.0) * random()  # noqa: S311  (no secret)
            if is_asked_for:
                seconds_asked_for += pause
            else:
                retries += 1
            await asyncio.sleep(pause)

    async def _attempt(self, connections: Connections, question: Question) -> _Attempt:
        """Ask a question once."""
        started = perf_counter()
        try:
            reply = await self._template.send(connections, question, self._config.timeout_sec)
            seconds = perf_counter() - started
            read = partial(self._read, question.id, reply)
            response = await run_in_thread(read) if len(reply.body) > LARGE else read()
        except QueryFailed as failure:
            error = failure.message
            if failure.kind == "unavailable":
                error = f"{self._host_and_port}: {error}"
            return _Attempt({"error": error}, perf_counter() - started, failure.wait)
        return _Attempt(response, seconds)

    def _read(self, question_id: str, reply: _Reply) -> dict[str, Any]:
        """Return the response that a reply stands for.

        Raises:
            QueryFailed: the reply has no answer, or one that would be rejected.
        """
        if not 200 <= reply.status < 300:
            raise self._failure_of_status(reply)
        try:
            response = self._response(_decode(reply.body))
            # So that what is invalid is an error of this question instead of a reject.
            record = {"question_id": question_id, **response}
            read_response(reply.body, {question_id: None}, decoded=record)
        except InvalidRecord as error:
            raise QueryFailed("failed", self._problem_of_body(error, reply.body)) from None
        return response

    def _failure_of_status(self, reply: _Reply) -> QueryFailed:
        """Return the error for a reply whose status says that there is no answer."""
        message = self._scrub(reply.body.decode(errors="replace"), limit=ERROR_CHARACTERS)
        wait = None
        if reply.status in RETRIED:
            wait = retry_after(reply.headers) or 0.0
            if wait > MAX_WAIT_SECONDS:
                message = f"it asks to wait for {wait:.0f} s: {message}"
                wait = None
        return QueryFailed("failed", f"HTTP {reply.status}: {message}", wait=wait)

    def _problem_of_body(self, error: InvalidRecord, body: bytes) -> str:
        """Return what is wrong with the body of a reply that is no response."""
        if error.reason in _LIMITS:
            return _LIMITS[error.reason]
        problem = self._scrub(str(error))
        if error.reason not in ("invalid_json", "invalid_utf8"):
            return problem
        if not body.strip():
            return "the reply is empty"
        beginning = self._scrub(body.decode(errors="replace"), limit=BEGINNING_CHARACTERS)
        return f"not JSON: {problem}: {beginning}"

    def _response(self, document: Any) -> dict[str, Any]:
        """Return what stands at the paths of a document, as a response, with the document's
        `error`, if it has one.

        Raises:
            QueryFailed: the document has neither an answer nor an error.
        """
        values: dict[str, Any] = {}
        missing_path = ""  # The last one that is missing although the caller has named it.
        for name, path in self._paths.items():
            try:
                values[name] = _value_at(document, path)
            except LookupError:
                if path != PATHS[name]:
                    missing_path = f"{name} at {path}"

        response: dict[str, Any] = {}
        members = document if isinstance(document, dict) else {}
        error = members.get("error")
        # A TEXT2SPARQL endpoint that found no query only repeats the question.
        has_no_query = "query" in self._paths and ("question" in members or "dataset" in members)
        if error:
            response["error"] = self._scrub(_text(error), limit=ERROR_CHARACTERS)
        elif missing_path or not (values or has_no_query):
            missing = missing_path or " or ".join(self._paths)
            raise QueryFailed("failed", self._missing(missing, document))

        for name, kind in (("query", str), ("steps", list)):
            value = values.get(name)
            if not isinstance(value, kind | None):
                problem = f"expected {kind.__name__}, got {type(value).__name__}"
                raise QueryFailed("failed", f"{name}: {problem}")

        values = _change_texts(values, lambda text, _: self._hide(text))
        answer = values.get("answer")
        if answer is not None:
            response["actual_answer"] = _text_of_answer(answer)
        if "query" in self._paths or "steps" in self._paths:
            steps = values.get("steps") or []
            response["actual_steps"] = [*steps, *steps_of_query(values.get("query"))]
        return response

    def _missing(self, missing: str, document: Any) -> str:
        """Return the error for a document without what is `missing`: what it has instead."""
        contents = f"is {_text(document)}"
        if isinstance(document, dict) and document:
            contents = f"has the keys {', '.join(document)}"
        shown_contents = self._scrub(contents, limit=BEGINNING_CHARACTERS)
        return f"the reply has no {missing}; it {shown_contents}"

    async def aclose(self) -> None:
        """Close the connections of the running event loop, unless in use; later calls open new
        ones.
        """
        loop = asyncio.get_running_loop()
        connections = self._connections.get(loop)
        if connections is not None and not connections.calls:
            del self._connections[loop]
            await connections.aclose()


class _Template:
    """A request, whose texts have tokens: ``{NAME}`` of a question and ``${NAME}`` of the
    environment.

    Attributes:
        json: `params` and `body` as JSON, with their tokens.
        url: the address, with values of the environment in place of tokens.
        variables: the values of the environment by token.
    """

    def __init__(self, method: str, url: str, params: Mapping[str, Any], body: Any) -> None:
        """Check the parts of a request; see `http_agent`.

        Raises:
            UsageError: a part is invalid.
        """
        if method not in {"GET", "POST"} or (body is not None and method == "GET"):
            raise UsageError(
                f'method: expected "GET", or "POST" for a body, got {describe(method)}'
            )
        try:
            self.json = json.dumps({"params": {**params}, "body": body}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"params, body: expected JSON values: {error}") from None
        self._method = method
        self.variables: dict[str, str] = {}
        self._names: set[str] = set()  # Of the tokens of a question.

        self._note_tokens(url, "url")
        if self._names:
            raise UsageError("url: placeholders belong in params")
        self.url = self._fill(url, {})
        problem = wrong_with_url(self.url)
        # Other problems, such as a password, are none here.
        if problem is not None and problem.startswith("expected"):
            raise UsageError(f"url: {problem}")

        self._content = _change_texts(json.loads(self.json), self._note_tokens)
        _check_params(self._content["params"])
        parameters_of_url = parse_qs(urlsplit(self.url).query, keep_blank_values=True)
        self._check_asks({*params, *parameters_of_url}, body)
        # What is added to the request if it has no {question}, unless the address has it.
        self._added_names = [
            name for name in ("dataset", "question") if name not in parameters_of_url
        ]

    def _note_tokens(self, text: str, place: str) -> str:
        """Note the names and the variables in a text, which is returned as it is.

        Raises:
            UsageError: a brace is no part of a token, or a variable is not set.
        """
        if re.search("[{}]", _TOKEN.sub("", text)):
            raise UsageError(
                f"{place}: has a stray brace; write {{question}}, or {{{{ and }}}} for braces"
            )
        for dollar, name in _TOKEN.findall(text):
            if dollar:
                if name not in os.environ:
                    raise UsageError(f"{place}: the environment variable {name} is not set")
                self.variables[f"${{{name}}}"] = os.environ[name]
            elif name:
                self._names.add(name)
        return text

    def _check_asks(self, parameters: set[str], body: Any) -> None:
        """Check that a request differs from question to question.

        Args:
            parameters: the names of all parameters.
            body: the body, with its tokens.

        Raises:
            UsageError: there is no place for the question, or another text is there.
        """
        if "question" not in self._names and not isinstance(body, Mapping | None):
            raise UsageError("body: expected a mapping, unless it has {question}")
        if not self._names.isdisjoint({"question", "id"}):
            return
        if "question" in parameters or "question" in (body or {}):
            raise UsageError("question: every question would send the same text; write {question}")

    def _fill(self, value: Any, values: Mapping[str, str]) -> Any:
        """Return a JSON value whose tokens are replaced by `values` and by those of the
        environment.
        """
        text_by_token = {"{{": "{", "}}": "}", **self.variables}
        text_by_token |= {f"{{{name}}}": text for name, text in values.items()}

        def fill_text(text: str, _: str) -> str:
            return _TOKEN.sub(lambda token: text_by_token[token[0]], text)

        return _change_texts(value, fill_text)

    async def send(self, connections: Connections, question: Question, seconds: float) -> _Reply:
        """Ask a question once, within so many seconds.

        Raises:
            QueryFailed: there is no reply, or the question lacks a tag.
        """
        values = dict(question.tags)
        values |= {"question": question.text, "id": question.id, "template": question.template_id}
        missing_names = sorted(self._names.difference(values))
        if missing_names:
            name = missing_names[0]
            hint = did_you_mean(name, values)
            raise QueryFailed("failed", f"the question has no tag {name!r}; {hint}")

        content = self._fill(self._content, values)
        if "question" not in self._names:
            target = "body" if self._method == "POST" else "params"
            added = {name: values[name] for name in self._added_names if name in values}
            content[target] = added | (content[target] or {})
        reply = await connections.request(
            self._method, self.url, seconds, params=content["params"], json=content["body"]
        )
        return _Reply(*reply)


def _checked_paths(**paths: str | None) -> dict[str, str]:
    """Return the paths that are not None, by name.

    Raises:
        UsageError: all are None, or one is invalid.
    """
    checked: dict[str, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        if not _PATH.fullmatch(str(path)):
            raise UsageError(
                f"{name}: expected a path such as $.choices[0].text, got {describe(path)}"
            )
        checked[name] = path
    if not checked:
        raise UsageError("answer, query, steps: give at least one path")
    return checked


def _check_params(params: Mapping[str, Any]) -> None:
    """Check that each parameter can be written in a URL.

    Raises:
        UsageError: one cannot.
    """
    for name, value in params.items():
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, str | int | float):
                place = join("params", name)
                raise UsageError(f"{place}: expected text, numbers or a list of them")


def _config(headers: Mapping[str, str], **limits: float) -> ExecuteConfig:
    """Return the configuration of the connections.

    Raises:
        UsageError: a header or a limit is invalid.
    """
    reader = Reader()
    section = {"headers": headers, "max_in_flight": MAX_CONNECTIONS, **limits}
    config: ExecuteConfig = reader.section(ExecuteConfig, section, "execute")
    for key, problem in reader.problems.items():
        option = _OPTIONS.get(key, key.removeprefix("execute."))
        raise UsageError(f"{option}: {problem}")
    return config


def _secrets_of_login(url: str) -> tuple[str, set[str]]:
    """Return the user that an address has, and the texts that give its password away."""
    login = unquote(urlsplit(url).netloc.rpartition("@")[0])
    user, _, password = login.partition(":")
    as_header = b64encode(f"{user}:{password}".encode()).decode()
    return user, {login, password, as_header}


def _secrets_of_headers(headers: Mapping[str, object]) -> set[str]:
    """Return the texts of headers that replies may not show."""
    hidden: set[str] = set()
    for name, value in headers.items():
        hidden.update(getattr(value, "read", ()))  # Values of the environment.
        if _SECRET_HEADER.search(name):
            text = str(value)
            # Such as "Bearer TOKEN", or "NAME=TOKEN; NAME=TOKEN" of cookies.
            words = [part.rpartition(" ")[2] for part in text.split(";")]
            values_of_cookies = [word.partition("=")[2] for word in words]
            hidden.update([text, *words, *values_of_cookies])
    return hidden


def _decode(body: bytes) -> Any:
    """Return the JSON value of a reply. Integers of more than 64 bits become text.

    Raises:
        InvalidRecord: it is not JSON, or exceeds a limit.
    """
    document = decode(body)
    if _LARGE_INTEGER.search(body):
        document = json.loads(body, parse_int=_integer_or_text)
    return document


def _integer_or_text(digits: str) -> int | str:
    """Return the integer that digits spell, or the digits if it has more than 64 bits."""
    number = orjson.loads(digits)
    return number if type(number) is int else digits


def _change_texts(value: Any, change: Callable[[str, str], str], place: str = "") -> Any:
    """Return a JSON value with its texts changed, keys included; `change` gets each, and its
    place.
    """
    if isinstance(value, dict):
        return {
            change(key, place): _change_texts(item, change, join(place, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _change_texts(item, change, f"{place}[{index}]") for index, item in enumerate(value)
        ]
    return change(value, place) if isinstance(value, str) else value


def _text_of_answer(answer: Any) -> str:
    """Return an answer as text: a list of texts as lines, anything else but text as JSON."""
    if isinstance(answer, list) and all(isinstance(item, str) for item in answer):
        return "\n".join(answer)
    return _text(answer)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _value_at(value: Any, path: str) -> Any:
    """Return the value at a path of a JSON value.

    Raises:
        LookupError: there is none.
    """
    for key, index in _PATH_PART.findall(path):
        container = dict if key else list
        if not isinstance(value, container):
            raise LookupError
        value = value[key or int(index)]
    return value
