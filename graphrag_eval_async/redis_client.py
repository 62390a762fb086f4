"""Addresses of Redis servers, and connections to them."""

from __future__ import annotations

import os
import re
import ssl
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from graphrag_eval_async.errors import UsageError, needs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SCHEMES = ("redis://", "rediss://")

TEMPORARY = ("BUSY ", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY")
"""Beginnings of temporary errors of the server."""


class RedisAddress(NamedTuple):
    """The parts of an address.

    Attributes:
        host: name or number of the host.
        port: its port.
        db: number of the database.
        name: the path after the database, decoded; may be empty.
        options: the query, after the question mark.
        username: for the server; empty for its default user.
        password: for the server; empty for none.
        is_encrypted: whether the connection uses TLS.
    """

    host: str
    port: int
    db: int
    name: str
    options: Mapping[str, str]
    username: str
    password: str
    is_encrypted: bool

    def __str__(self) -> str:
        """Without secrets and options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.is_encrypted else 'redis'}://{host}:{self.port}/{self.db}"

    def __repr__(self) -> str:
        return str(self)

    @property
    def server(self) -> tuple[str, int, int]:
        """The server and the database, without names and secrets."""
        return self.host, self.port, self.db


def redis_address(text: str, shape: str, options: Collection[str] = ()) -> RedisAddress:
    """Read an address; `shape` describes it for errors, and `options` are the names that its query may have.

    A user name or password that it lacks comes from the environment: REDIS_USERNAME and REDIS_PASSWORD. An
    address of another shape is a `ValueError`, without secrets.
    """
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
        given = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError:
        raise ValueError(f"expected {shape}, with a port from 1 to 65535") from None
    if f"{url.scheme}://" not in SCHEMES or not host or url.fragment or port == 0:
        raise ValueError(f"expected {shape}, or rediss:// for TLS")
    if unknown := given.keys() - {*options}:
        raise ValueError(f"expected {shape}; there is no option {min(unknown)!r}")
    path = url.path.removeprefix("/")
    db, _, name = path.partition("/")
    if not re.fullmatch("[0-9]{1,9}", db):
        db, name = "0", path
    return RedisAddress(
        host,
        6379 if port is None else port,
        int(db),
        unquote(name).removesuffix("/"),
        given,
        unquote(url.username or "") or os.environ.get("REDIS_USERNAME", ""),
        unquote(url.password or "") or os.environ.get("REDIS_PASSWORD", ""),
        url.scheme == "rediss",
    )


def is_redis(path: object) -> bool:
    """Whether a path is an address of a Redis server."""
    return isinstance(path, str) and path.startswith(SCHEMES)


def check_redis() -> None:
    """Raise a `UsageError` if the package redis is not installed, without importing it."""
    if find_spec("redis") is None:
        raise UsageError(f"redis {needs('redis')}")


def connect(address: RedisAddress, seconds: float) -> Any:
    """Return a client that connects on first use and never retries; an answer may take `seconds`.

    Call it in a thread: importing the package takes a while.
    """
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise UsageError(f"redis cannot be imported ({error}); it {needs('redis')}") from error
    return Redis(
        host=address.host,
        port=address.port,
        db=address.db,
        username=address.username or None,
        password=address.password or None,
        ssl=address.is_encrypted,
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
    )


def is_final(error: Exception) -> bool:
    """Whether another attempt would fail, too."""
    from redis import exceptions

    if isinstance(error.__cause__ or error.__context__, ssl.SSLCertVerificationError):
        return True
    refused = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.ResponseError)
    passing = (exceptions.ReadOnlyError, exceptions.OutOfMemoryError, exceptions.ClusterError)
    is_passing = isinstance(error, passing) and not isinstance(error, exceptions.ClusterCrossSlotError)
    return isinstance(error, refused) and not (is_passing or str(error).startswith(TEMPORARY))


def without_secrets(error: Exception, address: RedisAddress) -> str:
    """Return the message of an error."""
    text = str(error).rstrip(".") or type(error).__name__
    return text.replace(address.password, "***") if address.password else text
