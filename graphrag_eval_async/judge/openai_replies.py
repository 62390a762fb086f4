"""Reads responses of OpenAI-compatible servers: replies, vectors and failures.

Formats: https://platform.openai.com/docs/api-reference/chat/object and .../embeddings/object. Error statuses
and codes: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import orjson
from msgspec import DecodeError, Struct, json

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.protocol import MAX_VALUES, check_size
from graphrag_eval_async.judge.retry import RETRIED
from graphrag_eval_async.records.decoding import InvalidRecord, decode
from graphrag_eval_async.records.pieces import count_values
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphrag_eval_async.errors import Failure

MAX_TEXT = 300
"""Maximum characters quoted from a server's text."""

MAX_SCRUBBED = 1 << 16
"""Maximum characters of a server's text that are searched for secrets before it is quoted."""

EXCERPT = 100
"""Maximum characters quoted from an unreadable body."""

MAX_BODY_VALUES = 100_000
"""Maximum number of values in a body: besides the reply, servers send data such as log probabilities."""

MAX_NUMBERS = 500_000
"""Maximum count of numbers in a reply with embeddings: the vectors of more than 100 texts."""

MIN_CHARACTERS = 16
"""Minimum length of secrets that are hidden in a model's output."""

FILTERED = frozenset({"content_filter", "content_policy_violation"})
NO_QUOTA = frozenset(
    [
        "insufficient_quota",
        "quota_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
        "account_deactivated",
        "insufficient_balance",
    ]
)
NO_MODEL = frozenset({"model_not_found"})
STATUS_WORDS = {
    429: "rate_limit|quota|too_many",
    401: "authentication|invalid_api_key|unauthorized",
    403: "permission|forbidden",
    404: "model_not_found|not_found",
    400: "invalid_request|bad_request|context_length|content_filter|content_policy",
}
"""Words in the code or type of an error, by the status that it should have had."""

REASONED = re.compile(r"</(?:think|thinking|thought|reasoning)>")
"""The end of the reasoning before a reply."""

REASONING = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")
"""The start of it."""

AFTER = r"(?:[\"'`]|(?:[Pp]arameter|[Aa]rgument|[Ff]ield|[Oo]ption|[Kk]ey)s?(?: supplied)?:? )"
"""What the name of a parameter follows, in messages about one."""

MAX_BRACES = 20
"""Maximum opening braces at which an object is looked for in the text of a reply."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, unless it has the same key twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("ambiguous: an object has the same key twice")
    return found


DECODER = JSONDecoder(object_pairs_hook=_unique)

FAILURE_BY_STATUS: Mapping[int, Failure] = {408: "timeout", 409: "unavailable", 429: "rate_limited"}


class Target(NamedTuple):
    """The destination of a request.

    Attributes:
        key: the model's key in the configuration.
        model: the model's name.
        base_url: the server's base URL, without credentials.
    """

    key: str
    model: str
    base_url: str


class Scrubber:
    """Prepares texts from servers for display: hides secrets, joins lines, truncates."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Longest first: replacing a prefix of a secret would leave the rest visible.
        self._secrets = sorted({*secrets} - {""}, key=len, reverse=True)

    def content(self, text: str) -> str:
        """Hide only long secrets in a model's output: short ones may occur by chance."""
        return self._hide(text, MIN_CHARACTERS)

    def __call__(self, text: str, limit: int = MAX_TEXT) -> str:
        shown = self._hide(text[:MAX_SCRUBBED])
        if len(text) > MAX_SCRUBBED and self._secrets:  # The cut may have split a secret.
            shown = shown[: -len(self._secrets[0])]
        shown = " ".join(shown.split())
        return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."

    def _hide(self, text: str, min_characters: int = 0) -> str:
        for secret in self._secrets:
            if len(secret) >= min_characters:
                text = text.replace(secret, "***")
        return text


