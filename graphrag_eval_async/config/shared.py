"""The address of limits that several workers share."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

SHAPE = "redis://HOST[:PORT]/[DB/][NAME][?run=RUN]"

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class SharedAddress(NamedTuple):
    """A Redis server, and names of the limits there.

    Attributes:
        host: name or number of the host.
        port: its port.
        db: number of the database.
        name: of the limits; empty for one that is made from them.
        run: name of the budget; empty for that of the limits.
        username: for the server; empty for its default user.
        password: for the server; empty for none.
        is_encrypted: whether the connection uses TLS.
    """

    host: str
    port: int
    db: int
    name: str
    run: str
    username: str
    password: str
    is_encrypted: bool

    def __str__(self) -> str:
        """Without secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.is_encrypted else 'redis'}://{host}:{self.port}/{self.db}"

    def __repr__(self) -> str:
        return str(self)


def shared_address(text: str) -> SharedAddress:
    """Read an address; a password that it lacks is that of the environment variable REDIS_PASSWORD.

    Raises:
        ValueError: it has another shape; the message says how it should be and tells no secret.
    """
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError:
        raise ValueError(f"expected {SHAPE}, with a port from 1 to 65535") from None
    if url.scheme not in {"redis", "rediss"} or not host or url.fragment or port == 0:
        raise ValueError(f"expected {SHAPE}, or rediss:// for TLS")
    parts = [part for part in url.path.split("/") if part]
    db = int(parts.pop(0)) if parts and re.fullmatch("[0-9]{1,9}", parts[0]) else 0
    run = options.pop("run", None)
    names = [*parts, *([] if run is None else [run])]
    if len(parts) > 1 or options or not all(NAME.fullmatch(name) for name in names):
        raise ValueError(f"expected {SHAPE}; names have 1 to 64 letters, digits, _, . and -")
    return SharedAddress(
        host,
        6379 if port is None else port,
        db,
        parts[0] if parts else "",
        run or "",
        unquote(url.username or ""),
        unquote(url.password or "") or os.environ.get("REDIS_PASSWORD", ""),
        url.scheme == "rediss",
    )
