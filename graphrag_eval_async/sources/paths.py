"""The paths that callers give, the files that they stand for, and the names of rotated files."""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress
from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEMBERS = "*.jsonl"
"""Pattern of the files of a directory that are read."""

GZIP = ".gz"

COMPRESSED = (GZIP, ".bz2", ".xz", ".zst")
"""Suffixes of compressed files, which are finished."""

GONE = (FileNotFoundError, NotADirectoryError)
"""Errors that mean that no file has a name."""

GLOB_SECONDS = 1.0
"""Seconds between expansions of a glob over several directories."""

SETTLING_SECONDS = 2.0
"""Resolution of time stamps in seconds: a second change within it may not alter the time stamp."""

RELISTING_SECONDS = 10.0
"""Seconds between listings of an unchanged directory, since some file systems keep its time stamp."""

_TABLE = (
    "a table of texts cannot hold steps, so it is not read; write JSON lines (.jsonl) or Parquet, in pandas "
    'by frame.to_json("FILE.jsonl", orient="records", lines=True)'
)
_YAML = "YAML is not read here; if it is the reference set, give it first, then the responses"
_UNREAD = {".csv": _TABLE, ".tsv": _TABLE, ".xlsx": _TABLE, ".yaml": _YAML, ".yml": _YAML}

_NUMBER = r"\d[\dTZ_.:-]*"
_DATE = r"\d{4}-?\d\d-?\d\d[\dTZ_.:-]*"
_TAG = rf"(?:\.(?:{_NUMBER}|old|bak|prev|rotated)|-{_DATE})"
_AT_THE_END = re.compile(rf"(.+?){_TAG}")
_BEFORE_THE_SUFFIX = re.compile(rf"(.+?){_TAG}(\.[A-Za-z]\w*)")


def as_paths(path: Any) -> list[str]:
    """The given paths, one or several."""
    several = [path] if isinstance(path, str | os.PathLike) else path
    try:
        paths = [os.fspath(each) for each in several]
    except TypeError:
        paths = []
    if not paths or not all(isinstance(each, str) and each for each in paths):
        raise UsageError(f"path: expected a path, or a list of paths, got {path!r}")
    for each in paths:
        if (why := _UNREAD.get(os.path.splitext(each)[1].lower())) and not os.path.isdir(each):
            raise UsageError(f"{each}: {why}")
    return paths


def as_logs(path: Any) -> list[str]:
    """Like `as_paths`, for followed files."""
    paths = as_paths(path)
    for each in paths:
        if each.endswith(COMPRESSED):
            raise UsageError(
                f"{each}: compressed files cannot be followed; read_jsonl (on the command line: evaluate) "
                "reads those that end in .gz"
            )
    if "-" in paths:
        raise UsageError(
            "-: read_jsonl (on the command line: evaluate) reads standard input; ./- is a file of that name"
        )
    return paths


def fits(name: str, pattern: str) -> bool:
    """Whether a glob matches a name. Hidden files only match a pattern that begins with a dot."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def rotated_from(name: str) -> list[str]:
    """The names that a file may have had before it was rotated: `log.jsonl` for `log.jsonl.1`."""
    matches = (pattern.fullmatch(name) for pattern in (_AT_THE_END, _BEFORE_THE_SUFFIX))
    return ["".join(match.groups()) for match in matches if match]


def former_names(path: str) -> list[str]:
    """The paths that a file may have had before it was rotated."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, former) for former in rotated_from(name)]


def key_of(status: os.stat_result, generation: int = 0) -> str:
    """The `FileId.key` of a file after a number of truncations."""
    return f"{status.st_ino:x}-{generation}"


class Rotated(NamedTuple):
    """A file that may be a rotated log."""

    status: os.stat_result
    path: str
    name: str  # The path that it may have had before.


class _Folder:
    """The names in a directory."""

    def __init__(self, path: str) -> None:
        self._path = path or os.curdir
        self._stamp: tuple[int, ...] = ()
        self._changed = -inf
        self.listed = -inf
        self.entries: list[str] = []
        self.rotated: list[tuple[str, str]] = []  # Entries named like rotated files, and their former names.

    def look(self, now: float, *, at_once: bool) -> bool:
        """List it if it may have changed. Returns whether it was listed.

        Raises:
            OSError: it cannot be listed; it keeps its names.
        """
        try:
            status = os.stat(self._path)
            stamp: tuple[int, ...] = (status.st_dev, status.st_ino, status.st_mtime_ns)
        except GONE:
            stamp = ()
        if stamp != self._stamp:
            self._stamp, self._changed = stamp, now
        if not at_once and self.listed > max(self._changed + SETTLING_SECONDS, now - RELISTING_SECONDS):
            return False
        try:
            entries = sorted(os.listdir(self._path)) if stamp else []
        except GONE:
            entries = []
        self.listed = now
        if entries != self.entries:
            self.entries = entries
            pairs = ((entry, rotated_from(entry.removesuffix(GZIP))) for entry in entries)
            self.rotated = [(entry, former) for entry, formers in pairs for former in formers]
        return True


