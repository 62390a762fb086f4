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
from graphrag_eval_async.sources.paths import MEMBERS, as_paths, fits
from graphrag_eval_async.sources.remote import is_address, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphrag_eval_async.sources.follow.unread import Unread

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

# What loggers and logrotate add to the name of a rotated file: a number or a date, or a word.
_NUMBER = r"\d[\dTZ_.:-]*"
_DATE = r"\d{4}-?\d\d-?\d\d[\dTZ_.:-]*"
_TAG = rf"(?:\.(?:{_NUMBER}|old|bak|prev|rotated)|-{_DATE})"
_TAG_AT_THE_END = re.compile(rf"(.+?){_TAG}")
_TAG_BEFORE_THE_SUFFIX = re.compile(rf"(.+?){_TAG}(\.[A-Za-z]\w*)")


def as_logs(path: Any) -> list[str]:
    """Return the given paths of followed files, one or several.

    Raises:
        UsageError: one of them is no path, or of a file that cannot be followed.
    """
    paths = as_paths(path)
    for followed_path in paths:
        if is_address(followed_path):
            raise UsageError(
                f"{without_secrets(followed_path)}: addresses cannot be followed; read_jsonl (on "
                "the command line: evaluate) reads them"
            )
        if followed_path.endswith(COMPRESSED):
            raise UsageError(
                f"{followed_path}: compressed files cannot be followed; read_jsonl (on the command "
                "line: evaluate) reads those that end in .gz"
            )
    if "-" in paths:
        raise UsageError(
            "-: read_jsonl (on the command line: evaluate) reads standard input; ./- is a file "
            "of that name"
        )
    return paths


@lru_cache(1 << 12)
def rotated_from(name: str) -> list[str]:
    """Return the names that a file may have had before it was rotated: `log.jsonl` for
    `log.jsonl.1`.
    """
    names = []
    for pattern in (_TAG_AT_THE_END, _TAG_BEFORE_THE_SUFFIX):
        match = pattern.fullmatch(name)
        if match is not None:
            names.append("".join(match.groups()))
    return names


