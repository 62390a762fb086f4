"""Lines of finished files, plain or compressed, and of standard input."""

from __future__ import annotations

import glob
import os
from contextlib import ExitStack
from functools import cached_property
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphrag_eval_async.errors import SourceError, UsageError, check_integer
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import FileId
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.sources.files import (
    file_size,
    in_thread,
    open_binary,
    read_pieces,
    unreadable,
)
from graphrag_eval_async.sources.lines import lines_of, split_lines
from graphrag_eval_async.sources.parquet import lines_of_rows
from graphrag_eval_async.sources.paths import (
    MEMBERS,
    PARQUET,
    as_paths,
    check_no_parquet,
    fits,
    key_of,
)
from graphrag_eval_async.sources.remote import (
    RemoteFile,
    find_remote,
    is_address,
    suffix_of,
    without_secrets,
)
from graphrag_eval_async.sources.shards import Shard, Window, as_shard, cannot_be_cut, windows
from graphrag_eval_async.sources.shuffled import ShuffledLines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence
    from typing import BinaryIO

    from fsspec.core import OpenFile

    from graphrag_eval_async.records import Record

TABLES = "*.parquet"
"""The Parquet files of a directory, which may hold results."""


@without_removed("max_line_bytes")
def read_jsonl(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    shuffle: int | None = None,
    shard: tuple[int, int] | str | None = None,
) -> JsonlFiles:
    """Read JSONL files to their ends, each line with its `position`.

    Args:
        path: a file, a directory (its ``*.jsonl`` and ``*.jsonl.gz`` files), a glob, ``-`` for
            standard input, an address, or a list of these. Files of a directory or glob are read in
            order of their names, each file once. A path that exists is never read as a glob. A file
            whose name ends in ``.gz`` is decompressed; offsets refer to its decompressed text. Each
            object of an array, of up to 256 MiB, is read as a line. Lines of a pipe have no
            positions. Addresses, such as ``s3://bucket/*.jsonl``, are read by fsspec, with its
            globs. Credentials come from the environment; errors and results hide passwords and
            queries of addresses.
        shuffle: a seed, 0 or more, to read the lines of all files in random order, reproducible
            with the seed. Reads the files twice and takes 16 bytes of memory per line. All files
            must be regular and not compressed.
        shard: which part to read, of how many: ``(0, 3)`` or ``"0/3"`` is the first third of all
            bytes. A line, or a file that cannot be split (compressed, or a JSON array) belongs to
            the shard in whose bytes it begins. All shards must read the same version of the files,
            which are on this machine. Results of a shard have no `sample`.

    Returns:
        an asynchronous iterable of lines, which `evaluate_stream` accepts. Iterating raises
        `SourceError` if a file is missing, cannot be read, or is an incomplete gzip file, after
        yielding the lines before.

    Raises:
        UsageError: an argument has an invalid value.
    """
    paths = as_paths(path)
    if shuffle is not None:
        require_posix("shuffle")
        check_integer("shuffle", shuffle, 0)
        if shard is not None:
            raise UsageError("shard: cannot be combined with shuffle")
        for name in paths:
            _check_can_be_shuffled(name)
    if shard is None:
        return JsonlFiles(paths, shuffle)

    require_posix("shard")
    for name in paths:
        if is_address(name):
            raise UsageError(
                f"{without_secrets(name)}: remote files cannot be read in shards; download them, "
                "or give each process files of its own"
            )
    return JsonlFiles(paths, shard=as_shard(shard))


def _check_can_be_shuffled(path: str) -> None:
    """Raise a `UsageError` if a path, by its name, can only be read from start to end.

    Files of directories and globs are checked when they are read.
    """
    if path == "-" or (path.endswith(".gz") and not os.path.isdir(path)):
        raise UsageError(f"shuffle: {path} cannot be shuffled, only files that are not compressed")


def read_result_files(path: str | os.PathLike[str]) -> JsonlFiles:
    """Read results like `read_jsonl`, and also from Parquet files, which ``-o`` can write."""
    return JsonlFiles(as_paths(path, tables=True), tables=True)


