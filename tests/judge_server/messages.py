"""What the server reads and what it does about it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    query: str
    head: bytes
    raw: bytes
    body: Any
    number: int
    attempt: int
    time: float

    @property
    def headers(self) -> dict[str, str]:
        """By name in lower case."""
        pairs = (line.partition(":") for line in self.head.decode("latin-1").split("\r\n")[1:])
        return {name.lower(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole HTTP response, whatever it says."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    usage: tuple[int, int] | None = None
    latency: float | None = None

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        return (
            f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Unknown')}\r\n{more}"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(self.body)}\r\n\r\n"
        ).encode("latin-1")


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset before any byte of a reply."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """The connection is reset after half of the body that was promised."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Never:
    """No reply ever comes."""


@dataclass(frozen=True, slots=True)
class Drip:
    """The body comes byte by byte, one each `interval` seconds."""

    reply: Reply
    interval: float = 1.0


@dataclass(frozen=True, slots=True)
class Once:
    """The reply comes once a condition is true, or after `WAIT_SECONDS`: it is for the test to check it."""

    reply: Reply
    condition: Callable[[], bool]


Fault: TypeAlias = Reset | CutOff | Never | Drip | Once
