"""Checks the paths of files that callers pass."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.removed import explain_removed, explain_removed_address
from graphrag_eval_async.sources.remote import suffix_of, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMBERS = "*.jsonl"
"""Pattern of the files of a directory that are read."""

PARQUET = (".parquet", ".pq")
"""Suffixes of Parquet files, which may hold results."""

_TABLE = (
    "a table of texts cannot hold steps, so it is not read; write JSON lines (.jsonl), in pandas "
    "by "
    'frame.to_json("FILE.jsonl", orient="records", lines=True)'
)
_YAML = "YAML is not read here; if it is the reference set, give it first, then the responses"
_WHY_UNREAD = {".csv": _TABLE, ".tsv": _TABLE, ".xlsx": _TABLE, ".yaml": _YAML, ".yml": _YAML}
"""Why files with these suffixes are not read, and what to do."""


def as_paths(path: Any, *, tables: bool = False) -> list[str]:
    """Return a list of paths for one path or several, after checking them.

    Args:
        path: a path, or an iterable of paths.
        tables: whether Parquet files are accepted.

    Raises:
        UsageError: `path` is neither, or names a file of a kind that cannot be read.
    """
    candidates = [path] if isinstance(path, str | os.PathLike) else path
    try:
        paths = [os.fspath(candidate) for candidate in candidates]
    except TypeError:
        # `path` cannot be iterated over, or something in it is no path.
        paths = []
    are_all_text = all(isinstance(name, str) and name for name in paths)
    if not paths or not are_all_text:
        raise UsageError(f"path: expected a path, or a list of paths, got {path!r}")

    for name in paths:
        _check_kind(name)
    if not tables:
        check_no_parquet(paths)
    return paths


def _check_kind(path: str) -> None:
    """Check that files with this suffix, or addresses of this kind, can be read.

    Raises:
        UsageError: they cannot; the message says what to do instead.
    """
    why_removed = explain_removed_address(path)
    if why_removed:
        raise UsageError(why_removed)

    suffix = os.path.splitext(path)[1].lower()
    if suffix in _WHY_UNREAD and not os.path.isdir(path):
        raise UsageError(f"{path}: {_WHY_UNREAD[suffix]}")


def check_no_parquet(paths: Iterable[str]) -> None:
    """Raise a `UsageError` if one of `paths` is that of a Parquet file."""
    for path in paths:
        if suffix_of(path) in PARQUET and not os.path.isdir(path):
            raise UsageError(f"{without_secrets(path)}: {explain_removed('.parquet')}")


def fits(name: str, pattern: str) -> bool:
    """Return whether a glob matches the name of a file.

    Hidden files, which begin with a dot, only match a pattern that begins with a dot.
    """
    is_hidden = name.startswith(".")
    if is_hidden and not pattern.startswith("."):
        return False
    return fnmatchcase(name, pattern)


def key_of(status: os.stat_result) -> str:
    """Return the `FileId.key` of a file that is read once: its inode number in hex, and 0.

    A followed file gets a higher number than 0 after it was truncated.
    """
    return f"{status.st_ino:x}-0"