class Response(NamedTuple):
    """An HTTP response, and the scrubber that hides secrets in messages about it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    scrub: Scrubber = Scrubber(())

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def json(self) -> Any:
        """The decoded body; None if it is not JSON or has too many values."""
        if count_values(self.body) > (MAX_BODY_VALUES if self.is_success else MAX_VALUES):
            return None
        try:
            return decode(self.body)
        except InvalidRecord:
            return None

    @property
    def details(self) -> Any:
        """The object that describes the error, wherever a server puts it; empty if there is none."""
        match self.json:
            case {"error": {} as inner} | [{"error": {} as inner}, *_]:
                return inner
            case ({} as found) | [{} as found, *_]:
                return found
        return {}

    @property
    def codes(self) -> frozenset[str]:
        """The `code` and `type` of the error."""
        details = self.details
        return frozenset(value for name in ("code", "type") if isinstance(value := details.get(name), str))

    @property
    def excerpt(self) -> str:
        """The beginning of the body, scrubbed for display."""
        return self.scrub(self.body.decode(errors="replace"), EXCERPT)

    def mentions(self, parameter: str, *, anywhere: bool = True) -> bool:
        """Whether the error is about a parameter of the request.

        Unless `anywhere`, a name that may be a word of the message, such as "stop", counts only in quotes or
        after a word such as "parameter".
        """
        details = self.details
        if details.get("param") == parameter:
            return True
        message = details.get("message")
        text = message if isinstance(message, str) else self.body.decode(errors="replace")
        start = r"(?<!\w)" if anywhere or "_" in parameter else AFTER
        return re.search(rf"{start}{re.escape(parameter)}(?!\w)", text) is not None

    @property
    def unmasked(self) -> Response:
        """This response, or if it is an error sent with a success status, that error with its own status."""
        if not self.is_success or b'"error"' not in self.body:
            return self
        match self.json:
            case {"choices": [{"error": {} as error, "message": _}, *_]}:
                return Response(_status_of(error), self.headers, json.encode({"error": error}), self.scrub)
            case {"choices": [_, *_]} | {"data": [_, *_]}:
                return self
            case {"error": {} | str() as error} if error:
                return self._replace(status=_status_of(error))
            case {"object": "error"} as error:
                return self._replace(status=_status_of(error))
        return self


def _status_of(error: Any) -> int:
    """Return the HTTP status that an error in a body stands for; 502 if it does not say."""
    if isinstance(error, dict):
        for name in ("code", "status", "status_code"):
            with suppress(KeyError, ValueError, TypeError):
                if 400 <= (status := int(error[name])) < 600:
                    return status
        words = " ".join(str(error.get(name)) for name in ("code", "type"))
        for status, pattern in STATUS_WORDS.items():
            if re.search(pattern, words):
                return status
    return 502


def text_of(response: Response) -> str:
    """Return what a response without success status says."""
    message = response.details.get("message")
    if response.status < 400:
        message = f"redirected to {response.headers.get('location', 'nowhere')}"
    elif not isinstance(message, str):
        message = response.body.decode(errors="replace")
    return response.scrub(f"HTTP {response.status}: {message}")


def failure_of(response: Response, target: Target) -> JudgeError:
    """Return the error for a response without success status."""
    status, codes, text = response.status, response.codes, text_of(response)
    if codes & FILTERED:
        return JudgeError("refused", text)
    if (advice := _advice(status, codes, target.key)) is not None:
        where = response.scrub(f"{target.model} at {target.base_url}")
        return JudgeUnavailable(f"{where}: {text}; check {advice}")
    kind = FAILURE_BY_STATUS.get(status, "invalid_request" if status < 500 else "unavailable")
    return JudgeError(kind, text, retry_after=retry_after(response.headers) if kind in RETRIED else None)


def _advice(status: int, codes: frozenset[str], key: str) -> str | None:
    """Return what the user should check if all further requests would fail, else None."""
    if status >= 500:
        return None
    if status == 402 or codes & NO_QUOTA:
        return "the quota and billing of the account"
    if codes & NO_MODEL or status == 404:
        return f"{key}.model and {key}.base_url"
    return f"{key}.api_key and its permissions" if status in {401, 403} else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the server asks for, in seconds; None if it gives no usable value.

    ``Retry-After`` holds seconds or a date: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after; OpenAI
    and Azure also send ``retry-after-ms``.
    """
    value = headers.get("retry-after", "")
    for text, unit in [(headers.get("retry-after-ms", ""), 0.001), (value, 1.0)]:
        with suppress(ValueError):
            seconds = float(text) * unit
            if isfinite(seconds):
                return max(0.0, seconds)
    with suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(value)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return None


class Embedding(Struct):
    """One vector; its numbers are finite, since JSON has only finite numbers."""

    embedding: list[float]
    index: int | None = None


class Embeddings(Struct):
    """Vectors, in any order."""

    data: list[Embedding]
    usage: Any = None


def read_completion(response: Response, limit: str = "llm.generation.max_tokens") -> Completion:
    """Return the JSON value in a chat completion; `limit` is the key of the limit on its tokens.

    Raises:
        JudgeError: the completion holds no JSON value.
    """
    fields = _object(response)
    usage = _usage(fields.get("usage"))
    match fields.get("choices"):
        case [{"message": {} as message} as choice, *_]:
            pass
        case _:
            raise JudgeError("invalid_reply", f"no choices: {response.excerpt}", reply="", usage=usage)
    content, is_repaired = _content(message)
    reason = choice.get("finish_reason")
    text = None if content is None else response.scrub.content(content)
    if (refusal := message.get("refusal")) or reason == "content_filter":
        problem = response.scrub(str(refusal or "by the content filter"))
        raise JudgeError("refused", problem, reply=text, usage=usage)
    if reason == "length":
        problem = f"the reply was cut off; raise {limit}"
        raise JudgeError("invalid_reply", problem, reply=text, usage=usage, final=True)
    if text is None:
        raise JudgeError("invalid_reply", "the reply has no text content", reply="", usage=usage)
    try:
        check_size(text.encode())
        value, is_extracted = json_of(text)
    except InvalidRecord as error:
        problem = f"the content is not JSON: {error}"
    except ValueError as error:
        problem = str(error)
    else:
        return Completion(value, usage, is_repaired or is_extracted)
    raise JudgeError("invalid_reply", problem, reply=text, usage=usage)