class _Part(NamedTuple):
    """A file to read, or a part of it."""

    window: Window
    unopened: OpenFile | None = None  # The file, if it is at an address.


class JsonlFiles:
    """Lines of files that are read to their ends; made by `read_jsonl`.

    Attributes:
        consumed: bytes on disk read so far.
        lines: number of lines that are not blank; None unless lines are shuffled.
        shard: the part of all files that is read, if not all.
        is_part: whether other runs evaluate other parts.
    """

    def __init__(
        self,
        paths: list[str],
        seed: int | None = None,
        shard: Shard | None = None,
        *,
        window: Window | None = None,
        is_part: bool = False,
        tables: bool = False,
    ) -> None:
        """Prepare to read files.

        Args:
            paths: paths of files, directories and globs.
            seed: reads lines in random order, by this seed.
            shard: reads only this part; lines have no numbers.
            window: reads only the lines in it, whatever `paths` are.
            is_part: whether several runs evaluate parts of the same input; lines have no numbers.
            tables: reads Parquet files, too.
        """
        self.consumed = 0
        self.lines: int | None = None
        self.shard = shard
        self.is_part = is_part or shard is not None
        self._window = window
        self._paths = paths
        self._excluded: set[str] = set()
        self._seed = seed
        self._reads_tables = tables

    @cached_property
    def size(self) -> int | None:
        """Size of all files on disk in bytes; None if not known. Reads the status of the files."""
        total = 0
        try:
            for window in self._windows():
                if window.end is None:
                    total += file_size(window.path)
                else:
                    total += window.end - window.start
        except SourceError:
            return None
        return total

    @property
    def can_be_shuffled(self) -> bool:
        """Whether all files are regular and not compressed. Reads the status of the files."""
        try:
            return all(cannot_be_cut(path) is None for path in self._files())
        except SourceError:
            return False

    def exclude(self, paths: Iterable[str]) -> None:
        """Skip these files in directories and globs."""
        self._excluded.update(os.path.realpath(path) for path in paths)

    def _files(self) -> list[str]:
        """Return the paths of all files, without those that are excluded."""
        files = expand(self._paths)
        if not self._reads_tables:
            check_no_parquet(files)
        if not self._excluded:
            return files
        return [
            path
            for path in files
            if path in self._paths or os.path.realpath(path) not in self._excluded
        ]

    def _windows(self) -> list[Window]:
        """Return what to read, in order."""
        if self._window is not None:
            return [self._window]
        files = self._files()
        if self.shard is not None:
            return windows(files, self.shard)
        return [Window(path) for path in files]

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches())

    async def batches(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        documents: bool = True,
        may_grow: bool = False,
    ) -> AsyncGenerator[list[Record]]:
        """Yield the lines, in batches, which may be empty.

        Args:
            max_line_bytes: maximum length of a line; longer ones are yielded as `LongLine`.
            documents: whether each object of an array is a line.
            may_grow: whether a last line without a newline is not `whole`. In files that are
                compressed or at an address, and in pipes, it always is.

        Raises:
            SourceError: a file cannot be read, after the lines before.
        """
        self.consumed = 0
        if self._seed is None:
            parts = await in_thread(self._find_parts)
            sources = [
                self._read_part(
                    part, max_line_bytes=max_line_bytes, documents=documents, may_grow=may_grow
                )
                for part in parts
            ]
        else:
            shuffled = ShuffledLines(max_line_bytes)
            for path in await in_thread(self._files):
                await shuffled.add(path)
            self.lines = len(shuffled)
            sources = [shuffled.batches(self._seed, self._count_consumed)]

        for source in sources:
            try:
                async for lines in source:
                    yield lines
            finally:
                await source.aclose()

    def _count_consumed(self, size: int) -> None:
        self.consumed += size

    def _find_parts(self) -> list[_Part]:
        """Return what to read, in order.

        Asks servers for lists of files: call it in a thread.
        """
        parts = []
        for window in self._windows():
            if not is_address(window.path):
                parts.append(_Part(window))
                continue
            remote_files = find_remote(window.path)
            if not self._reads_tables:
                check_no_parquet(remote.name for remote in remote_files)
            parts += [_Part(Window(remote.name), unopened=remote.file) for remote in remote_files]
        return parts

    async def _read_part(
        self, part: _Part, *, max_line_bytes: int, documents: bool, may_grow: bool
    ) -> AsyncGenerator[list[Record]]:
        """Yield the lines of a file or of a part of it; the arguments are those of `batches`."""
        path = part.window.path
        # If opening is cancelled, its thread has still opened the file.
        opened_files = ExitStack()
        try:
            file, id_ = await in_thread(self._open, part, opened_files)
            if suffix_of(path) in PARQUET and id_ is not None:
                batches = lines_of_rows(file, id_)
            else:
                # Begins with the newline before a window, so that its first line is read like any
                # other line of the file, not like the first one.
                start = max(0, part.window.start - 1)
                if start > 0:
                    file.seek(start)
                is_plain_file = (
                    id_ is not None and not is_address(path) and suffix_of(path) != ".gz"
                )
                batches = split_lines(
                    read_pieces(file, path, part.window.end, self._count_consumed),
                    max_line_bytes=max_line_bytes,
                    file=id_,
                    offset=start,
                    documents=documents and start == 0,
                    may_grow=may_grow and is_plain_file,
                )
            try:
                async for lines in batches:
                    yield lines
            finally:
                await batches.aclose()
        finally:
            opened_files.close()

    def _open(self, part: _Part, opened_files: ExitStack) -> tuple[BinaryIO, FileId | None]:
        """Open a file, which `opened_files` closes.

        Returns:
            the file with its id, which is None if positions in it mean nothing.
        """
        path = part.window.path
        if part.unopened is not None:
            remote = opened_files.enter_context(RemoteFile(path, part.unopened))
            return cast("BinaryIO", remote), FileId(path, f"{remote.key}-0")
        file = opened_files.enter_context(open_binary(path))
        return file, _id_of(file, path, is_part=self.is_part)


