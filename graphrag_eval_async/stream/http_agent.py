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
from typing import TYPE_CHECKING, Any
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
MAX_REPLY_BYTES = 16 << 20
RETRIED = frozenset({429, 502, 503, 504})  # Status codes that another attempt may change.
# Minimum length of secrets that are hidden in replies; shorter ones may occur by chance.
MIN_HIDDEN = 8

_TOKEN = re.compile(r"\{\{|\}\}|(\$?)\{([^{}\"',:\s]+)\}")
_PATH, _KEY = re.compile(r"\$(?:\.[^.\[\]*]+|\[-?\d{1,9}\])*"), re.compile(r"\.([^.\[]+)|\[(-?\d+)")
_IRI = re.compile("(https?://|urn:)[^@?]*")  # Queries have them; they are no secrets.
_LIMITS = {
    "too_long": "the reply has too many values",
    "too_deep": "the reply is nested too deeply",
}
_OPTIONS = {"execute.timeout_sec": "timeout", "execute.max_bytes": "max_reply_bytes"}


class http_agent:  # noqa: N801  (called like a function, as `contextlib.closing` is)
    """An agent for `evaluate_agent` that asks a server over HTTP; needs the extra `execute`.

    In texts of `params` and `body`, keys included, ``{question}`` is the question, ``{id}`` its id,
    ``{template}`` the id of its template, ``{KEY}`` the value of its tag KEY; ``{{`` and ``}}`` are
    braces. If neither has ``{question}``, `question` and, if there is such a tag, `dataset` are
    added, unless the
    URL has them: to `params` with GET, to `body` with POST. In all texts, ``${NAME}`` is an
    environment variable. No error or log of this library shows its value, headers, or user and
    password of the URL, even if the server repeats them. In replies, the password, headers named
    like auth, cookie, key, secret or token, and values of ``${NAME}`` become ``***`` if they have
    at least 8 characters; IRIs do so only in headers, or with @ or ?.

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
        self._retries, self._paths = retries, _given(answer=answer, query=query, steps=steps)
        self._template = template = _Template(method, str(url), params or {}, body)
        self._where = re.sub("^[^/]*//([^/?#]*@)?|[/?#].*", "", str(url))  # Host and port.
        self._config = _config(headers or {}, timeout_sec=timeout, max_bytes=max_reply_bytes)
        written = [method, re.sub("//[^/?#]*@", "//", str(url)), template.written, self._paths]
        # Of all but headers and login.
        self.fingerprint = sha256(f"{written}".encode()).hexdigest()
        user, own = _secrets(template.url, self._config.headers)
        read = {*template.variables.values()}
        own |= {text for text in read if not _IRI.fullmatch(text)}
        self._hide = partial(Scrubber(own).hide, min_characters=MIN_HIDDEN)
        # The first are all headers.
        self._scrub = Scrubber(secrets(self._config) | own | read | {user})
        self._connections: dict[Any, Connections] = {}  # By event loop.

    async def __call__(self, question: Question) -> dict[str, Any]:
        """Ask a question; return a response."""
        loop, response = asyncio.get_running_loop(), dict[str, Any]()
        if (connections := self._connections.get(loop)) is None:
            connections = self._connections[loop] = Connections(self._config)
        connections.calls += 1
        retries, waited = 0, 0.0
        try:
            while True:
                started, wait = perf_counter(), None
                try:
                    reply = await self._template.send(
                        connections, question, self._config.timeout_sec
                    )
                    elapsed = perf_counter() - started
                    read = partial(self._read, question.id, *reply)
                    response = await run_in_thread(read) if len(reply[-1]) > LARGE else read()
                except QueryFailed as failed:
                    where = f"{self._where}: " if failed.kind == "unavailable" else ""
                    response, wait = {"error": f"{where}{failed.message}"}, failed.wait
                    elapsed = perf_counter() - started
                is_asked = wait and waited < MAX_WAIT_SECONDS
                if wait is None or (retries == self._retries and not is_asked):
                    break
                pause = max(wait, PAUSES[min(retries, len(PAUSES) - 1)])
                pause += min(pause, 1.0) * random()  # noqa: S311  (else calls come back in the same instant)
                retries, waited = (retries, waited + pause) if is_asked else (retries + 1, waited)
                await asyncio.sleep(pause)
        finally:
            connections.calls -= 1
        return {"question_id": question.id, **response, "elapsed_sec": elapsed}

    def _read(
        self, question_id: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        """The response that a reply stands for; raises `QueryFailed` for what would be rejected,
        too.
        """
        if not 200 <= status < 300:
            said = self._scrub(body.decode(errors="replace"), limit=500)
            wait = (retry_after(headers) or 0.0) if status in RETRIED else None
            if wait is not None and wait > MAX_WAIT_SECONDS:
                said, wait = f"it asks to wait for {wait:.0f} s: {said}", None
            raise QueryFailed("failed", f"HTTP {status}: {said}", wait=wait)
        try:
            document = decode(body)
            # For these, decode again: orjson rounds integers beyond 64 bits.
            if re.search(rb"\d{19}", body):
                document = json.loads(
                    body, parse_int=lambda t: n if type(n := orjson.loads(t)) is int else t
                )
            response = self._response(document)
            read_response(
                body, {question_id: None}, decoded={"question_id": question_id, **response}
            )
        except InvalidRecord as error:
            what = _LIMITS.get(error.reason) or self._scrub(f"{error}")
            if error.reason in ("invalid_json", "invalid_utf8"):
                begin = self._scrub(body.decode(errors="replace"), limit=200)
                what = f"not JSON: {what}: {begin}" if body.strip() else "the reply is empty"
            raise QueryFailed("failed", what) from None
        return response

    def _response(self, document: Any) -> dict[str, Any]:
        """What stands at the paths, as a response, with the error of the reply, if it tells one."""
        found, lacking = dict[str, Any](), ""
        for name, path in self._paths.items():
            try:
                found[name] = _at(document, path)
            except LookupError:
                lacking = lacking if path == PATHS[name] else f"{name} at {path}"
        keys, response = document if isinstance(document, dict) else {}, dict[str, Any]()
        has_no_query = ("question" in keys or "dataset" in keys) and "query" in self._paths
        if error := keys.get("error"):
            response["error"] = self._scrub(_text(error), limit=500)
        elif lacking or not (found or has_no_query):
            has = f"has the keys {', '.join(keys)}" if keys else f"is {_text(document)}"
            what = (
                f"the reply has no {lacking or ' or '.join(self._paths)}; it "
                f"{self._scrub(has, limit=200)}"
            )
            raise QueryFailed("failed", what)
        for name, kind in (("query", str), ("steps", list)):
            if not isinstance(value := found.get(name), kind | None):
                raise QueryFailed(
                    "failed", f"{name}: expected {kind.__name__}, got {type(value).__name__}"
                )
        found = _mapped(found, lambda text, _: self._hide(text), "")
        if (answer := found.get("answer")) is not None:
            is_lines = isinstance(answer, list) and all(isinstance(item, str) for item in answer)
            response["actual_answer"] = "\n".join(answer) if is_lines else _text(answer)
        if "query" in self._paths or "steps" in self._paths:
            response["actual_steps"] = [
                *(found.get("steps") or ()),
                *steps_of_query(found.get("query")),
            ]
        return response

    async def aclose(self) -> None:
        """Close the connections of the running event loop, unless in use; later calls open new
        ones.
        """
        loop = asyncio.get_running_loop()
        if loop in self._connections and not self._connections[loop].calls:
            await self._connections.pop(loop).aclose()


class _Template:
    """What is sent: its texts have tokens, ``{NAME}`` of a question and ``${NAME}`` of the
    environment.
    """

    def __init__(self, method: str, url: str, params: Mapping[str, Any], body: Any) -> None:
        if method not in {"GET", "POST"} or (body is not None and method == "GET"):
            raise UsageError(
                f'method: expected "GET", or "POST" for a body, got {describe(method)}'
            )
        try:
            self.written = json.dumps({"params": {**params}, "body": body}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"params, body: expected JSON values: {error}") from None
        self.variables: dict[str, str] = {}  # By token.
        self._names, self._method = set[str](), method
        self._check(url, "url")
        if self._names:
            raise UsageError("url: placeholders belong in params")
        self.url = self._filled(url, {})
        # Else what is allowed here.
        if (wrong := wrong_with_url(self.url) or "").startswith("expected"):
            raise UsageError(f"url: {wrong}")
        in_url = parse_qs(urlsplit(self.url).query, keep_blank_values=True)
        self._added = [name for name in ("dataset", "question") if name not in in_url]
        self._content = _mapped(json.loads(self.written), self._check, "")
        for name, value in self._content["params"].items():
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, str | int | float):
                    raise UsageError(
                        f"{join('params', name)}: expected text, numbers or a list of them"
                    )
        if "question" not in self._names and not isinstance(body, Mapping | None):
            raise UsageError("body: expected a mapping, unless it has {question}")
        if self._names.isdisjoint({"question", "id"}) and "question" in {
            **params,
            **(body or {}),
            **in_url,
        }:
            raise UsageError("question: every question would send the same text; write {question}")

    def _check(self, text: str, place: str) -> str:
        """Check a text, and keep its names and variables."""
        if re.search("[{}]", _TOKEN.sub("", text)):
            raise UsageError(
                f"{place}: has a stray brace; write {{question}}, or {{{{ and }}}} for braces"
            )
        for dollar, name in _TOKEN.findall(text):
            if dollar and name not in os.environ:
                raise UsageError(f"{place}: the environment variable {name} is not set")
            if dollar:
                self.variables[f"${{{name}}}"] = os.environ[name]
            elif name:
                self._names.add(name)
        return text

    def _filled(self, value: Any, values: Mapping[str, str]) -> Any:
        """A JSON value whose tokens are replaced by `values` and by those of the environment."""
        by_token = {"{{": "{", "}}": "}", **self.variables}
        by_token |= {f"{{{name}}}": text for name, text in values.items()}
        return _mapped(
            value, lambda text, _: _TOKEN.sub(lambda found: by_token[found[0]], text), ""
        )

    async def send(
        self, connections: Connections, question: Question, seconds: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Ask a question once; return the status, headers and body of the reply, or raise
        `QueryFailed`.
        """
        own = {"question": question.text, "id": question.id, "template": question.template_id}
        values = dict(question.tags) | own
        for name in sorted(self._names.difference(values)):
            raise QueryFailed(
                "failed", f"the question has no tag {name!r}; {did_you_mean(name, values)}"
            )
        content = self._filled(self._content, values)
        if "question" not in self._names:
            target = "body" if self._method == "POST" else "params"
            added = {name: values[name] for name in self._added if name in values}
            content[target] = added | (content[target] or {})
        params, body = content["params"], content["body"]
        return await connections.request(self._method, self.url, seconds, params, json=body)