class Paths:
    """The files that the given paths stand for, as they come and go.

    A directory is listed after it has changed, and for a while more, since time stamps are coarse.

    Attributes:
        names: the current names, in order, whether or not such files exist.
        not_found: given paths for which no file has been found yet.
    """

    def __init__(self, given: Sequence[str], patterns: Sequence[str]) -> None:
        """`patterns` are those of excluded files: with a slash of whole paths, else of names."""
        self.names: list[str] = []
        self.not_found: list[str] = []
        self._given = {each: os.path.join(*os.path.split(each)) for each in given}
        self._awaited = list(given)
        self._excluded_patterns = patterns
        self._excluded: set[str] = set()
        self._folders: dict[str, _Folder] = {}
        self._patterns: dict[str, list[str]] = {}  # Of the names that are followed, by directory.
        self._globbed: dict[str, list[str]] = {}
        self._glob_due = self._now = -inf
        self._told: dict[str, str] = {}

    def exclude(self, paths: Iterable[str]) -> None:
        """Never return these files."""
        self._excluded.update(map(os.path.realpath, paths))

    def tell(self, path: str, problem: OSError | str | None) -> None:
        """Log why a file is not read, unless the last message was the same; None after success."""
        reason = problem.strerror or str(problem) if isinstance(problem, OSError) else problem
        if reason is None:
            self._told.pop(path, None)
        elif self._told.get(path) != reason:
            self._told[path] = reason
            LOGGER.warning("%s: not readable yet; retrying: %s", path, reason)

    def look(self, now: float, *, at_once: bool = False) -> bool:
        """Update the names. `at_once` ignores time stamps. Returns whether they may have changed."""
        is_first, self._now = self._now == -inf, now
        is_listed = [self._list(folder, at_once=at_once) for folder in list(self._folders)]
        if at_once or (self._globbed and now >= self._glob_due):
            self._globbed.clear()
        elif not any(is_listed) and not is_first:
            return False
        self._patterns = {}
        names = dict.fromkeys(name for path in self._given.values() for name in self._expand(path))
        kept = set(self.names)
        self.names = [name for name in names if name in kept or not self._is_excluded(name)]
        if self._awaited:
            found = (any(map(os.path.exists, self._expand(self._given[each]))) for each in self._awaited)
            self._awaited = [
                each for each, is_found in zip(self._awaited, found, strict=True) if not is_found
            ]
            self.not_found = self._awaited
        return True

    def _is_excluded(self, path: str) -> bool:
        names = path, os.path.basename(path)
        if any(fnmatchcase(names["/" not in pattern], pattern) for pattern in self._excluded_patterns):
            return True
        return bool(self._excluded) and os.path.realpath(path) in self._excluded

    def _list(self, folder: str, *, at_once: bool = False) -> bool:
        try:
            return self._folders.setdefault(folder, _Folder(folder)).look(self._now, at_once=at_once)
        except OSError as error:
            self.tell(folder, error)
            return False

    def _expand(self, path: str) -> Iterable[str]:
        folder, pattern = os.path.split(path)
        if os.path.isdir(path):
            return self._members(path, MEMBERS)
        if os.path.lexists(path) or not glob.has_magic(path):
            self._watch(folder)
            return [path]
        if not glob.has_magic(folder) and pattern != "**":
            return self._members(folder, pattern)
        if path not in self._globbed:
            found = sorted(glob.glob(path, recursive=True))
            self._globbed[path] = [name for name in found if not name.endswith(COMPRESSED)]
            self._glob_due = self._now + GLOB_SECONDS
        for directory in {os.path.dirname(name) for name in self._globbed[path]}:
            self._watch(directory, pattern)
        return self._globbed[path]

    def _members(self, folder: str, pattern: str) -> Iterable[str]:
        self._watch(folder, pattern)
        entries = (each for each in self._folders[folder].entries if _is_log(each, pattern))
        return (os.path.join(folder, entry) for entry in entries)

    def _watch(self, folder: str, pattern: str | None = None) -> None:
        patterns = self._patterns.setdefault(folder, [])
        if pattern is not None and pattern not in patterns:
            patterns.append(pattern)
        if folder not in self._folders:
            self._list(folder)

    def rotated(self, *, packed: bool = False) -> list[Rotated]:
        """Files that may be rotated and have no followed name, or `packed` ones, oldest first.

        Only those in directories that the last look has listed.
        """
        exact, names = set(self._given.values()), set(self.names)
        found = []
        for folder, patterns in self._patterns.items():
            is_listed = self._folders[folder].listed == self._now
            for entry, former in self._folders[folder].rotated if is_listed else ():
                name, path = os.path.join(folder, former), os.path.join(folder, entry)
                is_log = name in exact or any(_is_log(former, pattern) for pattern in patterns)
                if not is_log or entry.endswith(GZIP) != packed or path in names:
                    continue
                if not self._is_excluded(path) and not self._is_excluded(name):
                    with suppress(OSError):
                        found.append(Rotated(os.stat(path), path, name))
        return sorted(found, key=lambda each: (each.status.st_mtime_ns, each.path))


def _is_log(name: str, pattern: str) -> bool:
    return fits(name, pattern) and not name.endswith(COMPRESSED)