def expand(paths: Sequence[str]) -> list[str]:
    """Return the files that paths, directories and globs stand for; addresses as they are.

    Raises:
        SourceError: a directory or a glob has no file of responses.
    """
    files = []
    for path in paths:
        files += _files_at(path)
    # Each file once, in this order.
    return list(dict.fromkeys(files))


def response_files(paths: Any) -> list[str]:
    """Return the files of responses that one path or several stand for; addresses as they are.

    Raises:
        UsageError: one of the paths is no path, or of a file that holds no lines of JSON.
        SourceError: a directory or a glob has no file of responses.
    """
    files = expand(as_paths(paths))
    check_no_parquet(files)
    return files


def _files_at(path: str) -> list[str]:
    """Return the files that a path stands for."""
    if path == "-" or is_address(path):
        return [path]
    if os.path.isdir(path):
        return _members(path)
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]

    matches = sorted(glob.glob(path, recursive=True))
    files = [match for match in matches if not os.path.isdir(match)]
    if not files:
        raise SourceError(f"{path}: there is no such file, and no file matches it as a pattern")
    return files


def _members(folder: str) -> list[str]:
    """Return the files of a directory that are read, by name."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise unreadable(folder, error) from error
    files = [os.path.join(folder, name) for name in names if _is_member(name)]
    if not files:
        raise SourceError(
            f"{folder}: cannot be read: there is no {MEMBERS}, {MEMBERS}.gz or {TABLES} in it"
        )
    return files


def _is_member(name: str) -> bool:
    """Return whether a file of a directory is read."""
    return fits(name.removesuffix(".gz"), MEMBERS) or fits(name, TABLES)


def _id_of(file: BinaryIO, path: str, *, is_part: bool) -> FileId | None:
    """Return the id of an open file.

    It is None for a pipe, and for standard input, which may begin anywhere in its file.
    """
    status = os.fstat(file.fileno())
    if path == "-" or not S_ISREG(status.st_mode):
        return None
    return FileId(path, key_of(status), is_part=is_part)
