"""Rotated files: files followed earlier under another name, and copies of files truncated since."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.sources.identity import GONE, has, identify
from graphrag_eval_async.sources.listing import GZIP, rotated_from
from graphrag_eval_async.sources.tail import CLOSED

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from graphrag_eval_async.sources.identity import Opened
    from graphrag_eval_async.sources.listing import Listing
    from graphrag_eval_async.sources.registry import Registry
    from graphrag_eval_async.sources.tail import Tail


def former_names(path: str) -> list[str]:
    """The paths by which a file may have been followed before it was rotated."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, former) for former in rotated_from(name)]


def may_be_copy(path: str, registry: Registry) -> bool:
    """Whether a file is named like a rotated one and is unknown to earlier runs."""
    try:
        return bool(former_names(path)) and not registry.checkpoints.knows(identify(path).root)
    except OSError:
        return False


def roots(listings: Iterable[Listing], now: float) -> set[str]:
    """The roots of all existing files, including rotated ones."""
    found: set[str] = set()
    for listing in listings:
        with suppress(OSError):  # Already logged.
            names = listing.names(now, at_once=True)
            for path in (*names, *(path for path, _ in listing.rotated(now, at_once=True))):
                with suppress(OSError):
                    found.add(identify(path).root)
    return found


def find_rotated(
    listings: Iterable[Listing], registry: Registry, names: Container[str], now: float, *, at_once: bool
) -> list[tuple[bool, int, str, str]]:
    """The rotated files to read, in order, except those of `names`, which are already followed.

    For each: whether it is unknown to earlier runs, its time of last write, its path, and its former name.
    """
    found: list[tuple[bool, int, str, str]] = []
    for listing in listings:
        for path, name in listing.rotated(now, at_once=at_once):
            try:
                status = None if path in names else registry.access.status(path)
                if status is not None and _is_unread(path, name, status, registry):
                    is_new = not registry.checkpoints.knows(identify(path).root)
                    found.append((is_new, status.st_mtime_ns, path, name))
            except GONE:
                continue
            except OSError as error:
                registry.access.tell(path, error)
    return sorted(found)


def find_packed(listings: Iterable[Listing], registry: Registry, now: float) -> list[tuple[str, str, str]]:
    """Roots, paths and former names of compressed files: known ones first, then the latest."""
    found: list[tuple[bool, int, str, str, str]] = []
    access, copies = registry.access, registry.checkpoints.copies
    for listing in listings:
        for path, name in listing.rotated(now, at_once=True, packed=True):
            is_half_made = os.path.exists(path.removesuffix(GZIP))
            if not (is_half_made or access.is_excluded(path) or access.is_excluded(name)):
                with suppress(OSError):  # Already logged.
                    root = identify(path).root
                    found.append((root not in copies, -os.stat(path).st_mtime_ns, root, path, name))
    return [(root, path, name) for _, _, root, path, name in sorted(found)]


def _is_unread(path: str, name: str, status: os.stat_result, registry: Registry) -> bool:
    tail = registry.get(status)
    if tail is not None and tail.descriptor != CLOSED:
        return False
    if tail is not None and tail.finished and tail.original is None and tail.identity == identify(path):
        return False
    return not (registry.access.is_excluded(path) or registry.access.is_excluded(name))


def find_copy(listings: Iterable[Listing], registry: Registry, tail: Tail, now: float) -> Opened | None:
    """A copy of a file that was truncated since; the copy has all that was read of the file."""
    if not tail.trace:
        return None
    for listing in listings:
        for path, former in listing.rotated(now, at_once=True):
            opened = registry.access.open_file(path) if former == tail.name else None
            if opened is None:
                continue
            descriptor, identity = opened
            met = registry.tails.get(identity.place)
            is_free = met is None or met.identity != identity or met.finished or met.original is not None
            with suppress(OSError):
                if is_free and has(descriptor, tail.trace, tail.trace_end):
                    return opened
            os.close(descriptor)
    return None
