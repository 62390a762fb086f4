"""What a failed request to an OpenAI-compatible server stands for.

The statuses and codes: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.records.decoding import InvalidRecord, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.errors import Failure

MAX_TEXT = 300
"""How many characters of a server's text are quoted."""

MIN_CHARACTERS = 16
"""Of a secret that is looked for in what a model wrote."""

FILTERED = frozenset({"content_filter", "content_policy_violation"})
NO_QUOTA = frozenset(
    {
        "insufficient_quota",
        "quota_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
        "account_deactivated",
        "insufficient_balance",
    }
)
NO_MODEL = frozenset({"model_not_found"})
SCHEMA_WORDS = (b"response_format", b"json_schema", b"structured output", b"structured_output")

KINDS: Mapping[int, Failure] = {408: "timeout", 409: "unavailable", 429: "rate_limited"}
RETRIED = frozenset({"timeout", "rate_limited", "unavailable"})


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
        self._long = [secret for secret in self._secrets if len(secret) >= MIN_CHARACTERS]

    def content(self, text: str) -> str:
        """What a model wrote, as it is but for secrets: only long ones, which nobody writes by chance."""
        return _hide(self._long, text)

    def __call__(self, text: str, limit: int = MAX_TEXT) -> str:
        text = " ".join(_hide(self._secrets, text).split())
        return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _hide(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


class Refusal(NamedTuple):
    """An HTTP response with a status that is no success."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def details(self) -> Mapping[str, Any]:
        """The object that says what is wrong, wherever a server puts it; empty if there is none."""
        try:
            found = decode(self.body)
        except InvalidRecord:
            return {}
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, dict):
            inner = found.get("error", found)
            return inner if isinstance(inner, dict) else found
        return {}

    @property
    def codes(self) -> frozenset[str]:
        """What the error calls itself."""
        details = self.details
        return frozenset(value for name in ("code", "type") if isinstance(value := details.get(name), str))

    @property
    def text(self) -> str:
        """What the server says."""
        if self.status < 400:
            return f"redirected to {self.headers.get('location', 'nowhere')}"
        message = self.details.get("message")
        return message if isinstance(message, str) else self.body.decode(errors="replace")

    @property
    def refuses_schemas(self) -> bool:
        """Whether the server does not know the strict mode of structured output, or not this schema."""
        text = self.body.lower()
        mentioned = any(word in text for word in SCHEMA_WORDS)
        return (
            self.status in {400, 422, 501} and mentioned and not self.codes & (FILTERED | NO_QUOTA | NO_MODEL)
        )


def failure_of(refusal: Refusal, target: Target, scrub: Scrubber) -> JudgeError:
    """The error of a response that is no success."""
    status, codes = refusal.status, refusal.codes
    text = scrub(f"HTTP {status}: {refusal.text}")
    if codes & FILTERED:
        return JudgeError("refused", text)
    if (advice := _advice(status, codes, target.key)) is not None:
        return JudgeUnavailable(f"{scrub(f'{target.model} at {target.base_url}')}: {text}; check {advice}")
    kind = KINDS.get(status, "invalid_request" if status < 500 else "unavailable")
    return JudgeError(kind, text, retry_after=retry_after(refusal.headers) if kind in RETRIED else None)


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
    """How long the server asks to wait, in seconds; None where it does not say, or not in a usable way.

    ``Retry-After`` holds seconds or a date: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after; OpenAI
    and Azure also send ``retry-after-ms``.
    """
    value = headers.get("retry-after", "")
    for seconds in (_number(headers.get("retry-after-ms", ""), 0.001), _number(value), _until(value)):
        if seconds is not None:
            return max(0.0, seconds)
    return None


def _number(text: str, unit: float = 1.0) -> float | None:
    try:
        value = float(text) * unit
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        return (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
