"""How tests read a stream to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

Item = TypeVar("Item")


async def collect(stream: AsyncIterable[Item]) -> list[Item]:
    """Return all that a stream gives."""
    return [item async for item in stream]