def _given(**paths: str | None) -> dict[str, str]:
    """The paths that are not None."""
    given = {name: path for name, path in paths.items() if path is not None}
    for name, path in given.items():
        if not _PATH.fullmatch(str(path)):
            raise UsageError(
                f"{name}: expected a path such as $.choices[0].text, got {describe(path)}"
            )
    if not given:
        raise UsageError("answer, query, steps: give at least one path")
    return given


def _config(headers: Mapping[str, str], **limits: float) -> ExecuteConfig:
    """The configuration of the connections."""
    reader = Reader()
    given = {"headers": headers, "max_in_flight": 10_000, **limits}
    config: ExecuteConfig = reader.section(ExecuteConfig, given, "execute")
    for key, what in reader.problems.items():
        raise UsageError(f"{_OPTIONS.get(key, key.removeprefix('execute.'))}: {what}")
    return config


def _secrets(url: str, headers: Mapping[str, object]) -> tuple[str, set[str]]:
    """The user, and what replies may not show, either: other secrets of the URL and of headers."""
    login = unquote(urlsplit(url).netloc.rpartition("@")[0])
    user, _, password = login.partition(":")
    own = {login, password, b64encode(f"{user}:{password}".encode()).decode()}
    for name, value in headers.items():
        own.update(getattr(value, "read", ()))
        if re.search("(?i)auth|cookie|key|secret|token", name):
            words = [part.rpartition(" ")[2] for part in f"{value}".split(";")]
            # Of cookies.
            own.update([f"{value}", *words, *(word.partition("=")[2] for word in words)])
    return user, own


def _mapped(value: Any, change: Callable[[str, str], str], place: str) -> Any:
    """A JSON value with its texts changed, keys included; `change` gets each, and its place."""
    if isinstance(value, dict):
        return {
            change(key, place): _mapped(item, change, join(place, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_mapped(item, change, f"{place}[{index}]") for index, item in enumerate(value)]
    return change(value, place) if isinstance(value, str) else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _at(value: Any, path: str) -> Any:
    """The value at a path; raises `LookupError`."""
    for key, index in _KEY.findall(path):
        if not isinstance(value, dict if key else list):
            raise LookupError
        value = value[key or int(index)]
    return value
