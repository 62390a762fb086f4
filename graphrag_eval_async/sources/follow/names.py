"""The files that followed paths stand for, as they come and go, and the names of rotated files."""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources.lines import LOGGER
from graphrag_eval_async.sources.paths import MEMBERS, as_paths, fits
from graphrag_eval_async.sources.remote import is_address, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
"""Seconds between listings of an unchanged directory, since some file systems keep its time
stamp.
"""

_NUMBER = r"\d[\dTZ_.:-]*"
_DATE = r"\d{4}-?\d\d-?\d\d[\dTZ_.:-]*"
_TAG = rf"(?:\.(?:{_NUMBER}|old|bak|prev|rotated)|-{_DATE})"
_AT_THE_END = re.compile(rf"(.+?){_TAG}")
_BEFORE_THE_SUFFIX = re.compile(rf"(.+?){_TAG}(\.[A-Za-z]\w*)")


def as_logs(path: Any) -> list[str]:
    """Like `as_paths`, for followed files."""
    paths = as_paths(path)
    for each in paths:
        if is_address(each):
            raise UsageError(
                f"{shown(each)}: addresses cannot be followed; read_jsonl (on the command line: "
                "evaluate) "
                "reads them"
            )
        if each.endswith(COMPRESSED):
            raise UsageError(
                f"{each}: compressed files cannot be followed; read_jsonl (on the command line: "
                "evaluate) "
                "reads those that end in .gz"
            )
    if "-" in paths:
        raise UsageError(
            "-: read_jsonl (on the command line: evaluate) reads standard input; ./- is a file of "
            "that name"
        )
    return paths


@lru_cache(1 << 12)
def rotated_from(name: str) -> list[str]:
    """The names that a file may have had before it was rotated: `log.jsonl` for `log.jsonl.1`."""
    matches = (pattern.fullmatch(name) for pattern in (_AT_THE_END, _BEFORE_THE_SUFFIX))
    return ["".join(match.groups()) for match in matches if match]


def former_names(path: str) -> list[str]:
    """The paths that a file may have had before it was rotated."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, former) for former in rotated_from(name)]


class Found(NamedTuple):
    """A file that may be a log."""

    status: os.stat_result
    path: str
    name: (
        str  # The path by which it is followed; if that is another one, it may have had it before.
    )

    @property
    def formers(self) -> list[str]:
        """The paths that it may have had before it was rotated."""
        return former_names(self.path) if self.path == self.name else [self.name]


@dataclass(slots=True)
class _Folder:
    path: str
    entries: list[str] = field(default_factory=list)
    stamp: tuple[int, ...] = ()
    changed: float = -inf
    listed: float = -inf


class Paths:
    """The files that the given paths stand for, as they come and go.

    Attributes:
        names: the current names, in order, whether or not such files exist.
        not_found: given paths for which no file has been found yet.
    """

    def __init__(self, given: Sequence[str], patterns: Sequence[str]) -> None:
        """`patterns` are those of excluded files: with a slash of whole paths, else of names."""
        self.names: list[str] = []
        self.not_found: list[str] = []
        self._given = {each: os.path.join(*os.path.split(each)) for each in given}
        self._patterns = patterns
        self._excluded: set[str] = set()
        self._folders: dict[str, _Folder] = {}
        self._members: dict[
            str, list[str]
        ] = {}  # Patterns of the names that are followed, by directory.
        self._globbed: dict[
            str, tuple[float, list[str]]
        ] = {}  # Directories, and until when they count.
        self._now, self._at_once = -inf, False
        self._told: dict[str, str] = {}

    def exclude(self, paths: Iterable[str | os.PathLike[str]]) -> None:
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
        """Update the names. `at_once` ignores time stamps. Returns whether they may have
        changed.
        """
        is_first, self._now, self._at_once = self._now == -inf, now, at_once
        is_listed = [self._list(folder) for folder in list(self._folders.values())]
        if not (is_first or any(is_listed) or any(now >= due for due, _ in self._globbed.values())):
            return False
        self._members = {}
        found = {given: self._expand(path) for given, path in self._given.items()}
        kept = set(self.names)
        names = dict.fromkeys(name for names in found.values() for name in names)
        self.names = [name for name in names if name in kept or not self._is_excluded(name)]
        awaited = list(self._given) if is_first else self.not_found
        self.not_found = [each for each in awaited if not any(map(os.path.exists, found[each]))]
        return True

    def _is_excluded(self, path: str) -> bool:
        names = path, os.path.basename(path)
        if any(fnmatchcase(names["/" not in pattern], pattern) for pattern in self._patterns):
            return True
        return bool(self._excluded) and os.path.realpath(path) in self._excluded

    def _list(self, folder: _Folder) -> bool:
        """List a directory if it may have changed. Returns whether it was listed; else names
        stay.
        """
        try:
            status = os.stat(folder.path)
            stamp: tuple[int, ...] = (status.st_dev, status.st_ino, status.st_mtime_ns)
        except OSError:
            stamp = ()
        if stamp != folder.stamp:
            folder.stamp, folder.changed = stamp, self._now
        is_due = folder.listed <= max(
            folder.changed + SETTLING_SECONDS, self._now - RELISTING_SECONDS
        )
        if is_due or self._at_once:
            try:
                folder.entries = sorted(os.listdir(folder.path))
            except GONE:
                folder.entries = []
            except OSError as error:
                self.tell(folder.path, error)
                return False
            folder.listed = self._now
        return is_due or self._at_once

    def _expand(self, path: str) -> list[str]:
        folder, pattern = os.path.split(path)
        if os.path.isdir(path):
            return self._matches(path, MEMBERS)
        if os.path.lexists(path) or not glob.has_magic(path):
            self._matches(folder, glob.escape(pattern))
            return [path]
        if pattern == "**":
            folder, pattern = path, "*"
        folders = self._directories(folder) if glob.has_magic(folder) else [folder]
        return [name for each in folders for name in self._matches(each, pattern)]

    def _directories(self, pattern: str) -> list[str]:
        due, found = self._globbed.get(pattern, (-inf, []))
        if self._now >= due or self._at_once:
            found = sorted(filter(os.path.isdir, glob.glob(pattern, recursive=True)))
            self._globbed[pattern] = self._now + GLOB_SECONDS, found
        return found

    def _matches(self, path: str, pattern: str) -> list[str]:
        self._members.setdefault(path, []).append(pattern)
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = _Folder(path or os.curdir)
            self._list(folder)
        return [os.path.join(path, entry) for entry in folder.entries if _is_log(entry, pattern)]

    def rotated(self, *, packed: bool = False) -> list[Found]:
        """Files that may be rotated and have no followed name, or `packed` ones, oldest first.

        Only those in directories that the last look has listed.
        """
        found, names = [], set(self.names)
        for folder, patterns in self._members.items():
            is_listed = self._folders[folder].listed == self._now
            entries = [
                entry for entry in self._folders[folder].entries if entry.endswith(GZIP) == packed
            ]
            for entry in entries if is_listed else ():
                path = os.path.join(folder, entry)
                for former in rotated_from(entry.removesuffix(GZIP)) if path not in names else ():
                    name = os.path.join(folder, former)
                    is_log = any(_is_log(former, pattern) for pattern in patterns)
                    if is_log and not self._is_excluded(path) and not self._is_excluded(name):
                        with suppress(OSError):
                            found.append(Found(os.stat(path), path, name))
        return sorted(found, key=lambda each: (each.status.st_mtime_ns, each.path))


def _is_log(name: str, pattern: str) -> bool:
    return fits(name, pattern) and not name.endswith(COMPRESSED)
