"""Turns the failures of requests by the package openai into `JudgeError`.

Error statuses and codes: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from socket import gaierror
from ssl import SSLError
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.members import member, members

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openai

    from graphrag_eval_async.errors import Failure
    from graphrag_eval_async.judge.scrubber import Scrubber

RETRIED = frozenset({"timeout", "rate_limited", "unavailable"})
"""Kinds of failures after which a request is sent again."""

BAD_GATEWAY = 502
"""The status of an error in a reply with a status of success that does not tell its own."""

FILTERED = frozenset({"content_filter", "content_policy_violation"})
"""Codes of errors by which a provider's moderation refuses a request."""

NO_QUOTA = re.compile(
    "insufficient_(quota|balance)|quota_exceeded|billing_(hard_limit_reached|not_active)"
    "|account_deactivated"
)
NO_MODEL = "model_not_found"
TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length", "request_too_large"})
TOO_LONG_WORDS = re.compile(
    r"context.(length|window|size)|prompt is too long|too many (input )?tokens", re.IGNORECASE
)
FORMAT_WORDS = re.compile(
    r"response_?format|json_?schema|json_?object|structured.?output|tool|function|grammar"
    r"|requested.parameters",
    re.IGNORECASE,
)
"""Words of an error about the format of replies, by the servers that we know."""

STATUS_WORDS = {
    429: "rate_limit|quota|too_many",
    401: "authentication|invalid_api_key|unauthorized",
    403: "permission|forbidden",
    404: "model_not_found|not_found",
    400: "invalid_request|bad_request|context_length|content_filter|content_policy",
}
"""Words in the code or type of an error, by the status that it should have had."""

ACCOUNT_STATUSES = frozenset({401, 402, 403, 408, 429})
"""Statuses that are about the account or the load, whatever the request asks for."""

UNCLEAR_STATUSES = frozenset({400, 422, 501})
"""Statuses by which a server may refuse the format of replies without saying so."""

AFTER = r"(?:[\"'`]|(?:[Pp]arameter|[Aa]rgument|[Ff]ield|[Oo]ption|[Kk]ey)s?(?: supplied)?:? )"
"""What the name of a parameter follows, in messages about one."""

KIND_BY_STATUS: Mapping[int, Failure] = {408: "timeout", 409: "unavailable", 429: "rate_limited"}

UNSENT = frozenset({"ConnectError", "ProxyError", "ClientConnectorError"})
"""Classes of the SDK's transports for connections that were not made: of httpx, and of aiohttp."""


class DialectChanged(JudgeError):  # noqa: N818
    """The server refused how a request was written, and the judge now writes requests in another
    way: sent once more, it may succeed. It does not count as a failed attempt.
    """


class ConnectionLost(JudgeError):  # noqa: N818
    """A connection was closed while a request was answered, which may be billed."""


class Denied(JudgeError):  # noqa: N818
    """The server refuses the key or does not know the model, of all requests or of this one."""