class Completion(NamedTuple):
    """A reply: its JSON value, the tokens used, and whether the value had to be extracted from other text."""

    value: Any
    usage: TokenUsage | None
    is_repaired: bool


def _content(message: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return the text of a message, and whether it was in parts. The arguments of a tool call are a text."""
    match message:
        case {"tool_calls": [{"function": {"arguments": str(text)}}]}:
            return text, False
        case {"tool_calls": [{"function": {"arguments": {} as value}}]}:
            return orjson.dumps(value).decode(), False
        case {"content": str(text)}:
            return text, False
        case {"content": [_, *_] as parts}:
            texts = [
                part["text"]
                for part in parts
                if isinstance(part, dict) and part.get("type") in {"text", "output_text"}
                if isinstance(part.get("text"), str)
            ]
            return ("".join(texts) if texts else None), True
    return None, False


def json_of(text: str) -> tuple[Any, bool]:
    """Return the JSON value in the text of a reply, and whether other text had to be removed.

    Models put reasoning between ``<think>`` and ``</think>`` before an object, a Markdown fence around it, or
    sentences before and after it.

    Raises:
        InvalidRecord: the text holds no JSON value.
        ValueError: it holds several objects, or one with the same key twice; or only the reasoning.
    """
    try:
        value = decode(text.encode())
    except InvalidRecord as error:
        problem = error
    else:
        if text.count('"') != orjson.dumps(value).count(b'"'):  # A key is missing, or a quote was escaped.
            DECODER.decode(text)
        return value, False
    answer = REASONED.split(text)[-1]
    if REASONING.match(answer):
        raise ValueError("the reply ends in the middle of its reasoning")
    found = [*_objects(answer)]
    if len(found) > 1:
        raise ValueError(f"ambiguous: the reply has {len(found)} JSON objects")
    if not found:
        raise problem
    return found[0], True


def _objects(text: str) -> Iterator[Any]:
    """Yield the JSON objects in a text.

    Raises:
        ValueError: the text has too many braces to tell.
    """
    start, tries = text.find("{"), 0
    while start >= 0:
        tries += 1
        if tries > MAX_BRACES:
            raise ValueError(f"ambiguous: the reply has more than {MAX_BRACES} braces outside of objects")
        end = start + 1
        with suppress(JSONDecodeError, RecursionError):
            _, end = DECODER.raw_decode(text, start)
            with suppress(InvalidRecord):
                yield decode(text[start:end].encode())
        start = text.find("{", end)


def read_embeddings(response: Response) -> tuple[list[list[float]], TokenUsage | None]:
    """Return the vectors in the order of the texts, and the tokens used.

    Raises:
        JudgeError: there are no vectors, or their indexes do not match the texts.
    """
    arrays, numbers = response.body.count(b"[") + response.body.count(b"{"), response.body.count(b",")
    if arrays > MAX_VALUES or numbers > MAX_NUMBERS:
        problem = f"no embeddings: more than {MAX_VALUES} arrays and objects, or {MAX_NUMBERS} numbers"
        raise JudgeError("invalid_reply", problem, reply="")
    try:
        found = json.decode(response.body, type=Embeddings)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        usage = _usage(_object(response).get("usage"))
        raise JudgeError("invalid_reply", f"no embeddings: {error}", usage=usage) from None
    data = found.data
    if any(item.index is not None for item in data):
        data.sort(key=lambda item: -1 if item.index is None else item.index)
        if [item.index for item in data] != list(range(len(data))):
            problem = "the indexes of the embeddings do not match the texts"
            raise JudgeError("invalid_reply", problem, usage=_usage(found.usage))
    return [item.embedding for item in data], _usage(found.usage)


def _object(response: Response) -> dict[str, Any]:
    fields = response.json
    if fields is None and (count := count_values(response.body)) > MAX_BODY_VALUES:
        problem = f"the body has {count} values, more than {MAX_BODY_VALUES}"
        raise JudgeError("invalid_reply", f"{problem}: {response.excerpt}", reply="")
    if not isinstance(fields, dict):
        kind = response.scrub(response.headers.get("content-type", "")) or "no type"
        raise JudgeError("invalid_reply", f"not a JSON object ({kind}): {response.excerpt}")
    return fields


def _usage(usage: Any) -> TokenUsage | None:
    """Return the tokens used; None if the server gives no valid counts.

    Some servers leave reasoning out of the completion, but not out of the total.
    """
    match usage:
        case {"prompt_tokens": prompt}:
            completion = usage.get("completion_tokens") or 0
        case _:
            return None
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    if not _is_count(prompt) or not _is_count(completion):
        return None
    if reasoning and usage.get("total_tokens") == prompt + completion + reasoning:
        completion += reasoning
    return TokenUsage(prompt, completion, min(cached, prompt))


def _detail(usage: Mapping[str, Any], section: str, name: str) -> int:
    """Return a count in a section of the usage; 0 if there is none."""
    details = usage.get(section)
    count = details.get(name) if isinstance(details, dict) else None
    return count if _is_count(count) else 0


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**53
