"""What the responses of an OpenAI-compatible server stand for: a reply, vectors, or a failure.

The formats: https://platform.openai.com/docs/api-reference/chat/object and .../embeddings/object; the
statuses and codes of errors: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import DecodeError, Struct, json

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.protocol import MAX_VALUES, check_size
from graphrag_eval_async.judge.retry import RETRIED
from graphrag_eval_async.records.decoding import InvalidRecord, decode
from graphrag_eval_async.records.pieces import count_values
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.errors import Failure

MAX_TEXT = 300
"""How many characters of a server's text are quoted."""

MAX_SCRUBBED = 1 << 16
"""How many characters of a server's text are looked at to quote its beginning."""

EXCERPT = 100
"""How many characters of a body that cannot be read are quoted."""

MAX_BODY_VALUES = 100_000
"""How many values a body may hold: besides the reply, servers send what led to it, such as probabilities."""

MAX_NUMBERS = 500_000
"""Of a reply with embeddings: the vectors of more than 100 texts."""

MIN_CHARACTERS = 16
"""Of a secret that is looked for in what a model wrote."""

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
SCHEMA_WORDS = (b"response_format", b"json_schema", b"structured output", b"structured_output")

KINDS: Mapping[int, Failure] = {408: "timeout", 409: "unavailable", 429: "rate_limited"}


class Target(NamedTuple):
    """What a request is sent to.

    Attributes:
        key: of the model in the configuration.
        model: its name.
        base_url: of the server, without credentials.
    """

    key: str
    model: str
    base_url: str


class Scrubber:
    """Makes texts of servers fit to be shown: without secrets, on one line, not too long."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # A secret that begins with another would otherwise leave its end behind.
        self._secrets = sorted({*secrets} - {""}, key=len, reverse=True)

    def content(self, text: str) -> str:
        """What a model wrote, as it is but for secrets: only long ones, which nobody writes by chance."""
        return self._hide(text, MIN_CHARACTERS)

    def __call__(self, text: str, limit: int = MAX_TEXT) -> str:
        shown = self._hide(text[:MAX_SCRUBBED])
        if len(text) > MAX_SCRUBBED and self._secrets:  # The beginning of one may stand at the end.
            shown = shown[: -len(self._secrets[0])]
        shown = " ".join(shown.split())
        return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."

    def _hide(self, text: str, min_characters: int = 0) -> str:
        for secret in self._secrets:
            if len(secret) >= min_characters:
                text = text.replace(secret, "***")
        return text


class Response(NamedTuple):
    """An HTTP response, and what hides secrets in what is told of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    scrub: Scrubber = Scrubber(())

    @property
    def is_success(self) -> bool:
        """Whether the status says that the request succeeded."""
        return 200 <= self.status < 300

    @property
    def json(self) -> Any:
        """The decoded body; None if it is no JSON, or holds too many values."""
        if count_values(self.body) > (MAX_BODY_VALUES if self.is_success else MAX_VALUES):
            return None
        try:
            return decode(self.body)
        except InvalidRecord:
            return None

    @property
    def details(self) -> Any:
        """The object that says what is wrong, wherever a server puts it; empty if there is none."""
        match self.json:
            case {"error": {} as inner} | [{"error": {} as inner}, *_]:
                return inner
            case ({} as found) | [{} as found, *_]:
                return found
        return {}

    @property
    def codes(self) -> frozenset[str]:
        """What the error calls itself."""
        details = self.details
        return frozenset(value for name in ("code", "type") if isinstance(value := details.get(name), str))

    @property
    def excerpt(self) -> str:
        """The beginning of the body, fit to be shown."""
        return self.scrub(self.body.decode(errors="replace"), EXCERPT)

    @property
    def refuses_schemas(self) -> bool:
        """Whether the server does not know the strict mode of structured output, or not this schema."""
        text = self.body.lower()
        mentioned = any(word in text for word in SCHEMA_WORDS)
        return (
            self.status in {400, 422, 501} and mentioned and not self.codes & (FILTERED | NO_QUOTA | NO_MODEL)
        )


