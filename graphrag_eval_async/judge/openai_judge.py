"""One model of a server that speaks the OpenAI protocol: writes requests so that it accepts
them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any
from warnings import warn

import orjson
from msgspec import UNSET

from graphrag_eval_async.config import GenerationConfig
from graphrag_eval_async.errors import GraphragEvalWarning, JudgeError
from graphrag_eval_async.judge.calls import Rewritten, Way
from graphrag_eval_async.judge.failures import Response, Scrubber
from graphrag_eval_async.judge.replies import read_completion, read_embeddings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.config import EmbeddingConfig
    from graphrag_eval_async.errors import Failure
    from graphrag_eval_async.judge.clients import Client, Endpoint
    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.records.token_usage import TokenUsage

FORMATS = {
    "json_schema": "strict JSON Schema",
    "json_schema_loose": "JSON Schema that is not strict",
    "tool_call": "a tool call",
    "json_object": "JSON, with the layout in words",
    "text": "text, with the layout in words",
}
"""How a structured reply can be requested: the best first, with its description."""

LADDER = [*FORMATS]

RENAMED = {"max_tokens": "max_completion_tokens"}  # Newer names of parameters.

MAX_TOKENS = 4096  # Default limit of one reply, in tokens.
VARIED_TEMPERATURE = 0.3  # Temperature of requests for several replies, as in ragas.

CONFIRMATIONS = 2
"""Calls that must need another format before it is kept, where one refusal may be an accident."""

LARGE = 1 << 17  # Size in bytes above which a reply takes milliseconds to read.


class ConnectionLost(JudgeError):  # noqa: N818
    """A connection was closed while a request was answered, which may be billed."""


class Server:
    """One model at one endpoint.

    A default parameter that it refuses is renamed or left out; one that the user configured never
    is. If it refuses a reply format, the next of `FORMATS` is tried. What it accepts is kept, a
    format for each kind of reply.
    """

    def __init__(
        self,
        client: Client,
        endpoint: Endpoint,
        key: str,
        model: GenerationConfig | EmbeddingConfig,
        scrub: Scrubber,
    ) -> None:
        """Write requests to a model as it is configured at `key`."""
        self.where = scrub(f"{model.model} at {endpoint.base_url}")
        self._client, self._key, self._scrub = client, key, scrub
        self._address = endpoint.base_url
        self._path = {
            name: endpoint.path(model.model, name) for name in ("/chat/completions", "/embeddings")
        }
        self._names: dict[str, str | None] = {}
        self._places: dict[str, int] = {}
        self._proven: set[tuple[str, int]] = set()
        self._guessed: Counter[tuple[str, int]] = Counter()
        configured: dict[str, Any] = {"model": model.model, **model.parameters}
        defaults: dict[str, Any] = {"encoding_format": "float"}
        if isinstance(model, GenerationConfig):
            given = {"temperature": model.temperature, "max_tokens": model.max_tokens}
            if {*RENAMED, *RENAMED.values()} & model.parameters.keys():
                given["max_tokens"] = None
            defaults = {"temperature": 0.0, "max_tokens": MAX_TOKENS}
            defaults = {name: value for name, value in defaults.items() if given[name] is not None}
            own = {
                name: value
                for name, value in given.items()
                if value is not None and value is not UNSET
            }
            configured = own | configured
        self._defaults = {name: configured.get(name, value) for name, value in defaults.items()}
        self._others = {name: value for name, value in configured.items() if name not in defaults}
        self._own = {*defaults, "seed"} - {*configured}
        limit = next((newer for newer in RENAMED.values() if newer in configured), "max_tokens")
        self._limit = f"{key}.{limit}"

    async def complete(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        way: Way,
        variation: int = 0,
    ) -> tuple[Any, TokenUsage | None]:
        """See `Judge`; raises `Rewritten` if the server refuses the `way` of writing, which has
        changed.
        """
        title = schema["title"]
        self._update(way, title)
        body = _body(LADDER[way.place], messages, schema) | self._parameters(way, variation)
        response = await self._post("/chat/completions", body, way, title)
        try:
            value, usage, way.is_repaired = await _in_thread(read_completion, response, self._limit)
        except JudgeError as error:
            in_prose = error.kind == "invalid_reply" and error.reply and "{" not in error.reply
            place = LADDER.index("json_object")
            if not in_prose or way.place >= place or (title, way.place) in self._proven:
                raise
            way.place, way.is_guess, way.reasons["format"] = place, True, error.message
            raise _again(error) from None  # Perhaps the server ignores the format.
        if isinstance(value, dict) and value.keys() - schema["properties"].keys():
            way.is_repaired = True
        self._accepted(way, title)
        return value, usage

    async def embed(
        self, texts: Sequence[str], *, way: Way
    ) -> tuple[list[list[float]], TokenUsage | None]:
        """See `Judge`, and for `way`, `complete`."""
        self._update(way)
        response = await self._post(
            "/embeddings", {"input": [*texts], **self._parameters(way)}, way
        )
        self._accepted(way)
        return await _in_thread(read_embeddings, response)  # type: ignore[no-any-return]

    def written(self, way: Way, schema: Mapping[str, Any] | None) -> list[str]:
        """Return in what other way than by default a request is written, but for what holds for
        it alone.
        """
        self._update(way, "" if schema is None else schema["title"])
        names = [
            f"{name} as {sent}" for name, sent in sorted(way.names.items()) if name in self._names
        ]
        return [*names, *([LADDER[way.place]] if way.place else [])]

    def _update(self, way: Way, title: str = "") -> None:
        """Apply all that is known by now; `title` is that of the schema, empty for embeddings."""
        way.names |= self._names
        if (place := self._places.get(title, 0)) > way.place:
            way.place, way.is_guess = place, False

    def _parameters(self, way: Way, variation: int = 0) -> dict[str, Any]:
        """Return the parameters of a request. A configured seed is the first of several."""
        varied = {"seed": variation, "temperature": VARIED_TEMPERATURE} if variation else {}
        values = self._defaults | {
            name: value for name, value in varied.items() if name in self._own
        }
        sent = {way.names.get(name, name): value for name, value in values.items()}
        body = {name: value for name, value in sent.items() if name is not None} | self._others
        if type(body.get("seed")) is int and "seed" not in self._own:
            body["seed"] += variation
        return body

    async def _post(
        self, method: str, body: Mapping[str, Any], way: Way, title: str = ""
    ) -> Response:
        """Return a successful response. Errors do not chain the client's, whose request holds
        the key.
        """
        try:
            data = orjson.dumps(body)
        except TypeError as error:
            text = self._scrub(f"the request cannot be encoded: {error}")
            raise JudgeError("invalid_request", text) from None
        try:
            found = await self._client.post(self._path[method], data, way)
            response = Response(*found, self._scrub).unmasked
        except self._client.errors as error:
            raise self._no_reply(error) from None
        if response.is_success:
            return response
        failure = response.failure(self._key, self.where)
        name = self._refused(response, body, way)
        if self._step_down(response, name, body, way, title):
            raise _again(failure)
        if name is not None:
            text = f"{failure.message}; change or remove {self._key}.{name}"
            failure = JudgeError(failure.kind, text, final=failure.final)
        raise failure

    def _no_reply(self, error: Exception) -> JudgeError:
        """Return the error for a failed connection; the client's is more general than its cause."""
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        kind: Failure = "timeout" if isinstance(cause, TimeoutError) else "unavailable"
        text = self._scrub(f"{self._address}: {type(cause).__name__}: {cause}")
        return (JudgeError if isinstance(error, self._client.unsent) else ConnectionLost)(
            kind, text
        )

    def _step_down(
        self, response: Response, name: str | None, body: Mapping[str, Any], way: Way, title: str
    ) -> bool:
        """Change the way so that the server may accept it; return whether it changed."""
        if response.is_too_long:
            name = way.names.get("max_tokens", "max_tokens")
            if "max_tokens" not in self._own or name not in body:
                return False
            way.names["max_tokens"] = None  # In this request only, so there is no reason.
            return True
        if name is not None:
            other = RENAMED.get(way.names.get(name, name) or "")
            if other is None and name not in self._own:
                return False
            way.names[name], way.reasons[name] = other, response.text
            return True
        is_named = response.refuses_format
        if not title or way.place + 1 == len(LADDER) or is_named is False:
            return False
        if not is_named and (title, way.place) in self._proven:
            return False
        if response.status == 500 and not is_named and not way.is_guess:
            way.errors += 1
            if way.errors == 1:  # It may be an accident.
                return False
        way.place += 1
        way.is_guess = way.is_guess or not is_named
        way.reasons["format"] = response.text
        return True

    def _refused(self, response: Response, body: Mapping[str, Any], way: Way) -> str | None:
        """Return the name of the parameter that the server refuses, if it is about one."""
        if response.status not in {400, 404, 422} or response.is_too_long:
            return None
        for name in sorted(self._own | {*self._defaults}):
            sent = way.names.get(name, name)
            if (
                sent is not None
                and sent in body
                and (response.mentions(sent) or response.mentions(name))
            ):
                return name
        for name in sorted(self._others.keys() - {"model"}):
            older = [other for other, newer in RENAMED.items() if newer == name]
            if any(response.mentions(each, anywhere=False) for each in (name, *older)):
                return name
        return None

    def _accepted(self, way: Way, title: str = "") -> None:
        """Keep what the server accepted for all requests, and warn of it once."""
        for name, sent in way.names.items():
            if name in way.reasons and self._names.get(name, name) != sent:
                self._names[name] = sent
                does = "is left out" if sent is None else f"is sent as {sent}"
                self._warn(f"{name} {does} ({way.reasons[name]})")
        place = way.place
        if place > self._places.get(title, 0):
            # One refusal may be an accident if it is unclear, or if a better format was accepted
            # before.
            if way.is_guess or any((title, better) in self._proven for better in range(place)):
                self._guessed[title, place] += 1
                if self._guessed[title, place] < CONFIRMATIONS:
                    return
            self._places[title] = place
            asked = f"replies of the form {title} are requested as {FORMATS[LADDER[place]]}"
            self._warn(f"{asked} ({way.reasons.get('format', '')})")
        self._proven.add((title, place))

    def _warn(self, text: str) -> None:
        warn(f"judge {self.where}: {text}", GraphragEvalWarning, stacklevel=2)


