"""Files that repeat another one: a copy is passed over as long as all of it repeats."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphrag_eval_async.sources.checkpoints import Start
from graphrag_eval_async.sources.identity import has, line_start, repeated
from graphrag_eval_async.sources.lines import LOGGER
from graphrag_eval_async.sources.tail import CLOSED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphrag_eval_async.sources.checkpoints import Checkpoints
    from graphrag_eval_async.sources.identity import Opened
    from graphrag_eval_async.sources.tail import Tail


def find_original(tails: Iterable[Tail], opened: Opened, bases: Collection[str]) -> Tail | None:
    """The file of one of those names, made earlier than one that only repeats it."""
    descriptor, identity = opened
    for tail in tails:
        if tail.name not in bases or tail.identity.born > identity.born:
            continue
        if repeated(descriptor, tail.descriptor) is not None or (
            not tail.is_intact() and has(descriptor, tail.trace, tail.trace_end)  # Truncated just now.
        ):
            return tail.original or tail
    return None


def still_copy(
    tails: Iterable[Tail], opened: Opened, start: Start, checkpoints: Checkpoints
) -> tuple[Start, Tail | None]:
    """Where to read what was a copy for an earlier run, and its original if it still repeats that."""
    descriptor, identity = opened
    original = next((tail for tail in tails if tail.file.key == checkpoints.copies[identity.root]), None)
    if original is None or repeated(descriptor, original.descriptor) is not None:
        return start, original
    checkpoints.forget_copy(identity.root, start.key)
    return Start(start.key, 0, 1, passed_over=False), None


def is_replaced(tail: Tail, opened: Opened) -> bool:
    """Whether a file was deleted and has all of its content in another one, which has its name now."""
    if tail.descriptor == CLOSED or tail.original is not None:
        return False
    status = os.fstat(tail.descriptor)
    if status.st_nlink or not status.st_size or not tail.is_intact():
        return False
    return repeated(tail.descriptor, opened[0]) is not None


def pass_over(tail: Tail, original: Tail, checkpoints: Checkpoints) -> None:
    """Read nothing of a copy before it becomes different."""
    checkpoints.note_copy(tail.identity.root, original.file.key)
    tail.original, tail.offset = original, 0
    compare(tail, checkpoints)
    if tail.offset and tail.original is not None:
        LOGGER.warning(
            "%s: so far repeats %s; its first %d bytes are not evaluated again, unless it becomes different",
            *(tail.name, original.name, tail.offset),
        )


def compare(tail: Tail, checkpoints: Checkpoints) -> None:
    """Let a copy that has grown be read, unless it still repeats its original."""
    original = tail.original
    assert original is not None  # noqa: S101
    if original.descriptor == CLOSED:  # What was added cannot have been read.
        tail.original, tail.offset = None, line_start(tail.descriptor, tail.offset)
    elif (size := repeated(tail.descriptor, original.descriptor, tail.offset)) is not None:
        tail.offset = size
    elif original.is_intact():
        LOGGER.warning("%s: no longer repeats %s; it is read from its start", tail.name, original.name)
        checkpoints.forget_copy(tail.identity.root, tail.file.key)
        tail.original, tail.offset, tail.origin, tail.finished = None, 0, -1, False
    else:
        tail.suspect()  # It was truncated just now.
