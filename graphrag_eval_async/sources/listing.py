"""Which names a path, a directory or a glob stands for."""

from __future__ import annotations

import glob
import os
import stat
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources.directory import Directory, look_up

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MEMBERS = "*.jsonl"
"""What is followed of a directory."""

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""How the names of files end that are finished, and hold no lines as they are."""

GLOB_SECONDS = 1.0
"""How often a glob over several directories is looked up."""


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


def as_logs(path: Any) -> list[str]:
    """The same of what can be followed.

    Raises:
        UsageError: it cannot.
    """
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


class Listing:
    """The names that one given path stands for.

    What it is may change: a name that is missing now may be a directory later.

    Attributes:
        latest: the names as they were found last.
        is_quiet: whether these stood for the same files for a while, but for links to elsewhere.
    """

    def __init__(self, given: str, directories: dict[str, Directory]) -> None:
        """`directories` are shared by listings."""
        directory, self._name = os.path.split(given)
        self._given = os.path.join(directory, self._name)  # As names are put together here.
        self.latest: list[str] = []
        self.is_quiet = False
        self._directories = directories
        self._looked_in: list[Directory] = []
        self._pattern: str | None = None
        self._entries: list[str] | None = None
        self._globbed = float("-inf")

    def names(self, now: float, *, at_once: bool = False) -> Sequence[str]:
        """The names of now, in order; `at_once` looks at what could wait otherwise.

        Raises:
            OSError: the directory cannot be read.
        """
        if self._pattern is None and self.latest and not at_once:
            (directory,) = self._looked_in
            self.is_quiet = directory.is_quiet(now)
            if self.is_quiet:
                return self.latest
        else:
            self.is_quiet = all(directory.is_quiet(now) for directory in self._looked_in)
        status = look_up(self._given)
        if status is not None and stat.S_ISDIR(status.st_mode):
            self._list(self._given, MEMBERS, now, at_once=at_once)
        elif status is None and glob.has_magic(self._given):
            self._glob(now, at_once=at_once)
        else:
            self._become([self._given], [os.path.dirname(self._given)], None)
        return self.latest

    def _become(self, names: list[str], directories: Iterable[str], pattern: str | None) -> None:
        self.latest, self._pattern = names, pattern
        self._looked_in = [self._directory(directory) for directory in directories]
        self._entries = None

    def _glob(self, now: float, *, at_once: bool) -> None:
        directory, pattern = os.path.split(self._given)
        if not glob.has_magic(directory) and pattern != "**":
            self._list(directory, pattern, now, at_once=at_once)
        elif at_once or now >= self._globbed + GLOB_SECONDS:
            self._globbed = now
            found = sorted(glob.glob(self._given, recursive=True))
            names = [name for name in found if not name.endswith(COMPRESSED)]
            self._become(names, sorted({os.path.dirname(name) for name in names}), pattern)

    def _list(self, directory: str, pattern: str, now: float, *, at_once: bool) -> None:
        entries = self._directory(directory).entries(now, at_once=at_once)
        if entries is not self._entries:
            names = [os.path.join(directory, entry) for entry in entries if _is_log(entry, pattern)]
            self._become(names, [directory], pattern)
            self._entries = entries

    def _directory(self, path: str) -> Directory:
        if path not in self._directories:
            self._directories[path] = Directory(path)
        return self._directories[path]

    def rotated(self, now: float, *, at_once: bool = False) -> Iterable[tuple[Directory, str, str]]:
        """Names that files of it may have once they are rotated, each with the name they had before.

        They are looked for only for a while after a directory has changed, unless `at_once`.
        """
        for directory in self._looked_in:
            try:
                found = directory.rotated_now() if at_once else directory.rotated(now)
            except OSError:
                continue
            for name in self._own(found):
                for entry in found[name]:
                    yield directory, os.path.join(directory.path, entry), os.path.join(directory.path, name)

    def _own(self, names: Collection[str]) -> list[str]:
        if self._pattern is not None:
            return [name for name in names if _is_log(name, self._pattern)]
        return [self._name] if self._name in names else []


def fits(name: str, pattern: str) -> bool:
    """As in a glob, hidden files are left out."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def _is_log(name: str, pattern: str) -> bool:
    return fits(name, pattern) and not name.endswith(COMPRESSED)