def _again(error: JudgeError) -> Rewritten:
    return Rewritten(error.kind, error.message, reply=error.reply, usage=error.usage)


def _body(kind: str, messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a request that asks for a reply that fits a schema, in one of
    `FORMATS`.
    """
    title = schema["title"]
    if kind in {"json_schema", "json_schema_loose"}:
        described = (
            {"name": title}
            | ({"strict": True} if kind == "json_schema" else {})
            | {"schema": schema}
        )
        return {
            "messages": messages,
            "response_format": {"type": "json_schema", "json_schema": described},
        }
    if kind == "tool_call":
        return {
            "messages": messages,
            "tools": [{"type": "function", "function": {"name": title, "parameters": schema}}],
            "tool_choice": {"type": "function", "function": {"name": title}},
        }
    # The layout joins an existing message: not every model knows system messages, or two of them.
    text = f"Reply with a JSON object that fits this JSON Schema:\n{orjson.dumps(schema).decode()}"
    first, *others = messages
    parts = (text, first["content"]) if first["role"] == "system" else (first["content"], text)
    wanted = {"response_format": {"type": "json_object"}} if kind == "json_object" else {}
    return {"messages": [{**first, "content": "\n\n".join(parts)}, *others], **wanted}


async def _in_thread(read: Callable[..., Any], response: Response, *more: Any) -> Any:
    """Read a response, in a thread if it is large."""
    if len(response.body) > LARGE:
        return await asyncio.to_thread(read, response, *more)
    return read(response, *more)
