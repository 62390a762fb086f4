"""The files that a path, directory or glob stands for, and the names of rotated files."""

from __future__ import annotations

import glob
import os
import re
import stat
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources.identity import GONE

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMBERS = "*.jsonl"
"""Pattern of the files of a directory that are followed."""

GZIP = ".gz"

COMPRESSED = (GZIP, ".bz2", ".xz", ".zst")
"""Suffixes of compressed files, which are finished."""

GLOB_SECONDS = 1.0
"""Interval in seconds at which a glob over several directories is expanded."""

SETTLING_SECONDS = 2.0
"""Resolution of time stamps, in seconds: a second change within it may not alter the time stamp."""

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


def rotated_from(name: str) -> list[str]:
    """The names that a file may have had before it was rotated: `log.jsonl` for `log.jsonl.1`."""
    matches = (pattern.fullmatch(name) for pattern in (_AT_THE_END, _BEFORE_THE_SUFFIX))
    return ["".join(match.groups()) for match in matches if match]


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
    for each in filter(_is_packed, paths):
        raise UsageError(
            f"{each}: compressed files cannot be followed; read_jsonl (on the command line: evaluate) "
            "reads those that end in .gz"
        )
    if "-" in paths:
        raise UsageError(
            "-: read_jsonl (on the command line: evaluate) reads standard input; ./- is a file of that name"
        )
    return paths


def look_up(path: str) -> os.stat_result | None:
    """The status of a file or directory; None if it does not exist."""
    try:
        return os.stat(path or os.curdir)
    except GONE:
        return None


class Directory:
    """The names in a directory. Listed at each poll for a while after a change, and occasionally otherwise.

    Attributes:
        path: prefix of the names in it; empty for the current directory.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: tuple[int, ...] = ()
        self._looked = self._changed = self._listed = float("-inf")
        self._entries: list[str] = []
        self._rotated: dict[str, list[str]] = {}

    def entries(self, now: float, *, at_once: bool) -> list[str]:
        """The names in it: the same list as before if not listed again. `at_once` forces listing.

        Raises:
            OSError: the directory cannot be listed.
        """
        if self._looked != now:  # Else another listing has looked.
            self._looked = now
            status = look_up(self.path)
            stamp = () if status is None else (status.st_dev, status.st_ino, status.st_mtime_ns)
            if stamp != self._stamp:
                self._stamp, self._changed = stamp, now
        recently = max(self._changed + SETTLING_SECONDS, now - RELISTING_SECONDS)
        if at_once or (self._listed < now and self._listed <= recently):
            self._list(now)
        return self._entries

    def _list(self, now: float) -> None:
        try:
            self._entries = sorted(os.listdir(self.path or os.curdir))
        except GONE:
            self._entries = []
        self._rotated = {}
        for entry in self._entries:
            for name in rotated_from(entry.removesuffix(GZIP)):
                self._rotated.setdefault(name, []).append(entry)
        self._listed = now

    def rotated(self, now: float, *, at_once: bool) -> dict[str, list[str]]:
        """Names of possible rotated files, by former name; none if not listed at this poll."""
        try:
            self.entries(now, at_once=at_once)
        except OSError:
            return {}
        return self._rotated if self._listed == now else {}


class Listing:
    """The names that a given path stands for.

    They may change: a missing path may be a directory later.

    Attributes:
        given: the path.
        latest: the names found last.
    """

    def __init__(self, given: str, directories: dict[str, Directory]) -> None:
        """`directories` are shared by listings."""
        self.given = given
        self._given = os.path.join(*os.path.split(given))  # As names are put together here.
        self.latest: list[str] = []
        self._directories = directories
        self._looked_in: list[Directory] = []
        self._pattern = ""
        self._entries: list[str] | None = None  # Of the directory: as long as it has these, the names stay.
        self._globbed = float("-inf")

    def names(self, now: float, *, at_once: bool) -> list[str]:
        """The current names, in order. `at_once` skips the intervals between listings.

        Raises:
            OSError: the directory cannot be read.
        """
        if self._entries is not None and self._looked_in[0].entries(now, at_once=at_once) is self._entries:
            return self.latest
        directory, name = os.path.split(self._given)
        status = look_up(self._given)
        if status is not None and stat.S_ISDIR(status.st_mode):
            self._list(self._given, MEMBERS, now, at_once=at_once)
        elif status is not None or not glob.has_magic(self._given):
            self._become([self._given], [directory], glob.escape(name))
            with suppress(OSError):  # The file may be readable if its directory is not.
                self._entries = self._looked_in[0].entries(now, at_once=at_once)
        elif not glob.has_magic(directory) and name != "**":
            self._list(directory, name, now, at_once=at_once)
        elif at_once or now >= self._globbed + GLOB_SECONDS:
            self._globbed = now
            found = [path for path in sorted(glob.glob(self._given, recursive=True)) if not _is_packed(path)]
            self._become(found, sorted({os.path.dirname(path) for path in found}), name)
        return self.latest

    def _list(self, directory: str, pattern: str, now: float, *, at_once: bool) -> None:
        entries = self._directory(directory).entries(now, at_once=at_once)
        names = [os.path.join(directory, entry) for entry in entries if _is_log(entry, pattern)]
        self._become(names, [directory], pattern)
        self._entries = entries

    def _become(self, names: list[str], directories: Iterable[str], pattern: str) -> None:
        self.latest, self._pattern = names, pattern
        self._looked_in = [self._directory(directory) for directory in directories]
        self._entries = None

    def _directory(self, path: str) -> Directory:
        return self._directories.setdefault(path, Directory(path))

    def rotated(self, now: float, *, at_once: bool, packed: bool = False) -> Iterable[tuple[str, str]]:
        """Paths of possible rotated, or compressed, files, each with its former path.

        Searches only for a while after a directory has changed, unless `at_once`.
        """
        for directory in self._looked_in:
            for name, entries in directory.rotated(now, at_once=at_once).items():
                if _is_log(name, self._pattern):
                    former = os.path.join(directory.path, name)
                    chosen = (entry for entry in entries if entry.endswith(GZIP) == packed)
                    yield from ((os.path.join(directory.path, entry), former) for entry in chosen)


def fits(name: str, pattern: str) -> bool:
    """Whether a glob matches a name. Hidden files only match a pattern that begins with a dot."""
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


def _is_packed(name: str) -> bool:
    return name.endswith(COMPRESSED)


def _is_log(name: str, pattern: str) -> bool:
    return fits(name, pattern) and not _is_packed(name)
