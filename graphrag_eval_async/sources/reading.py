"""Lines of finished files, plain or compressed, and of standard input."""

from __future__ import annotations

import glob
import os
from functools import cached_property
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, cast

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
from graphrag_eval_async.sources.remote import RemoteFile, find_remote, is_address, shown, suffix_of
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
        for each in paths:  # Files of directories and globs are checked when they are read.
            if each == "-" or (each.endswith(".gz") and not os.path.isdir(each)):
                raise UsageError(
                    f"shuffle: {each} cannot be shuffled, only files that are not compressed"
                )
    if shard is not None:
        require_posix("shard")
        if shuffle is not None:
            raise UsageError("shard: cannot be combined with shuffle")
        for address in filter(is_address, paths):
            raise UsageError(
                f"{shown(address)}: remote files cannot be read in shards; download them, or give "
                "each process files of its own"
            )
    return JsonlFiles(paths, shuffle, None if shard is None else as_shard(shard))


def read_result_files(path: str | os.PathLike[str]) -> JsonlFiles:
    """Read results like `read_jsonl`, also from Parquet files, as ``-o results.parquet`` writes
    them.
    """
    return JsonlFiles(as_paths(path, tables=True), tables=True)


class JsonlFiles:
    """Lines of files that are read to their ends; made by `read_jsonl`."""

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
        """Prepare to read all files, their part `shard`, or only the lines in `window`.

        With a shard, or if this `is_part` of what several runs evaluate, lines have no numbers.
        With `tables`, Parquet files are read, too.
        """
        self.consumed = 0  # Bytes on disk read so far.
        # Number of lines that are not blank; None unless lines are shuffled.
        self.lines: int | None = None
        self.shard = shard  # The part that is read, if not all.
        self.is_part = is_part or shard is not None
        self._window = window
        self._paths = paths
        self._excluded: set[str] = set()
        self._seed = seed
        self._reads_tables = tables

    @cached_property
    def size(self) -> int | None:
        """Size of all files on disk in bytes; None if not known. Reads the status of the files."""
        try:
            return sum(
                file_size(path) if end is None else end - start
                for path, start, end in self._windows()
            )
        except SourceError:
            return None

    @property
    def can_be_shuffled(self) -> bool:
        """Whether all files are regular and not compressed. Reads the status of the files."""
        try:
            return not any(map(cannot_be_cut, self._files()))
        except SourceError:
            return False

    def exclude(self, paths: Iterable[str]) -> None:
        """Skip these files in directories and globs."""
        self._excluded.update(map(os.path.realpath, paths))

    def _files(self) -> list[str]:
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
        """What is read, in order."""
        if self._window is not None:
            return [self._window]
        files = self._files()
        return [*map(Window, files)] if self.shard is None else windows(files, self.shard)

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches())

    async def batches(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        documents: bool = True,
        may_grow: bool = False,
    ) -> AsyncGenerator[list[Record]]:
        """The lines, in batches, which may be empty.

        With `documents`, each object of an array is a line. If files `may_grow`, a last line
        without a newline is not `whole`, except in files that are compressed or at an address, and
        in pipes.
        """
        self.consumed = 0
        if self._seed is None:
            sources = [
                self._read(window, unopened, max_line_bytes, documents, may_grow)
                for window, unopened in await in_thread(self._find)
            ]
        else:
            shuffled = ShuffledLines(max_line_bytes)
            for path in await in_thread(self._files):
                await shuffled.add(path)
            self.lines = len(shuffled)
            sources = [shuffled.batches(self._seed, self._count)]
        for source in sources:
            try:
                async for lines in source:
                    yield lines
            finally:
                await source.aclose()

    def _count(self, size: int) -> None:
        self.consumed += size

    def _find(self) -> list[tuple[Window, OpenFile | None]]:
        """Return what to read, in order, with the unopened file if it is at an address.

        Asks servers for lists of files: call it in a thread.
        """
        found: list[tuple[Window, OpenFile | None]] = []
        for window in self._windows():
            if is_address(window.path):
                remote = find_remote(window.path)
                if not self._reads_tables:
                    check_no_parquet(name for name, _ in remote)
                found += [(Window(name), unopened) for name, unopened in remote]
            else:
                found.append((window, None))
        return found

    async def _read(
        self,
        window: Window,
        unopened: OpenFile | None,
        max_line_bytes: int,
        documents: bool,
        may_grow: bool,
    ) -> AsyncGenerator[list[Record]]:
        """The lines of a file here, or of a part of it, or of an `unopened` file at an address."""
        path, first, end = window
        file, id_ = await in_thread(self._open, path, unopened)
        try:
            if suffix_of(path) in PARQUET and id_ is not None:
                batches = lines_of_rows(file, id_)
            else:
                # With the newline before, so that the first line is read as it is in the whole
                # file.
                start = max(0, first - 1)
                if start:
                    file.seek(start)
                pieces = read_pieces(file, path, end, self._count)
                is_plain = id_ is not None and not is_address(path) and suffix_of(path) != ".gz"
                batches = split_lines(
                    pieces,
                    max_line_bytes=max_line_bytes,
                    file=id_,
                    offset=start,
                    documents=documents and not start,
                    may_grow=may_grow and is_plain,
                )
            try:
                async for lines in batches:
                    yield lines
            finally:
                await batches.aclose()
        finally:
            file.close()

    def _open(self, path: str, unopened: OpenFile | None) -> tuple[BinaryIO, FileId | None]:
        if unopened is not None:
            remote = RemoteFile(path, unopened)
            return cast("BinaryIO", remote), FileId(path, f"{remote.key}-0")
        file = open_binary(path)
        return file, _id_of(file, path, is_part=self.is_part)


def expand(paths: Sequence[str]) -> list[str]:
    """The files that paths, directories and globs stand for; addresses as they are."""
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def response_files(paths: Any) -> list[str]:
    """The files of responses that one path or several stand for; addresses as they are.

    Raises:
        UsageError: one of the paths is no path, or of a file that holds no lines of JSON.
        SourceError: a directory or a glob has no file of responses.
    """
    files = expand(as_paths(paths))
    check_no_parquet(files)
    return files


def _files(path: str) -> list[str]:
    if path == "-" or is_address(path):
        return [path]
    if os.path.isdir(path):
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            raise unreadable(path, error) from error
        files = [os.path.join(path, name) for name in names if _is_member(name)]
        problem = f"cannot be read: there is no {MEMBERS}, {MEMBERS}.gz or {TABLES} in it"
    elif os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    else:
        files = [
            file for file in sorted(glob.glob(path, recursive=True)) if not os.path.isdir(file)
        ]
        problem = "there is no such file, and no file matches it as a pattern"
    if not files:
        raise SourceError(f"{path}: {problem}")
    return files


def _is_member(name: str) -> bool:
    """Whether a file of a directory is read."""
    return fits(name.removesuffix(".gz"), MEMBERS) or fits(name, TABLES)


def _id_of(file: BinaryIO, path: str, *, is_part: bool) -> FileId | None:
    """None for a pipe, and for standard input, which may begin anywhere in its file."""
    status = os.fstat(file.fileno())
    if path == "-" or not S_ISREG(status.st_mode):
        return None
    return FileId(path, key_of(status), is_part=is_part)
