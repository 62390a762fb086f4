"""The address of limits that several workers share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphrag_eval_async.redis_client import redis_address

if TYPE_CHECKING:
    from graphrag_eval_async.redis_client import RedisAddress

SHAPE = "redis://HOST[:PORT]/[DB/][NAME][?run=RUN]"

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def shared_address(text: str) -> RedisAddress:
    """Read an address; its name is that of the limits, and its option `run` that of the budget.

    Raises:
        ValueError: it has another shape; the message says how it should be and tells no secret.
    """
    address = redis_address(text, SHAPE, ["run"])
    names = [*filter(None, [address.name]), *address.options.values()]
    if not all(NAME.fullmatch(name) for name in names):
        raise ValueError(f"expected {SHAPE}; names have 1 to 64 letters, digits, _, . and -")
    return address
