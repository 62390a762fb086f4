"""Responses of OpenAI-compatible servers, and what those without success say.

Error statuses and codes: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import json

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.protocol import MAX_VALUES
from graphrag_eval_async.records.decoding import InvalidRecord, count_values, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.errors import Failure

RETRIED = frozenset({"timeout", "rate_limited", "unavailable"})
"""Kinds of failures after which a request is sent again."""

# Maximum characters quoted from a server's text, and from an unreadable body.
MAX_TEXT, EXCERPT = (
    300,
    100,
)

MAX_SCRUBBED = 1 << 16
"""Maximum characters of a server's text that are searched for secrets before it is quoted."""

MAX_BODY_VALUES = 100_000
"""Maximum number of values in a body: besides the reply, servers send data such as log
probabilities.
"""

MIN_SECRET_CHARACTERS = 4  # Shorter texts are no secrets, and occur in every message.
SPECIAL = re.compile(r"\\+|[^A-Za-z0-9]")  # Parts of a secret that a server may escape.
# How forms, and JSON after a backslash, write these.
LETTERS = {
    " ": "+",
    "\n": "n",
    "\r": "r",
    "\t": "t",
}

FILTERED = frozenset({"content_filter", "content_policy_violation"})
NO_QUOTA = re.compile(
    "insufficient_(quota|balance)|quota_exceeded|billing_(hard_limit_reached|not_active)|account_deactivated"
)
NO_MODEL = "model_not_found"
TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length", "request_too_large"})
TOO_LONG_WORDS = re.compile(
    rb"context.(length|window|size)|prompt is too long|too many (input )?tokens"
)
FORMAT_WORDS = re.compile(
    rb"response_format|json_schema|json_object|structured.?output|tool|function|requested.parameters"
)
STATUS_WORDS = {
    429: "rate_limit|quota|too_many",
    401: "authentication|invalid_api_key|unauthorized",
    403: "permission|forbidden",
    404: "model_not_found|not_found",
    400: "invalid_request|bad_request|context_length|content_filter|content_policy",
}
"""Words in the code or type of an error, by the status that it should have had."""

AFTER = r"(?:[\"'`]|(?:[Pp]arameter|[Aa]rgument|[Ff]ield|[Oo]ption|[Kk]ey)s?(?: supplied)?:? )"
"""What the name of a parameter follows, in messages about one."""

FAILURE_BY_STATUS: Mapping[int, Failure] = {408: "timeout", 409: "unavailable", 429: "rate_limited"}


class Denied(JudgeError):  # noqa: N818
    """The server refuses the key or does not know the model, of all requests or of this one."""