def former_names(path: str) -> list[str]:
    """Return the paths that a file may have had before it was rotated."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, former) for former in rotated_from(name)]


class Candidate(NamedTuple):
    """A file that may be a log.

    Attributes:
        status: its status when it was found.
        path: its path.
        name: the path by which it is followed; if that is another one, it may have had it before.
        is_member: whether it is compressed, and a directory or a glob stands for it as it is.
    """

    status: os.stat_result
    path: str
    name: str
    is_member: bool = False

    @property
    def former_paths(self) -> list[str]:
        """The paths that it may have had before it was rotated; none if it was not."""
        if self.path == self.name:
            return former_names(self.path)
        return [self.name]


class _Expansion(NamedTuple):
    """What a given path stands for.

    Attributes:
        names: the files that are followed, whether or not they exist.
        directories: where they are; files can be missed if one of them cannot be listed.
    """

    names: list[str]
    directories: list[str]


@dataclass(slots=True)
class _Folder:
    """A directory, as it was listed last."""

    path: str
    entries: list[str] = field(default_factory=list)
    # Device, inode and time; empty if there is no such directory.
    stamp: tuple[int, ...] = ()
    # When another stamp was seen, and when it was listed; never so far.
    changed: float = -inf
    listed: float = -inf


class Paths:
    """The files that the given paths stand for, as they come and go.

    Attributes:
        names: the current names, in order, whether or not such files exist.
        not_found: given paths for which no file has been found yet, though their directories can be
            listed.
    """

    def __init__(self, paths: Sequence[str], patterns: Sequence[str], unread: Unread) -> None:
        """Find nothing yet; `look` does.

        Args:
            paths: the given files, directories and globs.
            patterns: globs of excluded files: with a slash of whole paths, else of names.
            unread: where directories are added that cannot be listed.
        """
        self.names: list[str] = []
        self.not_found: list[str] = []
        # Without repeated slashes, by the path as it was given.
        self._paths = {path: os.path.join(*os.path.split(path)) for path in paths}
        # Given paths for which no file has been found yet.
        self._awaited = list(paths)
        self._patterns = patterns
        self._unread = unread
        self._excluded: set[str] = set()
        self._folders: dict[str, _Folder] = {}
        # Patterns of the names that are followed, by directory.
        self._members: dict[str, list[str]] = {}
        # Directories that a glob stands for, and until when that counts.
        self._globbed: dict[str, tuple[float, list[str]]] = {}
        self._now = -inf
        self._at_once = False

    def exclude(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Never return these files."""
        self._excluded.update(map(os.path.realpath, paths))

    def look(self, now: float, *, at_once: bool = False) -> bool:
        """Update the names; return whether they may have changed. `at_once` ignores time stamps."""
        is_first = self._now == -inf
        self._now = now
        self._at_once = at_once
        # All of them, not only up to the first that was listed.
        listings = [self._list(folder) for folder in list(self._folders.values())]
        is_glob_due = any(now >= due for due, _ in self._globbed.values())
        may_have_changed = is_first or any(listings) or is_glob_due
        if not may_have_changed:
            return False

        self._members = {}
        expansions = {given_path: self._expand(path) for given_path, path in self._paths.items()}
        names = dict.fromkeys(name for expansion in expansions.values() for name in expansion.names)
        # Names that were followed before need no other check.
        followed = set(self.names)
        self.names = [name for name in names if name in followed or not self._is_excluded(name)]
        self._awaited = [path for path in self._awaited if not self._is_found(expansions[path])]
        self.not_found = [
            path for path in self._awaited if self._is_listed(expansions[path].directories)
        ]
        return True

    def _is_found(self, expansion: _Expansion) -> bool:
        """Check whether a file exists for which a given path stands."""
        if any(map(os.path.exists, expansion.names)):
            return True
        return any(
            self._is_compressed_member(directory, entry)
            for directory in expansion.directories
            if directory in self._members
            for entry in self._folders[directory].entries
        )

    def _is_listed(self, directories: Iterable[str]) -> bool:
        """Check whether all of some directories could be listed, or do not exist."""
        return not any(
            (directory or os.curdir) in self._unread.reasons for directory in directories
        )

    def _is_excluded(self, path: str) -> bool:
        """Check whether a file is never followed."""
        for pattern in self._patterns:
            matched = path
            if "/" not in pattern:
                matched = os.path.basename(path)
            if fnmatchcase(matched, pattern):
                return True
        if not self._excluded:
            return False
        return os.path.realpath(path) in self._excluded

    def _list(self, folder: _Folder) -> bool:
        """List a directory if it may have changed; return whether it was listed."""
        try:
            status = os.stat(folder.path)
            stamp: tuple[int, ...] = (status.st_dev, status.st_ino, status.st_mtime_ns)
        except OSError:
            stamp = ()
        if stamp != folder.stamp:
            folder.stamp = stamp
            folder.changed = self._now

        is_unsettled = folder.listed <= folder.changed + SETTLING_SECONDS
        is_due = folder.listed <= self._now - RELISTING_SECONDS
        may_have_changed = is_unsettled or is_due or self._at_once
        if not may_have_changed:
            return False

        try:
            folder.entries = sorted(os.listdir(folder.path))
        except GONE:
            folder.entries = []
        except OSError as error:
            self._unread.retry(folder.path, error)
            return False
        self._unread.forget(folder.path)
        folder.listed = self._now
        return True

    def _expand(self, path: str) -> _Expansion:
        """Return what a given path stands for."""
        directory, pattern = os.path.split(path)
        if os.path.isdir(path):
            # Those that are compressed are not followed; `packed` has them.
            self._matches(path, MEMBERS + GZIP)
            return _Expansion(self._matches(path, MEMBERS), [path])
        if os.path.lexists(path) or not glob.has_magic(path):
            # The directory is listed for the sake of rotated files.
            self._matches(directory, glob.escape(pattern))
            return _Expansion([path], [directory])
        if pattern == "**":
            directory, pattern = path, "*"
        if not glob.has_magic(directory):
            return _Expansion(self._matches(directory, pattern), [directory])
        directories = self._directories(directory)
        names = [name for member in directories for name in self._matches(member, pattern)]
        return _Expansion(names, [_without_magic(directory), *directories])

    def _directories(self, pattern: str) -> list[str]:
        """Return the directories that a glob stands for, at most `GLOB_SECONDS` ago."""
        due, directories = self._globbed.get(pattern, (-inf, []))
        if self._now >= due or self._at_once:
            self._check_listable(_without_magic(pattern))
            matches = [path.rstrip("/") or "/" for path in glob.glob(pattern, recursive=True)]
            directories = sorted(filter(os.path.isdir, matches))
            self._globbed[pattern] = (self._now + GLOB_SECONDS, directories)
        return directories

    def _check_listable(self, directory: str) -> None:
        """Note if a directory cannot be listed, of which `glob` says nothing."""
        try:
            with os.scandir(directory or os.curdir):
                self._unread.forget(directory or os.curdir)
        except GONE:
            pass
        except OSError as error:
            self._unread.retry(directory or os.curdir, error)

    def _matches(self, directory: str, pattern: str) -> list[str]:
        """Return the followed names in a directory, which is watched from now on."""
        self._members.setdefault(directory, []).append(pattern)
        folder = self._folders.get(directory)
        if folder is None:
            folder = self._folders[directory] = _Folder(directory or os.curdir)
            self._list(folder)
        return [
            os.path.join(directory, entry) for entry in folder.entries if _is_log(entry, pattern)
        ]

    def rotated(self) -> list[Candidate]:
        """Return files that may be rotated logs and have no followed name, the oldest first.

        Those of directories that the last look has not listed are left out.
        """
        listed = [path for path in self._members if self._folders[path].listed == self._now]
        return self._rotated(listed, is_packed=False)

    def packed(self) -> list[Candidate]:
        """Return compressed rotated logs, and compressed files that a directory or a glob stands
        for, the oldest first.
        """
        return self._rotated(list(self._members), is_packed=True)

    def _rotated(self, directories: Iterable[str], *, is_packed: bool) -> list[Candidate]:
        """Return the files in some directories that may be rotated logs, compressed or not, the
        oldest first.
        """
        followed = set(self.names)
        rotated = []
        for directory in directories:
            for entry in self._folders[directory].entries:
                path = os.path.join(directory, entry)
                if entry.endswith(GZIP) != is_packed or path in followed:
                    continue
                is_member = self._is_compressed_member(directory, entry)
                names = list(self._followed_names_of(directory, entry))
                if is_member and not names:
                    names = [path.removesuffix(GZIP)]
                for name in names:
                    with suppress(OSError):
                        rotated.append(Candidate(os.stat(path), path, name, is_member))
        return sorted(rotated, key=lambda file: (file.status.st_mtime_ns, file.path))

    def _is_compressed_member(self, directory: str, entry: str) -> bool:
        """Check whether a directory or a glob stands for a compressed file itself."""
        if not entry.endswith(GZIP) or self._is_excluded(os.path.join(directory, entry)):
            return False
        return any(fits(entry, pattern) for pattern in self._members[directory])

    def _followed_names_of(self, directory: str, entry: str) -> Iterator[str]:
        """Yield the followed paths that a file may have had before it was rotated."""
        if self._is_excluded(os.path.join(directory, entry)):
            return
        for former_name in rotated_from(entry.removesuffix(GZIP)):
            is_followed = any(_is_log(former_name, pattern) for pattern in self._members[directory])
            former_path = os.path.join(directory, former_name)
            if is_followed and not self._is_excluded(former_path):
                yield former_path


def _is_log(name: str, pattern: str) -> bool:
    """Check whether a file of this name is followed for a pattern: compressed ones are not."""
    return fits(name, pattern) and not name.endswith(COMPRESSED)


def _without_magic(pattern: str) -> str:
    """Return the directory that is listed first to find what a glob stands for."""
    directory = pattern
    while glob.has_magic(directory):
        directory = os.path.dirname(directory)
    return directory
