"""Which names a path, a directory or a glob stands for, and what their files are called once rotated."""

from __future__ import annotations

import glob
import os
import re
import stat
from fnmatch import fnmatchcase
from time import monotonic
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

GONE = (FileNotFoundError, NotADirectoryError)

MEMBERS = "*.jsonl"
"""What is followed of a directory."""

SETTLING_SECONDS = 2.0
"""For how long after a change another one may leave no trace in the time stamp of a file or directory."""

GLOB_SECONDS = 1.0
"""How often a glob over several directories is looked up."""

LISTING_SHARE = 10
"""Listing may take one part in so many of the time."""

_NUMBER = r"\d[\dTZ_.:-]*"
_DATE = r"\d{4}-?\d\d-?\d\d[\dTZ_.:-]*"
_TAG = rf"(?:\.(?:{_NUMBER}|old|bak|prev|rotated)|-{_DATE})"
_AT_THE_END = re.compile(rf"(.+?){_TAG}")
_BEFORE_THE_SUFFIX = re.compile(rf"(.+?){_TAG}(\.[A-Za-z]\w*)")


def rotated_from(name: str) -> list[str]:
    """The names that a file may have had before it was rotated: of `log.jsonl.1`, it is `log.jsonl`."""
    names = []
    if match := _AT_THE_END.fullmatch(name):
        names.append(match[1])
    if match := _BEFORE_THE_SUFFIX.fullmatch(name):
        names.append(match[1] + match[2])
    return names


def as_paths(path: Any) -> list[str]:
    """One path or several, as they were given.

    Raises:
        UsageError: it is no path, nor several.
    """
    several = [path] if isinstance(path, str | os.PathLike) else path
    try:
        paths = [os.fspath(each) for each in several]
    except TypeError:
        paths = []
    if not paths or not all(isinstance(each, str) and each for each in paths):
        raise UsageError(f"path: expected a path, or a list of paths, got {path!r}")
    return paths


class Watch:
    """Says when a directory is to be listed again: for a while after each change, and not all the time."""

    def __init__(self) -> None:
        self._state: tuple[int, ...] = ()
        self._changed = self._listed = self._due = float("-inf")

    def is_due(self, status: os.stat_result | None, now: float) -> bool:
        """Whether to list a directory that has this status by now."""
        state = () if status is None else (status.st_dev, status.st_ino, status.st_mtime_ns)
        if state != self._state:
            self._state, self._changed = state, now
        return now >= self._due and self._listed <= self._changed + SETTLING_SECONDS

    def listed(self, now: float, took: float) -> None:
        """It was listed, which took so many seconds."""
        self._listed = now
        self._due = now + took * LISTING_SHARE


class Directory:
    """What there is in a directory."""

    def __init__(self, path: str) -> None:
        self._path = path or os.curdir
        self._entries: list[str] = []
        self._members = Watch()
        self._rotation = Watch()
        self._rotated: tuple[float, dict[str, list[str]]] = (float("-inf"), {})

    def entries(self, now: float, *, at_once: bool) -> list[str]:
        """The same list as before, if it was not found to have changed.

        Raises:
            OSError: it cannot be listed.
        """
        status = _status(self._path)
        if status is None:
            self._entries = []
        if self._members.is_due(status, now) or at_once:
            began = monotonic()
            self._entries = sorted(self._list())
            self._members.listed(now, monotonic() - began)
        return self._entries

    def rotated(self, now: float) -> dict[str, list[str]]:
        """By the names that they may have had before, what may be rotated files; none unless it changed."""
        if self._rotated[0] != now:
            began = monotonic()
            try:
                is_due = self._rotation.is_due(_status(self._path), now)
                self._rotated = now, self.rotated_now() if is_due else {}
            except OSError:
                return {}
            if is_due:
                self._rotation.listed(now, monotonic() - began)
        return self._rotated[1]

    def rotated_now(self) -> dict[str, list[str]]:
        """The same, changed or not."""
        found: dict[str, list[str]] = {}
        for entry in self._list():
            for name in rotated_from(entry):
                found.setdefault(name, []).append(entry)
        return found

    def _list(self) -> list[str]:
        try:
            return os.listdir(self._path)
        except GONE:
            return []


class Listing:
    """The names that one given path stands for.

    What it is may change: a name that is missing now may be a directory later.

    Attributes:
        latest: the names as they were found last.
    """

    def __init__(self, given: str, directories: dict[str, Directory]) -> None:
        """`directories` are shared by listings."""
        self._given = os.path.join(*os.path.split(given))  # As names are put together here.
        self.latest: list[str] = []
        self._directories = directories
        self._looked_in: list[str] = []
        self._pattern: str | None = None
        self._entries: list[str] | None = None
        self._globbed = float("-inf")

    def names(self, now: float, *, at_once: bool = False) -> Sequence[str]:
        """The names of now, in order; `at_once` looks at what could wait otherwise.

        Raises:
            OSError: the directory cannot be read.
        """
        status = _status(self._given)
        if status is not None and stat.S_ISDIR(status.st_mode):
            self._list(self._given, MEMBERS, now, at_once=at_once)
        elif status is None and glob.has_magic(self._given):
            self._glob(now, at_once=at_once)
        else:
            self._become([self._given], [os.path.dirname(self._given)], None)
        return self.latest

    def _become(self, names: list[str], looked_in: list[str], pattern: str | None) -> None:
        self.latest, self._looked_in, self._pattern = names, looked_in, pattern
        self._entries = None

    def _glob(self, now: float, *, at_once: bool) -> None:
        directory, pattern = os.path.split(self._given)
        if not glob.has_magic(directory) and pattern != "**":
            self._list(directory, pattern, now, at_once=at_once)
        elif at_once or now >= self._globbed + GLOB_SECONDS:
            self._globbed = now
            names = sorted(glob.glob(self._given, recursive=True))
            self._become(names, sorted({os.path.dirname(name) for name in names}), pattern)

    def _list(self, directory: str, pattern: str, now: float, *, at_once: bool) -> None:
        entries = self._directory(directory).entries(now, at_once=at_once)
        if entries is not self._entries:
            names = [os.path.join(directory, entry) for entry in entries if fits(entry, pattern)]
            self._become(names, [directory], pattern)
            self._entries = entries

    def _directory(self, path: str) -> Directory:
        return self._directories.setdefault(path, Directory(path))

    def rotated(self, now: float, *, at_once: bool = False) -> Iterable[tuple[str, str]]:
        """Names that files of it may have once they are rotated, each with the name they had before.

        They are looked for only for a while after a directory has changed, unless `at_once`.
        """
        for path in self._looked_in:
            directory = self._directory(path)
            try:
                found = directory.rotated_now() if at_once else directory.rotated(now)
            except OSError:
                continue
            for name in self._own(found):
                for entry in found[name]:
                    yield os.path.join(path, entry), os.path.join(path, name)

    def _own(self, names: Collection[str]) -> list[str]:
        if self._pattern is not None:
            return [name for name in names if fits(name, self._pattern)]
        name = os.path.basename(self._given)
        return [name] if name in names else []


def fits(name: str, pattern: str) -> bool:
    """As in a glob, hidden files are left out."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except GONE:
        return None
