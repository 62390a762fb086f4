"""Turns the failures of requests by the package openai into `JudgeError`.

Error statuses and codes: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from socket import gaierror
from ssl import SSLError
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import orjson

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.fields import all_fields, get_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openai

    from graphrag_eval_async.errors import Failure
    from graphrag_eval_async.judge.scrubber import Scrubber
    from graphrag_eval_async.judge.setting_names import SettingNames

RETRIED = frozenset({"timeout", "rate_limited", "unavailable"})
"""Kinds of failures after which a request is sent again."""

BAD_GATEWAY = 502
"""The status of an error in a reply with a status of success that does not tell its own."""

MODERATION_CODES = frozenset({"content_filter", "content_policy_violation"})
"""Codes of errors by which a provider's moderation refuses a request."""

NO_QUOTA_CODES = re.compile(
    "insufficient_(quota|balance)|quota_exceeded|billing_(hard_limit_reached|not_active)"
    "|account_deactivated"
)
"""Codes of errors of an account without quota or money."""

NO_MODEL_CODE = "model_not_found"
TOO_LONG_CODES = frozenset(
    {"context_length_exceeded", "string_above_max_length", "request_too_large"}
)
TOO_LONG_WORDS = re.compile(
    r"context.(length|window|size)|prompt is too long|too many (input )?tokens", re.IGNORECASE
)
FORMAT_WORDS = re.compile(
    r"response_?format|json_?schema|json_?object|structured.?output|tool|function|grammar"
    r"|requested.parameters",
    re.IGNORECASE,
)
"""Words of an error about the format of replies, by the servers that we know."""

