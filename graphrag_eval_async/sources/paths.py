"""The paths that callers give."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.removed import explain_removed, explain_removed_address
from graphrag_eval_async.sources.remote import shown, suffix_of

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
_UNREAD = {".csv": _TABLE, ".tsv": _TABLE, ".xlsx": _TABLE, ".yaml": _YAML, ".yml": _YAML}


def as_paths(path: Any, *, tables: bool = False) -> list[str]:
    """The given paths, one or several; with `tables`, they may be those of Parquet files."""
    several = [path] if isinstance(path, str | os.PathLike) else path
    try:
        paths = [os.fspath(each) for each in several]
    except TypeError:
        paths = []
    if not paths or not all(isinstance(each, str) and each for each in paths):
        raise UsageError(f"path: expected a path, or a list of paths, got {path!r}")
    for each in paths:
        if message := explain_removed_address(each):
            raise UsageError(message)
        if (why := _UNREAD.get(os.path.splitext(each)[1].lower())) and not os.path.isdir(each):
            raise UsageError(f"{each}: {why}")
    if not tables:
        check_no_parquet(paths)
    return paths


def check_no_parquet(paths: Iterable[str]) -> None:
    """Raise a `UsageError` if one of these is the path of a Parquet file."""
    for path in paths:
        if suffix_of(path) in PARQUET and not os.path.isdir(path):
            raise UsageError(f"{shown(path)}: {explain_removed('.parquet')}")


def fits(name: str, pattern: str) -> bool:
    """Whether a glob matches a name. Hidden files only match a pattern that begins with a dot."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def key_of(status: os.stat_result) -> str:
    """The `FileId.key` of a file that is read from its start."""
    return f"{status.st_ino:x}-0"
