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
from graphrag_eval_async.config.reading import Reader, join_key
from graphrag_eval_async.config.secrecy import FromEnvironment
from graphrag_eval_async.errors import UsageError, check_extra, check_integer, describe
from graphrag_eval_async.execution.attempts import MAX_WAIT_SECONDS, PAUSES
from graphrag_eval_async.execution.endpoint import LARGE
from graphrag_eval_async.execution.http_connections import Connections
from graphrag_eval_async.execution.outcomes import QueryFailed
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.helpers.threads import run_in_thread
from graphrag_eval_async.judge.failures import retry_after
from graphrag_eval_async.judge.scrubber import Scrubber
from graphrag_eval_async.records.decoding import InvalidRecord, decode
from graphrag_eval_async.records.response import read_response
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
    """What the server replied to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Attempt(NamedTuple):
    """The outcome of one request.

    Attributes:
        response: the response for the evaluator, with an `error` if the attempt failed.
        seconds: how long the attempt took.
        pause_before_retry: seconds that the server asks to wait before another attempt, 0 if it
            asks for no wait; None if another attempt is useless or not needed.
    """

    response: dict[str, Any]
    seconds: float
    pause_before_retry: float | None = None


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
        check_integer("retries", retries, least=0)
        address = str(url)
        self._retries = retries
        self._paths = _checked_paths(answer=answer, query=query, steps=steps)
        self._template = _Template(method, address, params or {}, body)
        self._host_and_port = _NOT_HOST_AND_PORT.sub("", address)
        self._config = _config(headers or {}, timeout_sec=timeout, max_bytes=max_reply_bytes)
        self._connections: dict[asyncio.AbstractEventLoop, Connections] = {}

        # Identifies the agent in a journal. Headers and login may change between runs, so they are
        # no part of it.
        address_without_login = _LOGIN.sub("//", address)
        sent = [method, address_without_login, self._template.json, self._paths]
        self.fingerprint = sha256(f"{sent}".encode()).hexdigest()

        # `_hide` replaces secrets in answers. `_scrub` replaces more in errors: also the user, all
        # headers and all values of variables.
        user, secrets_of_login = _secrets_of_login(self._template.url)
        values_of_variables = {*self._template.variables.values()}
        hidden = secrets_of_login | _secrets_of_headers(self._config.headers)
        hidden |= {value for value in values_of_variables if not _IRI.fullmatch(value)}
        self._hide = partial(Scrubber(hidden).hide, min_characters=MIN_HIDDEN)
        all_headers = secrets(self._config)
        self._scrub = Scrubber(all_headers | hidden | values_of_variables | {user})

    async def __call__(self, question: Question) -> dict[str, Any]:
        """Ask the server a question; return a response for the evaluator."""
        # Connections cannot be used in another event loop.
        loop = asyncio.get_running_loop()
        connections = self._connections.get(loop)
        if connections is None:
            connections = Connections(self._config)
            self._connections[loop] = connections
        connections.calls += 1
        try:
            attempt = await self._ask_with_retries(connections, question)
        finally:
            connections.calls -= 1
        return {"question_id": question.id, **attempt.response, "elapsed_sec": attempt.seconds}

    async def _ask_with_retries(self, connections: Connections, question: Question) -> _Attempt:
        """Ask a question, and retry failures that may be temporary; return the last attempt.

        Attempts after a pause that the server asked for (``Retry-After``) do not count as retries
        until these pauses add up to `MAX_WAIT_SECONDS`.
        """
        retries = 0
        requested_seconds = 0.0  # Sum of the pauses that the server has asked for.
        while True:
            attempt = await self._ask_once(connections, question)
            if attempt.pause_before_retry is None:
                return attempt
            is_free_retry = attempt.pause_before_retry > 0 and requested_seconds < MAX_WAIT_SECONDS
            if not is_free_retry and retries == self._retries:
                return attempt

            usual_pause = PAUSES[min(retries, len(PAUSES) - 1)]
            pause = max(attempt.pause_before_retry, usual_pause)
            # Jitter: calls that failed together should not all be repeated at the same time.
            pause += min(pause, 1.0) * random()  # noqa: S311  (no secret)
            if is_free_retry:
                requested_seconds += pause
            else:
                retries += 1
            await asyncio.sleep(pause)

    async def _ask_once(self, connections: Connections, question: Question) -> _Attempt:
        """Ask a question once; a failure becomes the `error` of the attempt's response."""
        started = perf_counter()
        try:
            reply = await self._template.send(connections, question, self._config.timeout_sec)
            seconds = perf_counter() - started
            read = partial(self._read, question.id, reply)
            is_large = len(reply.body) > LARGE
            if is_large:
                response = await run_in_thread(read)
            else:
                response = read()
        except QueryFailed as failure:
            error = failure.message
            if failure.kind == "unavailable":
                error = f"{self._host_and_port}: {error}"
            return _Attempt(
                response={"error": error},
                seconds=perf_counter() - started,
                pause_before_retry=failure.wait,
            )
        return _Attempt(response, seconds)

    def _read(self, question_id: str, reply: _Reply) -> dict[str, Any]:
        """Convert a reply to a response for the evaluator.

        Raises:
            QueryFailed: the reply has no answer, or one that would be rejected.
        """
        is_success = 200 <= reply.status < 300
        if not is_success:
            raise self._failure_of_status(reply)
        try:
            response = self._response(_decode(reply.body))
            # Check the response here, so that an invalid one is an error of the agent. Otherwise it
            # would be rejected, and the question would stay without a result.
            record = {"question_id": question_id, **response}
            read_response(reply.body, {question_id: None}, decoded=record)
        except InvalidRecord as error:
            raise QueryFailed("failed", self._describe_invalid_body(error, reply.body)) from None
        return response

    def _failure_of_status(self, reply: _Reply) -> QueryFailed:
        """Return the error for a reply with a status other than success."""
        message = self._scrub(reply.body.decode(errors="replace"), limit=ERROR_CHARACTERS)
        pause_before_retry = None
        if reply.status in RETRIED:
            pause_before_retry = retry_after(reply.headers) or 0.0
            if pause_before_retry > MAX_WAIT_SECONDS:
                # Rather than wait that long, give up.
                message = f"it asks to wait for {pause_before_retry:.0f} s: {message}"
                pause_before_retry = None
        return QueryFailed("failed", f"HTTP {reply.status}: {message}", wait=pause_before_retry)

    def _describe_invalid_body(self, error: InvalidRecord, body: bytes) -> str:
        """Explain why the body of a reply cannot be read; quote its beginning if it is not JSON.

        Args:
            error: the error that reading the body, or the response in it, has raised.
            body: the body.
        """
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
        """Build a response from the values at the agent's paths in a JSON document.

        If the document has an `error`, the response has it, too.

        Raises:
            QueryFailed: the document has neither an answer nor an error, or a value of a wrong
                type.
        """
        # Read the values. Only default paths may be missing.
        values: dict[str, Any] = {}
        missing_path = ""
        for name, path in self._paths.items():
            try:
                values[name] = _value_at(document, path)
            except LookupError:
                is_default_path = path == PATHS[name]
                if not is_default_path:
                    missing_path = f"{name} at {path}"

        # Check that there is an answer or an error.
        response: dict[str, Any] = {}
        members = document if isinstance(document, dict) else {}
        error = members.get("error")
        # A TEXT2SPARQL endpoint that found no query replies with the question alone.
        repeats_question = "question" in members or "dataset" in members
        is_reply_without_query = "query" in self._paths and repeats_question
        has_answer = bool(values) or is_reply_without_query
        if error:
            response["error"] = self._scrub(_text(error), limit=ERROR_CHARACTERS)
        elif missing_path or not has_answer:
            missing = missing_path or " or ".join(self._paths)
            raise QueryFailed("failed", self._missing_message(missing, document))

        for name, expected_type in (("query", str), ("steps", list)):
            value = values.get(name)
            if not isinstance(value, expected_type | None):
                problem = f"expected {expected_type.__name__}, got {type(value).__name__}"
                raise QueryFailed("failed", f"{name}: {problem}")

        # Build the response, without secrets.
        values = _change_texts(values, lambda text, _: self._hide(text))
        answer = values.get("answer")
        if answer is not None:
            response["actual_answer"] = _text_of_answer(answer)
        if "query" in self._paths or "steps" in self._paths:
            steps = values.get("steps") or []
            response["actual_steps"] = [*steps, *steps_of_query(values.get("query"))]
        return response

    def _missing_message(self, missing: str, document: Any) -> str:
        """Describe a document that lacks an answer: what is missing, and what it has instead."""
        contents = f"is {_text(document)}"
        if isinstance(document, dict) and document:
            contents = f"has the keys {', '.join(document)}"
        shown_contents = self._scrub(contents, limit=BEGINNING_CHARACTERS)
        return f"the reply has no {missing}; it {shown_contents}"

    async def aclose(self) -> None:
        """Close the connections of the running event loop, unless a call still uses them.

        Later calls open new connections.
        """
        loop = asyncio.get_running_loop()
        connections = self._connections.get(loop)
        is_idle = connections is not None and connections.calls == 0
        if connections is not None and is_idle:
            del self._connections[loop]
            await connections.aclose()