WORDS_BY_STATUS = {
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

QUOTE_OR_NOUN = (
    r"(?:[\"'`]|(?:[Pp]arameter|[Aa]rgument|[Ff]ield|[Oo]ption|[Kk]ey)s?(?: supplied)?:? )"
)
"""The words before the name of a parameter in messages about that parameter."""

KIND_BY_STATUS: Mapping[int, Failure] = {408: "timeout", 409: "unavailable", 429: "rate_limited"}

UNCONNECTED = frozenset({"ConnectError", "ProxyError", "ClientConnectorError"})
"""Classes of the SDK's transports for connections that were not made: of httpx, and of aiohttp."""

OTHER_LOOP_WORDS = re.compile("Event loop is closed|attached to a different loop")
"""Words of asyncio's errors about a connection that was opened in another event loop."""

CLOSED_CLIENT_WORDS = "client has been closed"
"""Words of the transport's error about a client that is closed."""


class DialectChanged(JudgeError):  # noqa: N818
    """The server refused the format or a parameter of a request, which the judge has changed since.

    The request may succeed if it is written anew and sent again. It does not count as a failed
    attempt.
    """


class ConnectionLost(JudgeError):  # noqa: N818
    """The connection was lost while the server answered a request, which may be billed."""


class Denied(JudgeError):  # noqa: N818
    """The server refuses the key or does not know the model.

    This may concern a single request or all requests.
    """


class ServerError(NamedTuple):
    """An error that a server replied with."""

    status: int
    details: Mapping[str, Any]
    """The JSON object that describes the error; empty if the reply has no such object."""
    body: str
    headers: Mapping[str, str]

    @classmethod
    def of_exception(cls, error: openai.APIStatusError) -> ServerError:
        """Return the server's error that an exception of the SDK describes."""
        # The SDK has decoded the body. If the body has an object `error`, the SDK keeps only that
        # object. Each pattern that matches sets `details`.
        match error.body:
            case [{"error": {} as details}, *_] | {"error": {} as details}:
                # Gemini sends a list of one object, which the SDK keeps as it is.
                pass
            case [{} as details, *_] | ({} as details):
                # The object describes the error itself.
                pass
            case _:
                details = {}
        return cls(error.status_code, details, error.response.text, error.response.headers)

    @classmethod
    def in_reply(cls, reply: Any) -> ServerError | None:
        """Return the error in a reply with status 200; None if the reply is not an error.

        The status of the result is guessed from the code and the type of the error.
        """
        choices = get_field(reply, "choices")
        if choices and isinstance(choices, list):
            # Some routers put the error into the first choice.
            error = get_field(choices[0], "error")
            if not isinstance(error, Mapping):
                return None
        elif get_field(reply, "data"):
            # The reply holds embeddings.
            return None
        elif get_field(reply, "object") == "error":
            error = all_fields(reply)
        else:
            error = get_field(reply, "error")
            if not error or not isinstance(error, Mapping | str):
                return None

        body = orjson.dumps(error, default=str).decode(errors="replace")
        if isinstance(error, str):
            return cls(BAD_GATEWAY, {}, body, {})
        return cls(_guess_status(error), error, body, {})

    @property
    def codes(self) -> frozenset[str]:
        """The `code` and `type` of the error."""
        values = (self.details.get("code"), self.details.get("type"))
        return frozenset(value for value in values if isinstance(value, str))

    @property
    def message(self) -> str:
        """The message of the error; if the error has no message, the whole body."""
        message = self.details.get("message")
        if isinstance(message, str):
            return message
        return self.body

    @property
    def moderation_reasons(self) -> str:
        """The reasons why OpenRouter's moderation refused the input, in parentheses.

        "" if the error has no such reasons.
        """
        match self.details:
            case {"metadata": {"reasons": [_, *_] as reasons}}:
                return f" ({', '.join(map(str, reasons))})"
        return ""

    @property
    def text(self) -> str:
        """The error in words, in which secrets are not hidden yet."""
        if self.status < 400:
            place = self.headers.get("location", "nowhere")
            return f"HTTP {self.status}: redirected to {place}"
        return f"HTTP {self.status}: {self.message}{self.moderation_reasons}"

    @property
    def has_no_quota(self) -> bool:
        """Whether the account has used up its quota or its money."""
        if self.status >= 500:
            return False
        if self.status == 402:
            return True
        return any(NO_QUOTA_CODES.fullmatch(code) for code in self.codes)

    @property
    def is_moderated(self) -> bool:
        """Whether moderation refused the request."""
        if self.status == 403 and self.moderation_reasons != "":
            return True
        return not self.codes.isdisjoint(MODERATION_CODES)

    @property
    def is_about_model(self) -> bool:
        """Whether the server does not know the model, or serves nothing at the address."""
        if self.status == 404:
            return True
        return self.status < 500 and NO_MODEL_CODE in self.codes

    @property
    def is_too_long(self) -> bool:
        """Whether the server refuses a request for its length."""
        if self.status not in {400, 413, 422}:
            return False
        if not self.codes.isdisjoint(TOO_LONG_CODES):
            return True
        return TOO_LONG_WORDS.search(self.body) is not None

    @property
    def has_other_cause(self) -> bool:
        """Whether moderation, the name of the model or the quota caused the error.

        Then the format of replies did not.
        """
        return self.is_moderated or NO_MODEL_CODE in self.codes or self.has_no_quota

    @property
    def names_format(self) -> bool:
        """Whether the error says that the server refuses the requested format of replies."""
        # Some servers answer 501 (not implemented) to a format that they do not support.
        is_about_request = 400 <= self.status <= 501 and self.status not in ACCOUNT_STATUSES
        if not is_about_request or self.has_other_cause:
            return False
        text = f"{self.message} {self.details.get('param')}"
        return FORMAT_WORDS.search(text) is not None

    @property
    def may_refuse_format(self) -> bool:
        """Whether the server may have refused the format of replies, without saying so."""
        return self.status in UNCLEAR_STATUSES and not self.has_other_cause

    @property
    def may_name_parameter(self) -> bool:
        """Whether the error may be about a parameter, judging by the status."""
        return self.status in {400, 404, 422} and not self.is_too_long

    def mentions(self, parameter: str) -> bool:
        """Return whether the error names a parameter: in its field `param`, or as a whole word."""
        if self.details.get("param") == parameter:
            return True
        return re.search(rf"(?<!\w){re.escape(parameter)}(?!\w)", self.message) is not None

    def is_about_parameter(self, parameter: str) -> bool:
        """Return whether the error is about a parameter, whose name may be an everyday word.

        An everyday word such as "stop" counts only in quotes or after a noun such as "parameter". A
        name with an underscore counts anywhere in the message.
        """
        if "_" in parameter or self.details.get("param") == parameter:
            return self.mentions(parameter)
        pattern = rf"{QUOTE_OR_NOUN}{re.escape(parameter)}(?!\w)"
        return re.search(pattern, self.message) is not None

    def failure(self, names: SettingNames, where: str, scrub: Scrubber) -> JudgeError:
        """Return this error as a `JudgeError`, with advice on the settings to check.

        Args:
            names: the names of the model's settings, for the advice.
            where: the name of the model and the address of its server, for the message.
            scrub: hides secrets in the server's text.
        """
        text = scrub(self.text)
        # Errors that concern this request alone.
        if self.is_moderated:
            return JudgeError("refused", text)

        # Errors that concern the account or the model, and so perhaps all requests.
        if self.has_no_quota:
            advice = "check the quota and billing of the account"
            return JudgeUnavailable(f"{where}: {text}; {advice}")
        if self.is_about_model:
            advice = f"check {names.model} and {names.base_url}"
            return Denied("invalid_request", f"{where}: {text}; {advice}", final=True)
        if self.status in {401, 403}:
            advice = f"check {names.api_key} and its permissions"
            return Denied("invalid_request", f"{where}: {text}; {advice}", final=True)

        # Errors that may not happen again in another attempt, and all others.
        kind: Failure
        if self.status in KIND_BY_STATUS:
            kind = KIND_BY_STATUS[self.status]
        elif self.status >= 500:
            kind = "unavailable"
        else:
            kind = "invalid_request"
        pause = None
        if kind in RETRIED:
            pause = retry_after(self.headers)
        return JudgeError(kind, text, retry_after=pause)


def connection_failure(
    error: openai.APIConnectionError, address: str, scrub: Scrubber
) -> JudgeError:
    """Return the error for a request that got no response, with the text of its first cause.

    The text of the SDK's own exception may mislead: over aiohttp, the SDK calls a refused
    connection a timeout.

    Args:
        error: the SDK's exception.
        address: the address of the server.
        scrub: hides secrets in the message.
    """
    causes = [*_chain_of(error)]
    for cause in causes:
        # Our client raises this if a reply is too long. Older versions of the SDK wrap it.
        if isinstance(cause, JudgeError):
            return cause

    # Each exception is the cause of the one before, so the first cause comes last.
    first_cause = causes[-1]
    if isinstance(first_cause, RuntimeError):
        client_failure = unusable_client_failure(first_cause)
        if client_failure is not None:
            return client_failure

    name = type(first_cause).__name__
    # Some exceptions have no text.
    text = scrub(f"{address}: {name}: {first_cause}".removesuffix(": "))
    kind: Failure = "unavailable"
    if isinstance(first_cause, TimeoutError) or name.endswith("Timeout"):
        kind = "timeout"
    if _was_not_connected(causes):
        proxy_variable = _proxy_variable(address)
        if proxy_variable is not None:
            text += f" (the environment has a proxy in {proxy_variable})"
        return JudgeError(kind, text)
    return ConnectionLost(kind, text)


def unusable_client_failure(error: RuntimeError) -> JudgeUnavailable | None:
    """Return the error for a client that can send nothing; None if `error` is about something else.

    The client is closed, or its connections belong to another event loop.
    """
    if CLOSED_CLIENT_WORDS in str(error):
        return JudgeUnavailable("the client is closed: close it after the last result")
    if OTHER_LOOP_WORDS.search(str(error)):
        return JudgeUnavailable(
            "the client has been used in another event loop: make a new client for each run, or "
            "await all runs in one event loop"
        )
    return None


def _proxy_variable(address: str) -> str | None:
    """Return the variable of the environment with the proxy for an address; None if there is none.

    The SDK's clients take a proxy from there by default.
    """
    url = urlsplit(address)
    if proxy_bypass(url.netloc):
        # NO_PROXY has the host.
        return None
    for name in (f"{url.scheme}_proxy", "all_proxy"):
        for variable in (name.upper(), name):
            if os.environ.get(variable):
                return variable
    return None


def _chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on; the first cause comes last."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def _was_not_connected(causes: list[BaseException]) -> bool:
    """Return whether no connection to the server was made, so that nothing is billed.

    Args:
        causes: the error of the request and its causes, the first cause last.
    """
    if isinstance(causes[-1], ConnectionRefusedError | gaierror | SSLError):
        return True
    # These classes are of packages that may not be installed, so that they are known by name.
    for cause in causes:
        for base in type(cause).__mro__:
            if base.__name__ in UNCONNECTED:
                return True
    return False


def _guess_status(error: Mapping[str, Any]) -> int:
    """Return the HTTP status that would fit an error which a server sent with status 200.

    The status comes from a field of the error, or else from words in the error's code and type. If
    neither gives a status, the result is 502 (bad gateway).
    """
    for name in ("code", "status", "status_code"):
        with suppress(KeyError, ValueError, TypeError):
            status = int(error[name])
            if 400 <= status < 600:
                return status

    code_and_type = f"{error.get('code')} {error.get('type')}"
    for status, words in WORDS_BY_STATUS.items():
        if re.search(words, code_and_type):
            return status
    return BAD_GATEWAY


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait, in seconds; None if no header says so.

    The header ``Retry-After`` holds seconds or a date, see
    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after. OpenAI and Azure also send
    ``retry-after-ms``, which is more exact and so is read first.
    """
    header = headers.get("retry-after", "")
    milliseconds = headers.get("retry-after-ms", "")
    for number, seconds_per_unit in ((milliseconds, 0.001), (header, 1.0)):
        with suppress(ValueError):
            seconds = float(number) * seconds_per_unit
            if isfinite(seconds):
                return max(0.0, seconds)

    with suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(header)
        if date.tzinfo is None:
            # HTTP dates are in UTC.
            date = date.replace(tzinfo=UTC)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    return None
