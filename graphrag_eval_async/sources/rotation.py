"""Files that were followed under another name before, and copies of files that were truncated since."""

from __future__ import annotations

import os
from time import time
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.directory import GONE, rotated_from
from graphrag_eval_async.sources.identity import identify
from graphrag_eval_async.sources.tail import CLOSED, has

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from graphrag_eval_async.sources.listing import Listing
    from graphrag_eval_async.sources.opening import Opened
    from graphrag_eval_async.sources.registry import Registry
    from graphrag_eval_async.sources.tail import Tail


EMPTY_SECONDS = 10.0
"""For how long an empty file is looked at all the time: it does not say yet whether it is a copy."""


def former_names(path: str) -> list[str]:
    """Under which names a file may have been followed before it was rotated."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, former) for former in rotated_from(name)]


def find_originals(paths: Iterable[str], registry: Registry, known: Container[str]) -> list[str]:
    """Files to be met before others of these, which may be copies of them; `known` names are left out."""
    new = [path for path in paths if path not in known]
    copies = {path for path in new if _may_be_copy(path, registry)}
    if not copies:
        return []
    return [path for path in new if path not in copies and not registry.opener.is_excluded(path)]


def _may_be_copy(path: str, registry: Registry) -> bool:
    """Whether a file has the name of a rotated one, and is none that an earlier run has met."""
    try:
        return bool(former_names(path)) and not registry.recall.knows(identify(path).root)
    except OSError:
        return False


class Rotated(NamedTuple):
    """A rotated file that there is something to read of.

    Attributes:
        is_new: whether no earlier run has met it, as far as one can say without opening it.
        stamp: when it was written to last.
        path: of the file.
        name: by which it was followed before.
    """

    is_new: bool
    stamp: int
    path: str
    name: str


def find_rotated(
    listings: Iterable[Listing], registry: Registry, names: Container[str], now: float, *, at_once: bool
) -> list[Rotated]:
    """What is to be read of rotated files, oldest first, but those that an earlier run has met before all.

    `names` are those that are followed, and not looked for here.
    """
    found = []
    for listing in listings:
        for directory, path, name in listing.rotated(now, at_once=at_once):
            if path in names:
                continue
            try:
                status = registry.opener.status(path)
                if status is None:
                    continue
                if status.st_size:
                    found += _look_at(path, name, status, registry)
                elif time() < status.st_mtime + EMPTY_SECONDS:
                    directory.rotation.expect(now)
            except GONE:
                continue
            except OSError as error:
                registry.opener.tell(path, error)
    return sorted(found)


def _look_at(path: str, name: str, status: os.stat_result, registry: Registry) -> list[Rotated]:
    tail = registry.get(status)
    if tail is not None and tail.descriptor != CLOSED:
        return []
    identity = identify(path)
    if tail is not None and tail.identity == identity and (tail.finished or tail.offset == status.st_size):
        return []
    if registry.opener.is_excluded(path) or registry.opener.is_excluded(name):
        return []
    return [Rotated(not registry.recall.knows(identity.root), status.st_mtime_ns, path, name)]


def find_copy(listings: Iterable[Listing], registry: Registry, tail: Tail, now: float) -> Opened | None:
    """A file with all that was read of one that was truncated since, as some rotate their logs."""
    for listing in listings:
        for _, path, former in listing.rotated(now, at_once=True):
            opened = registry.opener.open(path) if tail.trace and former == tail.name else None
            if opened is None:
                continue
            met = registry.by_identity(opened.identity)
            if (met is None or met.finished or met.is_copy) and has(
                opened.descriptor, tail.trace, tail.trace_end
            ):
                return opened
            os.close(opened.descriptor)
    return None