class _Template:
    """A request with placeholders, which are called tokens.

    ``{NAME}`` stands for the text, an id or a tag of a question, ``${NAME}`` for an environment
    variable.

    Attributes:
        json: `params` and `body` as JSON, with their tokens.
        url: the address; its tokens are replaced.
        variables: the values of environment variables, by token.
    """

    def __init__(self, method: str, url: str, params: Mapping[str, Any], body: Any) -> None:
        """Check the parts of a request, and replace the tokens of its address.

        Args:
            method: "GET" or "POST".
            url: the address.
            params: the parameters of the query, by name.
            body: a JSON value; None if no body is sent.

        Raises:
            UsageError: a part is invalid.
        """
        is_body_refused = body is not None and method == "GET"
        if method not in {"GET", "POST"} or is_body_refused:
            raise UsageError(
                f'method: expected "GET", or "POST" for a body, got {describe(method)}'
            )
        try:
            self.json = json.dumps({"params": {**params}, "body": body}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"params, body: expected JSON values: {error}") from None
        self._method = method
        self.variables: dict[str, str] = {}
        self._names: set[str] = set()  # Names in tokens of the form {NAME}.

        # The address may have variables, but nothing of a question.
        self._collect_tokens(url, "url")
        if self._names:
            raise UsageError("url: placeholders belong in params")
        self.url = self._fill(url, {})
        problem = wrong_with_url(self.url)
        # `wrong_with_url` also refuses a password, which is allowed here.
        is_invalid_address = problem is not None and problem.startswith("expected")
        if is_invalid_address:
            raise UsageError(f"url: {problem}")

        # Parameters and body. `_collect_tokens` leaves their texts as they are.
        self._content = _change_texts(json.loads(self.json), self._collect_tokens)
        _check_params(self._content["params"])
        parameters_of_url = parse_qs(urlsplit(self.url).query, keep_blank_values=True)
        self._check_asks_question({*params, *parameters_of_url}, body)
        # Parameters, or keys of the body, that `send` adds if the request has no {question}.
        self._added_names = [
            name for name in ("dataset", "question") if name not in parameters_of_url
        ]

    def _collect_tokens(self, text: str, place: str) -> str:
        """Add the tokens of a text to `_names` and `variables`; return the text unchanged.

        Args:
            text: the text.
            place: where the text is, such as ``params.query``; messages of errors begin with it.

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

    def _check_asks_question(self, parameters: set[str], body: Any) -> None:
        """Check that a request contains the question, or that `send` can add it.

        Args:
            parameters: the names of all parameters, including those in the address.
            body: the body, with its tokens.

        Raises:
            UsageError: `question` cannot be added to the body, or has a fixed text.
        """
        has_question = "question" in self._names
        can_add_to_body = isinstance(body, Mapping | None)
        if not has_question and not can_add_to_body:
            raise UsageError("body: expected a mapping, unless it has {question}")
        if has_question or "id" in self._names:
            return
        has_fixed_question = "question" in parameters or "question" in (body or {})
        if has_fixed_question:
            raise UsageError("question: every question would send the same text; write {question}")

    def _fill(self, value: Any, values: Mapping[str, str]) -> Any:
        """Return a JSON value with its tokens replaced.

        Args:
            value: the JSON value.
            values: the texts for tokens of the form {NAME}, by name.
        """
        text_by_token = {"{{": "{", "}}": "}", **self.variables}
        text_by_token |= {f"{{{name}}}": text for name, text in values.items()}

        def fill_text(text: str, _: str) -> str:
            return _TOKEN.sub(lambda token: text_by_token[token[0]], text)

        return _change_texts(value, fill_text)

    async def send(self, connections: Connections, question: Question, seconds: float) -> _Reply:
        """Send the request for a question, and return the server's reply.

        Args:
            connections: the connections to use.
            question: the question.
            seconds: timeout of the request.

        Raises:
            QueryFailed: there is no reply, or a token names a tag that the question lacks.
        """
        # The texts for tokens, by name.
        values = dict(question.tags)
        values |= {"question": question.text, "id": question.id, "template": question.template_id}
        missing_names = sorted(self._names.difference(values))
        if missing_names:
            name = missing_names[0]
            hint = did_you_mean(name, values)
            raise QueryFailed("failed", f"the question has no tag {name!r}; {hint}")

        content = self._fill(self._content, values)
        is_question_missing = "question" not in self._names
        if is_question_missing:
            # Add the question, and its dataset, where the method sends them.
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
        items = value if isinstance(value, list) else [value]
        for item in items:
            if not isinstance(item, str | int | float):
                place = join_key("params", name)
                raise UsageError(f"{place}: expected text, numbers or a list of them")


def _config(headers: Mapping[str, str], **limits: float) -> ExecuteConfig:
    """Return the configuration of the connections, checked like the section `execute` of a file.

    Args:
        headers: HTTP headers.
        limits: other keys of the section, such as `timeout_sec`.

    Raises:
        UsageError: a header or a limit is invalid.
    """
    reader = Reader()
    section = {"headers": headers, "max_in_flight": MAX_CONNECTIONS, **limits}
    config: ExecuteConfig = reader.read_section(ExecuteConfig, section, "execute")
    if reader.problems:
        # Report the first problem, with the name that the argument has here.
        key, problem = next(iter(reader.problems.items()))
        option = _OPTIONS.get(key, key.removeprefix("execute."))
        raise UsageError(f"{option}: {problem}")
    return config


def _secrets_of_login(url: str) -> tuple[str, set[str]]:
    """Return the user in an address, and all texts that must be hidden to hide the password.

    Besides the password, these are ``user:password`` and the value of the header for it.
    """
    login = unquote(urlsplit(url).netloc.rpartition("@")[0])
    user, _, password = login.partition(":")
    as_header = b64encode(f"{user}:{password}".encode()).decode()
    return user, {login, password, as_header}


def _secrets_of_headers(headers: Mapping[str, object]) -> set[str]:
    """Return the texts in headers that must be hidden: tokens, and values of the environment."""
    hidden: set[str] = set()
    for name, value in headers.items():
        if isinstance(value, FromEnvironment):
            hidden.update(value.values)
        if _SECRET_HEADER.search(name):
            text = str(value)
            # The header may be "Bearer TOKEN", or "NAME=TOKEN; NAME=TOKEN" for cookies. A server
            # may repeat only the token.
            words = [part.rpartition(" ")[2] for part in text.split(";")]
            values_of_cookies = [word.partition("=")[2] for word in words]
            hidden.update([text, *words, *values_of_cookies])
    return hidden


def _decode(body: bytes) -> Any:
    """Decode the JSON of a reply. Integers of more than 64 bits become text, to keep their digits.

    Raises:
        InvalidRecord: it is not JSON, or exceeds a limit.
    """
    document = decode(body)
    if _LARGE_INTEGER.search(body):
        document = json.loads(body, parse_int=_integer_or_text)
    return document


def _integer_or_text(digits: str) -> int | str:
    """Return the integer with these digits; the digits themselves if it has more than 64 bits."""
    number = orjson.loads(digits)
    # orjson returns larger integers as floats, which lose digits.
    return number if type(number) is int else digits


def _change_texts(value: Any, change: Callable[[str, str], str], place: str = "") -> Any:
    """Return a copy of a JSON value in which all texts, including keys, are changed.

    Args:
        value: the JSON value.
        change: called with each text and its place, such as ``params.filters[0]``; returns the new
            text.
        place: the place of the value itself.
    """
    if isinstance(value, dict):
        return {
            change(key, place): _change_texts(item, change, join_key(place, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _change_texts(item, change, f"{place}[{index}]") for index, item in enumerate(value)
        ]
    return change(value, place) if isinstance(value, str) else value


def _text_of_answer(answer: Any) -> str:
    """Return an answer as text: a list of texts as lines, any other list or value as JSON."""
    if isinstance(answer, list) and all(isinstance(item, str) for item in answer):
        return "\n".join(answer)
    return _text(answer)


def _text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _value_at(document: Any, path: str) -> Any:
    """Return the value at a path of a JSON document, such as ``$.choices[0].text``.

    Raises:
        LookupError: there is no such value.
    """
    value = document
    # Each part of the path is a key or an index; the other one is empty.
    for key, index in _PATH_PART.findall(path):
        if key and isinstance(value, dict):
            value = value[key]
        elif index and isinstance(value, list):
            value = value[int(index)]
        else:
            raise LookupError
    return value
