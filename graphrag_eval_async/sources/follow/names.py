"""The files that followed paths stand for, as they come and go, and the names of rotated files."""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.patterns import lazy_pattern
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
_TAG_AT_THE_END = lazy_pattern(rf"(.+?){_TAG}")
_TAG_BEFORE_THE_SUFFIX = lazy_pattern(rf"(.+?){_TAG}(\.[A-Za-z]\w*)")


def as_logs(path: Any) -> list[str]:
    """Return a list of paths for one path or several, after checking that they can be followed.

    Raises:
        UsageError: one of them is no path, or names a file that cannot be followed.
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
    """Return the names that a file may have had before it was rotated.

    For ``log.jsonl.1`` and ``log.1.jsonl``, that is ``log.jsonl``. The list is empty if the name is
    not that of a rotated file.
    """
    names = []
    for pattern in (_TAG_AT_THE_END, _TAG_BEFORE_THE_SUFFIX):
        match = pattern.fullmatch(name)
        if match is not None:
            names.append("".join(match.groups()))
    return names


def former_names(path: str) -> list[str]:
    """Return the paths that a file may have had before it was rotated; see `rotated_from`."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, former) for former in rotated_from(name)]


class Candidate(NamedTuple):
    """A file that was found and may have lines to read.

    Attributes:
        status: its status when it was found.
        path: its path.
        name: the followed path for which it is read: its own path, or the one that it may have had
            before it was rotated.
        is_member: whether it is a compressed file that is read for itself, as a file of a followed
            directory or glob, and not as a rotated log.
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
    """The files and directories for which a path of the caller stands.

    Attributes:
        names: the paths of followed files, whether or not they exist.
        directories: the directories that must be listed to find all of these files.
    """

    names: list[str]
    directories: list[str]


@dataclass(slots=True)
class _Folder:
    """A directory, and the files that it had when it was listed last.

    Attributes:
        path: path of the directory.
        entries: names of its files and directories, sorted.
        stamp: device, inode and time of its last change; empty if there is no such directory.
        changed: when a look last found another stamp; -inf for never.
        listed: when the directory was last listed; -inf for never.
    """

    path: str
    entries: list[str] = field(default_factory=list)
    stamp: tuple[int, ...] = ()
    changed: float = -inf
    listed: float = -inf


class Paths:
    """Finds the files for which the caller's paths stand: files, directories and globs.

    `look` is called again and again, since files come and go. Directories are only listed if they
    may have changed.

    Attributes:
        names: the paths of followed files, in order, whether or not such files exist.
        not_found: the caller's paths for which no file has been found yet, without those whose
            directories cannot be listed.
    """

    def __init__(self, paths: Sequence[str], patterns: Sequence[str], unread: Unread) -> None:
        """Prepare to look for files.

        Args:
            paths: the caller's files, directories and globs.
            patterns: globs of excluded files. A glob with a slash matches whole paths, any other
                matches names.
            unread: gets the directories that cannot be listed.
        """
        self.names: list[str] = []
        self.not_found: list[str] = []
        # The caller's paths without repeated slashes, by the path as the caller wrote it.
        self._paths = {path: os.path.join(*os.path.split(path)) for path in paths}
        # The caller's paths for which no file has been found yet.
        self._paths_without_file = list(paths)
        self._excluded_patterns = patterns
        self._unread = unread
        self._excluded: set[str] = set()
        self._folders: dict[str, _Folder] = {}
        # Globs of the names that are followed, by directory.
        self._patterns_by_directory: dict[str, list[str]] = {}
        # Directories that match a glob, with the time at which to look for them again.
        self._directories_by_glob: dict[str, tuple[float, list[str]]] = {}
        # The time of the current look, and whether it lists even unchanged directories.
        self._now = -inf
        self._at_once = False

    def exclude(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Do not follow these files, even if a directory or a glob includes them."""
        self._excluded.update(map(os.path.realpath, paths))

    def look(self, now: float, *, at_once: bool = False) -> bool:
        """Update the names of followed files, if they may have changed.

        Args:
            now: the time.
            at_once: whether to list directories even if their time stamps are the same as before.

        Returns:
            whether the names were updated.
        """
        is_first = self._now == -inf
        self._now = now
        self._at_once = at_once
        # A list, not a generator: `any` below must not stop at the first directory that was listed.
        listings = [self._list_if_changed(folder) for folder in list(self._folders.values())]
        is_glob_due = any(now >= due for due, _ in self._directories_by_glob.values())
        may_have_changed = is_first or any(listings) or is_glob_due
        if not may_have_changed:
            return False

        self._patterns_by_directory = {}
        expansions = {given_path: self._expand(path) for given_path, path in self._paths.items()}
        names = dict.fromkeys(name for expansion in expansions.values() for name in expansion.names)
        # Names that were followed before are not excluded, so they need no check.
        followed = set(self.names)
        self.names = [name for name in names if name in followed or not self._is_excluded(name)]
        self._paths_without_file = [
            path for path in self._paths_without_file if not self._has_file(expansions[path])
        ]
        self.not_found = [
            path
            for path in self._paths_without_file
            if self._are_listable(expansions[path].directories)
        ]
        return True

    def _has_file(self, expansion: _Expansion) -> bool:
        """Return whether one of the files of a caller's path exists."""
        if any(map(os.path.exists, expansion.names)):
            return True
        return any(
            self._is_compressed_member(directory, file_name)
            for directory in expansion.directories
            if directory in self._patterns_by_directory
            for file_name in self._folders[directory].entries
        )

    def _are_listable(self, directories: Iterable[str]) -> bool:
        """Return whether each directory can be listed or does not exist."""
        return not any(
            (directory or os.curdir) in self._unread.reasons for directory in directories
        )

    def _is_excluded(self, path: str) -> bool:
        """Return whether a file must not be followed: a glob or `exclude` excludes it."""
        for pattern in self._excluded_patterns:
            path_or_name = path
            if "/" not in pattern:
                path_or_name = os.path.basename(path)
            if fnmatchcase(path_or_name, pattern):
                return True
        if not self._excluded:
            return False
        return os.path.realpath(path) in self._excluded

    def _list_if_changed(self, folder: _Folder) -> bool:
        """List a directory if it may have changed since it was last listed.

        Args:
            folder: the directory; its `entries` are updated.

        Returns:
            whether the directory was listed.
        """
        # Find out whether the directory may have changed.
        try:
            status = os.stat(folder.path)
            stamp: tuple[int, ...] = (status.st_dev, status.st_ino, status.st_mtime_ns)
        except OSError:
            stamp = ()
        if stamp != folder.stamp:
            folder.stamp = stamp
            folder.changed = self._now

        # Shortly after a change, another one may not alter the time stamp.
        is_unsettled = folder.listed <= folder.changed + SETTLING_SECONDS
        is_due = folder.listed <= self._now - RELISTING_SECONDS
        may_have_changed = is_unsettled or is_due or self._at_once
        if not may_have_changed:
            return False

        # List it.
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
        """Return the files and directories for which a caller's path stands.

        The directories are listed, and are watched from now on.
        """
        directory, pattern = os.path.split(path)
        if os.path.isdir(path):
            # Compressed files are not followed, but `compressed` finds them by this pattern.
            self._matching_paths(path, MEMBERS + GZIP)
            return _Expansion(names=self._matching_paths(path, MEMBERS), directories=[path])

        is_single_file = os.path.lexists(path) or not glob.has_magic(path)
        if is_single_file:
            # `rotated` finds former versions of the file in the same directory.
            self._matching_paths(directory, glob.escape(pattern))
            return _Expansion(names=[path], directories=[directory])

        # A glob, perhaps over several directories.
        if pattern == "**":
            directory = path
            pattern = "*"
        if not glob.has_magic(directory):
            names = self._matching_paths(directory, pattern)
            return _Expansion(names, directories=[directory])
        directories = self._directories_of_glob(directory)
        names = []
        for matching_directory in directories:
            names += self._matching_paths(matching_directory, pattern)
        return _Expansion(names, directories=[_without_magic(directory), *directories])

    def _directories_of_glob(self, pattern: str) -> list[str]:
        """Return the directories that match a glob.

        They are searched at most every `GLOB_SECONDS`, or at each look with `at_once`.
        """
        due, directories = self._directories_by_glob.get(pattern, (-inf, []))
        if self._now >= due or self._at_once:
            self._check_listable(_without_magic(pattern))
            matches = [path.rstrip("/") or "/" for path in glob.glob(pattern, recursive=True)]
            directories = sorted(filter(os.path.isdir, matches))
            self._directories_by_glob[pattern] = (self._now + GLOB_SECONDS, directories)
        return directories

    def _check_listable(self, directory: str) -> None:
        """Add a directory to the unread ones if it cannot be listed; `glob` ignores such errors."""
        try:
            with os.scandir(directory or os.curdir):
                self._unread.forget(directory or os.curdir)
        except GONE:
            pass
        except OSError as error:
            self._unread.retry(directory or os.curdir, error)

    def _matching_paths(self, directory: str, pattern: str) -> list[str]:
        """Return the paths of files in a directory whose names match a glob.

        The directory is watched from now on, also for rotated files of this glob.
        """
        self._patterns_by_directory.setdefault(directory, []).append(pattern)
        folder = self._folders.get(directory)
        if folder is None:
            folder = self._folders[directory] = _Folder(directory or os.curdir)
            self._list_if_changed(folder)
        return [
            os.path.join(directory, file_name)
            for file_name in folder.entries
            if _is_log(file_name, pattern)
        ]

    def rotated(self) -> list[Candidate]:
        """Return the files that may be rotated logs and are not followed themselves.

        They come in the order of their last changes. Only directories that the last look has listed
        are searched, since nothing is new in the others.
        """
        listed_now = [
            path for path in self._patterns_by_directory if self._folders[path].listed == self._now
        ]
        return self._find_rotated(listed_now, is_compressed=False)

    def compressed(self) -> list[Candidate]:
        """Return the compressed files to read: rotated logs, and files of directories and globs.

        They come in the order of their last changes.
        """
        return self._find_rotated(list(self._patterns_by_directory), is_compressed=True)

    def _find_rotated(self, directories: Iterable[str], *, is_compressed: bool) -> list[Candidate]:
        """Return the files that may be rotated logs, in the order of their last changes.

        Args:
            directories: the directories to search.
            is_compressed: whether to return only compressed files, or only others. Compressed files
                of a directory or glob are returned even if they are not rotated.
        """
        followed = set(self.names)
        rotated = []
        for directory in directories:
            for file_name in self._folders[directory].entries:
                path = os.path.join(directory, file_name)
                if file_name.endswith(GZIP) != is_compressed or path in followed:
                    continue
                is_member = self._is_compressed_member(directory, file_name)
                names = list(self._followed_paths_before_rotation(directory, file_name))
                if is_member and not names:
                    names = [path.removesuffix(GZIP)]
                for name in names:
                    with suppress(OSError):
                        rotated.append(Candidate(os.stat(path), path, name, is_member))
        return sorted(rotated, key=lambda file: (file.status.st_mtime_ns, file.path))

    def _is_compressed_member(self, directory: str, file_name: str) -> bool:
        """Return whether a file is compressed and matches a directory or glob of the caller."""
        if not file_name.endswith(GZIP) or self._is_excluded(os.path.join(directory, file_name)):
            return False
        return any(fits(file_name, pattern) for pattern in self._patterns_by_directory[directory])

    def _followed_paths_before_rotation(self, directory: str, file_name: str) -> Iterator[str]:
        """Yield the followed paths that a file may have had before it was rotated.

        Args:
            directory: directory of the file.
            file_name: its present name, perhaps of a compressed file.
        """
        if self._is_excluded(os.path.join(directory, file_name)):
            return
        for former_name in rotated_from(file_name.removesuffix(GZIP)):
            is_followed = any(
                _is_log(former_name, pattern) for pattern in self._patterns_by_directory[directory]
            )
            former_path = os.path.join(directory, former_name)
            if is_followed and not self._is_excluded(former_path):
                yield former_path


def _is_log(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern and is not that of a compressed file."""
    return fits(name, pattern) and not name.endswith(COMPRESSED)


def _without_magic(pattern: str) -> str:
    """Return the first part of a glob: the directories before the first one with a wildcard."""
    directory = pattern
    while glob.has_magic(directory):
        directory = os.path.dirname(directory)
    return directory