class Scrubber:
    """Prepares texts from servers for display: hides secrets, also escaped ones, joins lines,
    truncates.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        # Longest first: replacing a prefix of a secret would leave the rest visible.
        self._secrets = [
            (
                len(secret),
                max(SPECIAL.split(secret), key=len),
                re.compile(SPECIAL.sub(_spelled, secret)),
            )
            for secret in sorted({*secrets}, key=len, reverse=True)
            if len(secret) >= MIN_SECRET_CHARACTERS
        ]

    def __call__(self, text: str, limit: int = MAX_TEXT) -> str:
        shown = self.hide(text[:MAX_SCRUBBED])
        if len(text) > MAX_SCRUBBED and self._secrets:  # The cut may have split a secret.
            shown = shown[: -12 * self._secrets[0][0]]  # Maximum length of an escaped character.
        shown = " ".join(shown.split())
        return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."

    def hide(self, text: str, min_characters: int = 0) -> str:
        for length, plain, pattern in self._secrets:
            if length >= min_characters and plain in text:  # As plain characters are never escaped.
                text = pattern.sub("***", text)
        return text


def _spelled(found: re.Match[str]) -> str:
    """A pattern of a character, or of backslashes, as it is and as it may be escaped, once or
    twice.
    """
    text, number = found[0], ord(found[0][0])
    octets = re.sub("..", r"%(?:25)?\g<0>", text.encode(errors="surrogatepass").hex())
    units = re.sub("....", r"\\\\{0,3}+u\g<0>", text.encode("utf-16-be", "surrogatepass").hex())
    entity = rf"(?:&(?:amp;)?(?:#0*{number}|#x0*{number:x}|[a-z]\w*);){{{len(text)}}}"
    same = (
        r"\\{1,64}+" if number == 92 else rf"\\{{0,3}}+[{re.escape(text + LETTERS.get(text, ''))}]"
    )
    return f"(?i:{octets}|{units}|{entity}|{same})"


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
        with suppress(InvalidRecord):
            return decode(self.body)
        return None

    @property
    def details(self) -> Any:
        """The object that describes the error, wherever a server puts it; empty if there is
        none.
        """
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
        return frozenset(
            value for name in ("code", "type") if isinstance(value := details.get(name), str)
        )

    @property
    def reasons(self) -> str:
        """Why a provider's moderation refused the input, as OpenRouter says it; "" if it did
        not.
        """
        match self.details:
            case {"metadata": {"reasons": [_, *_] as reasons}}:
                return f" ({', '.join(map(str, reasons))})"
        return ""

    @property
    def excerpt(self) -> str:
        """The beginning of the body, scrubbed for display."""
        return self.scrub(self.body.decode(errors="replace"), EXCERPT)

    @property
    def message(self) -> str:
        """The message of the error; if there is none, the body."""
        message = self.details.get("message")
        return message if isinstance(message, str) else self.body.decode(errors="replace")

    @property
    def text(self) -> str:
        """What a response without success status says."""
        is_error, place = self.status >= 400, self.headers.get("location", "nowhere")
        message = self.message if is_error else f"redirected to {place}"
        return self.scrub(f"HTTP {self.status}: {message}{self.reasons}")

    @property
    def has_no_quota(self) -> bool:
        """Whether the account has no quota, or no money, left."""
        return self.status < 500 and (
            self.status == 402 or any(map(NO_QUOTA.fullmatch, self.codes))
        )

    @property
    def refuses_format(self) -> bool | None:
        """Whether the server refuses the format of a reply; None if it may, without saying so."""
        if self.codes & FILTERED or NO_MODEL in self.codes or self.has_no_quota:
            return False
        if (400 <= self.status < 500 or self.status in {500, 501}) and FORMAT_WORDS.search(
            self.body.lower()
        ):
            return True
        return None if self.status in {400, 422, 500, 501} else False

    @property
    def is_too_long(self) -> bool:
        """Whether the server refuses a request for its length."""
        is_refusal = self.status in {400, 413, 422}
        return is_refusal and bool(
            self.codes & TOO_LONG or TOO_LONG_WORDS.search(self.body.lower())
        )

    def mentions(self, parameter: str, *, anywhere: bool = True) -> bool:
        """Whether the error is about a parameter; unless `anywhere`, a plain word must follow
        `AFTER`.
        """
        start = r"(?<!\w)" if anywhere or "_" in parameter else AFTER
        is_named = re.search(rf"{start}{re.escape(parameter)}(?!\w)", self.message) is not None
        return is_named or self.details.get("param") == parameter

    @property
    def unmasked(self) -> Response:
        """This response, or if it is an error sent with a success status, that error with its
        own status.
        """
        if not self.is_success or b'"error"' not in self.body:
            return self
        match self.json:
            case {"choices": [{"error": {} as error, "message": _}, *_]}:
                return Response(
                    _status_of(error), self.headers, json.encode({"error": error}), self.scrub
                )
            case {"choices": [_, *_]} | {"data": [_, *_]}:
                return self
            case {"error": {} | str() as error} if error:
                return self._replace(status=_status_of(error))
            case {"object": "error"} as error:
                return self._replace(status=_status_of(error))
        return self

    def failure(self, key: str, where: str) -> JudgeError:
        """Return the error for a response without success status of the model configured at
        `key`.
        """
        status, text = self.status, self.text
        if self.codes & FILTERED or (status == 403 and self.reasons):
            return JudgeError("refused", text)
        if self.has_no_quota:
            return JudgeUnavailable(f"{where}: {text}; check the quota and billing of the account")
        is_unknown = status == 404 or (status < 500 and NO_MODEL in self.codes)
        if is_unknown or status in {401, 403}:
            advice = (
                f"{key}.model and {key}.base_url"
                if is_unknown
                else f"{key}.api_key and its permissions"
            )
            return Denied("invalid_request", f"{where}: {text}; check {advice}", final=True)
        kind = FAILURE_BY_STATUS.get(status, "invalid_request" if status < 500 else "unavailable")
        return JudgeError(
            kind, text, retry_after=retry_after(self.headers) if kind in RETRIED else None
        )


def _status_of(error: Any) -> int:
    """Return the HTTP status that an error in a body stands for; 502 if it does not say."""
    if not isinstance(error, dict):
        return 502
    for name in ("code", "status", "status_code"):
        with suppress(KeyError, ValueError, TypeError):
            if 400 <= (status := int(error[name])) < 600:
                return status
    words = " ".join(str(error.get(name)) for name in ("code", "type"))
    return next(
        (status for status, pattern in STATUS_WORDS.items() if re.search(pattern, words)), 502
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the server asks for, in seconds; None if it gives no usable value.

    ``Retry-After`` holds seconds or a date:
    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after; OpenAI and Azure also send
    ``retry-after-ms``.
    """
    value = headers.get("retry-after", "")
    for text, unit in [(headers.get("retry-after-ms", ""), 0.001), (value, 1.0)]:
        with suppress(ValueError):
            seconds = float(text) * unit
            if isfinite(seconds):
                return max(0.0, seconds)
    with suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(value)
        return max(
            0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        )
    return None