class ServerError(NamedTuple):
    """An error that a server replied with."""

    status: int
    details: Mapping[str, Any]
    """The object that describes the error, wherever the server puts it; empty without one."""
    body: str
    headers: Mapping[str, str]

    @classmethod
    def of_exception(cls, error: openai.APIStatusError) -> ServerError:
        """Return the error in a response without a status of success."""
        # The SDK has decoded the body, and read the object `error` in it.
        match error.body:
            case [{"error": {} as details}, *_] | {"error": {} as details}:
                pass  # Gemini puts the error into a list.
            case [{} as details, *_] | ({} as details):
                pass
            case _:
                details = {}
        return cls(error.status_code, details, error.response.text, error.response.headers)

    @classmethod
    def in_reply(cls, reply: Any) -> ServerError | None:
        """Return the error in a reply with a status of success, with its own status; None without
        an error.
        """
        choices = member(reply, "choices")
        if choices and isinstance(choices, list):
            error = member(choices[0], "error")
            if not isinstance(error, Mapping):
                return None
        elif member(reply, "data"):
            return None
        elif member(reply, "object") == "error":
            error = members(reply)
        else:
            error = member(reply, "error")
            if not error or not isinstance(error, Mapping | str):
                return None
        details: Mapping[str, Any] = {}
        if isinstance(error, Mapping):
            details = error
        body = orjson.dumps(error, default=str).decode(errors="replace")
        return cls(_status_of(error), details, body, {})

    @property
    def codes(self) -> frozenset[str]:
        """The `code` and `type` of the error."""
        values = (self.details.get("code"), self.details.get("type"))
        return frozenset(value for value in values if isinstance(value, str))

    @property
    def message(self) -> str:
        """The message of the error; if there is none, the body."""
        message = self.details.get("message")
        return message if isinstance(message, str) else self.body

    @property
    def moderation_reasons(self) -> str:
        """Why moderation refused the input, as OpenRouter says it; "" if it did not."""
        match self.details:
            case {"metadata": {"reasons": [_, *_] as reasons}}:
                return f" ({', '.join(map(str, reasons))})"
        return ""

    @property
    def text(self) -> str:
        """What happened, in words, not yet scrubbed."""
        if self.status < 400:
            place = self.headers.get("location", "nowhere")
            return f"HTTP {self.status}: redirected to {place}"
        return f"HTTP {self.status}: {self.message}{self.moderation_reasons}"

    @property
    def has_no_quota(self) -> bool:
        """Whether the account has no quota, or no money, left."""
        if self.status >= 500:
            return False
        return self.status == 402 or any(NO_QUOTA.fullmatch(code) for code in self.codes)

    @property
    def is_filtered(self) -> bool:
        """Whether moderation refused the request."""
        is_moderated = self.status == 403 and self.moderation_reasons != ""
        return is_moderated or not self.codes.isdisjoint(FILTERED)

    @property
    def is_about_model(self) -> bool:
        """Whether the server does not know the model, or nothing at its address."""
        return self.status == 404 or (self.status < 500 and NO_MODEL in self.codes)

    @property
    def is_too_long(self) -> bool:
        """Whether the server refuses a request for its length."""
        if self.status not in {400, 413, 422}:
            return False
        return bool(self.codes & TOO_LONG) or TOO_LONG_WORDS.search(self.body) is not None

    @property
    def names_format(self) -> bool:
        """Whether the server says that it refuses the format of replies."""
        can_refuse = 400 <= self.status <= 501 and self.status not in ACCOUNT_STATUSES
        if not can_refuse or self.is_filtered or NO_MODEL in self.codes or self.has_no_quota:
            return False
        words = f"{self.message} {self.details.get('param')}"
        return FORMAT_WORDS.search(words) is not None

    @property
    def may_refuse_format(self) -> bool:
        """Whether the server may refuse the format of replies, without saying so."""
        if self.is_filtered or NO_MODEL in self.codes or self.has_no_quota:
            return False
        return self.status in UNCLEAR_STATUSES

    @property
    def may_name_parameter(self) -> bool:
        """Whether the error may be about a parameter."""
        return self.status in {400, 404, 422} and not self.is_too_long

    def mentions(self, parameter: str, *, anywhere: bool = True) -> bool:
        """Whether the error is about a parameter; unless `anywhere`, a plain word must follow
        `AFTER`.
        """
        if self.details.get("param") == parameter:
            return True
        before = r"(?<!\w)" if anywhere or "_" in parameter else AFTER
        return re.search(rf"{before}{re.escape(parameter)}(?!\w)", self.message) is not None

    def failure(self, section: str, where: str, scrub: Scrubber) -> JudgeError:
        """Return this error as a `JudgeError`.

        Args:
            section: where the model is configured, such as "llm.generation".
            where: the model and its server, as messages name them.
            scrub: hides the secrets in what the server says.
        """
        text = scrub(self.text)
        if self.is_filtered:
            return JudgeError("refused", text)
        if self.has_no_quota:
            advice = "check the quota and billing of the account"
            return JudgeUnavailable(f"{where}: {text}; {advice}")
        if self.is_about_model:
            advice = f"check {section}.model and {section}.base_url"
            return Denied("invalid_request", f"{where}: {text}; {advice}", final=True)
        if self.status in {401, 403}:
            advice = f"check {section}.api_key and its permissions"
            return Denied("invalid_request", f"{where}: {text}; {advice}", final=True)
        default: Failure = "invalid_request" if self.status < 500 else "unavailable"
        kind = KIND_BY_STATUS.get(self.status, default)
        pause = retry_after(self.headers) if kind in RETRIED else None
        return JudgeError(kind, text, retry_after=pause)


def connection_failure(error: openai.APIConnectionError, address: str) -> JudgeError:
    """Return the error for a request without a response, worded by its first cause.

    Over aiohttp, the SDK calls a refused connection a timeout.
    """
    chain = [*_causes(error)]
    cause = chain[-1]
    name = type(cause).__name__
    text = f"{address}: {name}: {cause}".removesuffix(": ")
    is_timeout = isinstance(cause, TimeoutError) or name.endswith("Timeout")
    kind: Failure = "timeout" if is_timeout else "unavailable"
    if _is_unsent(chain):
        return JudgeError(kind, text)
    return ConnectionLost(kind, text)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, and so on to the first cause."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def _is_unsent(chain: list[BaseException]) -> bool:
    """Whether an error with these causes prevented a connection, so that nothing is billed."""
    if isinstance(chain[-1], ConnectionRefusedError | gaierror | SSLError):
        return True
    names = {base.__name__ for link in chain for base in type(link).__mro__}
    return not UNSENT.isdisjoint(names)


def _status_of(error: Mapping[str, Any] | str) -> int:
    """Return the HTTP status that an error in a body stands for."""
    if isinstance(error, str):
        return BAD_GATEWAY
    for name in ("code", "status", "status_code"):
        with suppress(KeyError, ValueError, TypeError):
            status = int(error[name])
            if 400 <= status < 600:
                return status
    words = f"{error.get('code')} {error.get('type')}"
    for status, pattern in STATUS_WORDS.items():
        if re.search(pattern, words):
            return status
    return BAD_GATEWAY


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the server asks for, in seconds; None if it gives no usable value.

    ``Retry-After`` holds seconds or a date:
    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after; OpenAI and Azure also send
    ``retry-after-ms``.
    """
    text = headers.get("retry-after", "")
    for number, unit in [(headers.get("retry-after-ms", ""), 0.001), (text, 1.0)]:
        with suppress(ValueError):
            seconds = float(number) * unit
            if isfinite(seconds):
                return max(0.0, seconds)
    with suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(text)
        date = date.replace(tzinfo=date.tzinfo or UTC)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    return None