def failure_of(response: Response, target: Target) -> JudgeError:
    """The error of a response that is no success."""
    status, codes = response.status, response.codes
    message = response.details.get("message")
    if status < 400:
        message = f"redirected to {response.headers.get('location', 'nowhere')}"
    elif not isinstance(message, str):
        message = response.body.decode(errors="replace")
    text = response.scrub(f"HTTP {status}: {message}")
    if codes & FILTERED:
        return JudgeError("refused", text)
    if (advice := _advice(status, codes, target.key)) is not None:
        where = response.scrub(f"{target.model} at {target.base_url}")
        return JudgeUnavailable(f"{where}: {text}; check {advice}")
    kind = KINDS.get(status, "invalid_request" if status < 500 else "unavailable")
    return JudgeError(kind, text, retry_after=retry_after(response.headers) if kind in RETRIED else None)


def _advice(status: int, codes: frozenset[str], key: str) -> str | None:
    """What to check, if no other request can succeed."""
    if status >= 500:
        return None
    if status == 402 or codes & NO_QUOTA:
        return "the quota and the billing of the account"
    if codes & NO_MODEL or status == 404:
        return f"{key}.model and {key}.base_url"
    return f"{key}.api_key and what it may use" if status in {401, 403} else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait, in seconds; None where it does not say so in a usable way.

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
    """One vector; its numbers are finite, since JSON has no others."""

    embedding: list[float]
    index: int | None = None


class Embeddings(Struct):
    """Vectors, in any order."""

    data: list[Embedding]
    usage: Any = None


def read_completion(response: Response) -> tuple[Any, TokenUsage | None]:
    """The JSON value that a chat completion holds, and the tokens it used.

    Raises:
        JudgeError: there is none.
    """
    fields = _object(response)
    usage = _usage(fields.get("usage"))
    match fields.get("choices"):
        case [{"message": {} as message} as choice, *_]:
            pass
        case _:
            raise JudgeError("invalid_reply", f"no choices: {response.excerpt}", reply="", usage=usage)
    content, reason = message.get("content"), choice.get("finish_reason")
    text = response.scrub.content(content) if isinstance(content, str) else None
    if (refusal := message.get("refusal")) or reason == "content_filter":
        problem = response.scrub(str(refusal or "by the content filter"))
        raise JudgeError("refused", problem, reply=text, usage=usage)
    if reason == "length":
        problem = "the reply was cut off; raise llm.generation.max_tokens"
        raise JudgeError("invalid_reply", problem, reply=text, usage=usage, final=True)
    if text is None:
        raise JudgeError("invalid_reply", "the reply has no text content", reply="", usage=usage)
    data = text.encode()
    try:
        check_size(data)
        return decode(data), usage
    except InvalidRecord as error:
        problem = f"the content is not JSON: {error}"
    except ValueError as error:
        problem = str(error)
    raise JudgeError("invalid_reply", problem, reply=text, usage=usage)


def read_embeddings(response: Response) -> tuple[list[list[float]], TokenUsage | None]:
    """The vectors of texts, in their order, and the tokens used.

    Raises:
        JudgeError: there are none, or it is not clear which is of which text.
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
            problem = "the indexes of the embeddings are not those of the texts"
            raise JudgeError("invalid_reply", problem, usage=_usage(found.usage))
    return [item.embedding for item in data], _usage(found.usage)


def _object(response: Response) -> dict[str, Any]:
    fields = response.json
    if fields is None and (count := count_values(response.body)) > MAX_BODY_VALUES:
        problem = f"the body holds {count} values, more than {MAX_BODY_VALUES}"
        raise JudgeError("invalid_reply", f"{problem}: {response.excerpt}", reply="")
    if not isinstance(fields, dict):
        kind = response.scrub(response.headers.get("content-type", "")) or "no type"
        raise JudgeError("invalid_reply", f"no JSON object ({kind}): {response.excerpt}")
    return fields


def _usage(usage: Any) -> TokenUsage | None:
    """The tokens used; None if the server does not say, or says nonsense."""
    if not isinstance(usage, dict):
        return None
    counts = [usage.get("prompt_tokens"), usage.get("completion_tokens") or 0]
    usable = [count for count in counts if type(count) is int and 0 <= count < 2**53]
    return TokenUsage(*usable) if usable == counts else None
