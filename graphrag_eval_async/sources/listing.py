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
    from collections.abc import Iterable, Sequence

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


class Pace:
    """When to look again at what changes: for a while after each change, and not all the time."""

    def __init__(self) -> None:
        self._changed = self._looked = float("-inf")
        self._due = float("-inf")

    def stir(self, now: float) -> None:
        """Something changed."""
        self._changed = now

    def is_due(self, now: float) -> bool:
        return now >= self._due and self._looked <= self._changed + SETTLING_SECONDS

    def looked(self, now: float, took: float) -> None:
        """A look began at `now`, and took so many seconds."""
        self._looked = now
        self._due = now + took * LISTING_SHARE


class Listing:
    """The names that one given path stands for.

    What it is may change: a name that is missing now may be a directory later.

    Attributes:
        latest: the names as they were found last.
    """

    def __init__(self, given: str) -> None:
        self._given = os.path.join(*os.path.split(given))  # As names are put together here.
        self.latest: list[str] = []
        self._directories = [os.path.dirname(given)]
        self._pattern: str | None = None
        self._state: tuple[int, ...] = ()
        self._globbed = float("-inf")
        self._listing = Pace()
        self._rotation = Pace()

    def stir(self, now: float) -> None:
        """A name of it stands for another file than before."""
        self._rotation.stir(now)

    def names(self, now: float, *, at_once: bool = False) -> Sequence[str]:
        """The names of now, in order; `at_once` looks at what could wait otherwise.

        Raises:
            OSError: the directory cannot be read.
        """
        status = _status(self._given)
        if status is not None and stat.S_ISDIR(status.st_mode):
            return self._list(self._given, MEMBERS, status, now, at_once=at_once)
        if status is None and glob.has_magic(self._given):
            return self._glob(now, at_once=at_once)
        directory = os.path.dirname(self._given)
        self._become([self._given], [directory], None)
        # While it is missing, it may come and go between two looks.
        state = _status(directory or os.curdir) if status is None else None
        self._note(() if state is None else _state(state), now)
        return self.latest

    def _note(self, state: tuple[int, ...], now: float) -> None:
        """Compare the directory with what it was like at the last look."""
        if state != self._state:
            self._state = state
            self._listing.stir(now)
            self._rotation.stir(now)

    def _become(self, names: list[str], directories: list[str], pattern: str | None) -> None:
        self.latest, self._directories, self._pattern = names, directories, pattern

    def _glob(self, now: float, *, at_once: bool) -> Sequence[str]:
        directory, pattern = os.path.split(self._given)
        if not glob.has_magic(directory) and pattern != "**":
            status = _status(directory or os.curdir)
            if status is not None:
                return self._list(directory, pattern, status, now, at_once=at_once)
            self._become([], [], pattern)
            self._note((), now)
        elif at_once or now >= self._globbed + GLOB_SECONDS:
            self._globbed = now
            names = sorted(glob.glob(self._given, recursive=True))
            if names != self.latest:
                self.stir(now)
            self._become(names, sorted({os.path.dirname(name) for name in names}), pattern)
        return self.latest

    def _list(
        self, directory: str, pattern: str, status: os.stat_result, now: float, *, at_once: bool
    ) -> Sequence[str]:
        self._note(_state(status), now)
        if at_once or self._listing.is_due(now):
            began = monotonic()
            entries = sorted(entry for entry in os.listdir(directory or os.curdir) if fits(entry, pattern))
            self._become([os.path.join(directory, entry) for entry in entries], [directory], pattern)
            self._listing.looked(now, monotonic() - began)
        return self.latest

    def rotated(self, now: float, *, at_once: bool = False) -> list[tuple[str, str]]:
        """Names that files of it have once they are rotated, each with the name they had before.

        They are looked for only for a while after something changed, unless `at_once`.
        """
        if not at_once and not self._rotation.is_due(now):
            return []
        began = monotonic()
        found = [pair for directory in self._directories for pair in self._rotated_in(directory)]
        if not at_once:
            self._rotation.looked(now, monotonic() - began)
        return found

    def _rotated_in(self, directory: str) -> Iterable[tuple[str, str]]:
        try:
            entries = os.listdir(directory or os.curdir)
        except OSError:
            return
        for entry in entries:
            for name in rotated_from(entry):
                path = os.path.join(directory, name)
                if path == self._given if self._pattern is None else fits(name, self._pattern):
                    yield os.path.join(directory, entry), path


def fits(name: str, pattern: str) -> bool:
    """As in a glob, hidden files are left out."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
