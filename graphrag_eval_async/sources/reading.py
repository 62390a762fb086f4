"""Lines of finished files, plain or compressed, and of standard input."""

from __future__ import annotations

import glob
import os
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import SourceError, UsageError, check_integer
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.documents import is_one_object_per_line, one_object_per_line
from graphrag_eval_async.sources.files import gunzipped, open_file, read_descriptor, unreadable
from graphrag_eval_async.sources.identity import generation_key, identify
from graphrag_eval_async.sources.lines import MAX_LINE_BYTES, cut, lines_of, split_lines
from graphrag_eval_async.sources.listing import MEMBERS, as_paths, fits
from graphrag_eval_async.sources.parquet import is_parquet
from graphrag_eval_async.sources.ranged import chunks_of, in_thread, remote_id, rows_of
from graphrag_eval_async.sources.remote import RemoteFile, is_address, list_remote, shown, suffix_of
from graphrag_eval_async.sources.shards import Window, as_shard, windows
from graphrag_eval_async.sources.shuffled import ShuffledLines, size_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from graphrag_eval_async.records import Record

STDIN = 0

TABLES = "*.parquet"
"""The Parquet files of a directory that are read."""


def read_jsonl(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    shuffle: int | None = None,
    shard: tuple[int, int] | str | None = None,
) -> JsonlFiles:
    """Read JSONL files to their ends, each line with its `position`.

    Args:
        path: a file, a directory (its ``*.jsonl``, ``*.jsonl.gz`` and ``*.parquet`` files), a glob, ``-`` for
            standard input, an address such as ``s3://bucket/logs`` for fsspec, or a list of these. Files of a
            directory or glob are read in order of their names, each file once. A path that exists is never
            read as a glob. A file whose name ends in ``.gz`` is decompressed; offsets refer to its
            decompressed text. Each object of an array is read as a line. Each row of a Parquet file is read
            as a line; its offset is the number of rows before it. Lines of a pipe have no positions.
        max_line_bytes: maximum length of a line; only the head of a longer line is read. `evaluate_stream`
            uses its own limit.
        shuffle: a seed, 0 or more, to read the lines of all files in random order, reproducible with the
            seed. Reads the files twice and takes 16 bytes of memory per line. All files must be regular and
            not compressed.
        shard: which part to read, of how many: ``(0, 3)`` or ``"0/3"`` is the first third of all bytes. A
            line, a row group, or a compressed file belongs to the shard in whose bytes it begins. Results of
            a shard have no `sample`.

    Returns:
        an asynchronous iterable of lines, which `evaluate_stream` accepts. Iterating raises `SourceError` if
        a file is missing, cannot be read, or is an incomplete gzip file, after yielding the lines before.

    Raises:
        UsageError: an argument has an invalid value.
    """
    return JsonlFiles(path, max_line_bytes=max_line_bytes, shuffle=shuffle, shard=shard)


class JsonlFiles:
    """Lines of files that are read to their ends; made by `read_jsonl`.

    Attributes:
        consumed: bytes on disk read so far.
        lines: number of lines that are not blank; None unless lines are shuffled.
        documents: whether each object of an array is read as a line.
        shard: the part that is read, if not all.
    """

    def __init__(
        self,
        path: Any,
        *,
        max_line_bytes: int,
        shuffle: int | None = None,
        shard: tuple[int, int] | str | None = None,
    ) -> None:
        """See `read_jsonl`."""
        self.consumed = 0
        self.lines: int | None = None
        self.documents = True
        self._paths = as_paths(path)
        self._excluded: set[str] = set()
        check_integer("max_line_bytes", max_line_bytes)
        self._max_line_bytes = max_line_bytes
        if shuffle is not None:
            _check_shuffled(shuffle, self._paths)
        if shard is not None:
            require_posix("shard")
            if shuffle is not None:
                raise UsageError("shard: cannot be combined with shuffle")
        self.shard = None if shard is None else as_shard(shard)
        self._seed = shuffle
        self._size: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether others read the rest."""
        return self.shard is not None

    @property
    def size(self) -> int | None:
        """Size of all files on disk in bytes; None if not known. Reads the status of the files."""
        if self._size is None:
            with suppress(SourceError, OSError, ValueError):
                self._size = sum(
                    _size(path) if end is None else end - start for path, start, end in self._windows()
                )
        return self._size

    @property
    def can_be_shuffled(self) -> bool:
        """Whether all files are regular and not compressed. Reads the status of the files."""
        try:
            files = self._files()
        except (SourceError, ValueError):
            return False
        return all(
            path != "-"
            and os.path.isfile(path)
            and not is_parquet(path)
            and not path.endswith(".gz")
            and (not self.documents or is_one_object_per_line(path))
            for path in files
        )

    def exclude(self, paths: Iterable[str]) -> None:
        """Skip these files in directories and globs."""
        self._excluded.update(map(os.path.realpath, paths))

    def _files(self) -> list[str]:
        return [
            file
            for file in expand(self._paths)
            if file in self._paths or not self._excluded or os.path.realpath(file) not in self._excluded
        ]

    def _windows(self) -> list[Window]:
        """What is read, in order."""
        files = self._files()
        return [*map(Window, files)] if self.shard is None else windows(files, self.shard)

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches(max_line_bytes=self._max_line_bytes))

    def batches(self, *, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
        """The lines, in batches of those read together; the options are those of `split_lines`.

        Raises:
            SourceError: a file cannot be read.
        """
        if self._seed is None:
            return self._in_order(max_line_bytes)
        return self._shuffled(self._seed, max_line_bytes)

    async def _shuffled(self, seed: int, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
        shuffled = ShuffledLines(max_line_bytes)
        for path, *_ in await self._begin():
            if is_address(path) or is_parquet(path):
                raise SourceError(f"{shown(path)}: cannot be shuffled: only local files of JSON lines can")
            await shuffled.add(path)
        await shuffled.shuffle(seed)
        self.lines = shuffled.count
        batches = shuffled.batches()
        try:
            async for lines in batches:
                self.consumed += sum(map(size_of, lines))
                yield lines
        finally:
            await batches.aclose()

    async def _in_order(self, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
        for window in await self._begin():
            if is_address(window.path) or await in_thread(partial(is_parquet, window.path)):
                batches = await self._other(window, max_line_bytes)
            else:
                batches = self._local(window, max_line_bytes)
            try:
                async for lines in batches:
                    yield lines
            finally:
                await batches.aclose()

    async def _other(self, window: Window, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
        """The lines of a Parquet file, or of a file at an address."""
        path, first, end = window
        remote = await in_thread(partial(RemoteFile, path)) if is_address(path) else None
        if remote is None:
            file = _id_of(path, is_part=self.is_part)
        else:
            file = remote_id(remote, is_part=self.is_part)
        if file is None:
            raise SourceError(f"{path}: Parquet cannot be read from a pipe, only from a file")
        if remote is None or await in_thread(partial(is_parquet, path)):
            return rows_of(window, file, remote, max_line_bytes, self._advance)
        start = max(0, first - 1)
        chunks = chunks_of(remote, start, remote.size if end is None else end, self._advance)
        if suffix_of(path) == ".gz":
            chunks = gunzipped(chunks, remote.name)
        if self.documents and not start:
            chunks = one_object_per_line(chunks)
        return split_lines(chunks, max_line_bytes=max_line_bytes, file=file, offset=start)

    def _advance(self, size: int) -> None:
        self.consumed += size

    async def _local(self, window: Window, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
        path, first, end = window
        # With the newline before, so that the first line is read as it is in the whole file.
        start = max(0, first - 1)
        descriptor = STDIN if path == "-" else open_file(path)
        try:
            file = _file_id(path, descriptor, is_part=self.is_part)
            chunks = self._chunks(Window(path, start, end), descriptor)
            if path.endswith(".gz"):
                chunks = gunzipped(chunks, path)
            if self.documents and not start:
                chunks = one_object_per_line(chunks)
            batches = split_lines(chunks, max_line_bytes=max_line_bytes, file=file, offset=start)
            try:
                async for lines in batches:
                    yield lines
            finally:
                await batches.aclose()
        finally:
            if descriptor != STDIN:
                os.close(descriptor)

    async def _begin(self) -> list[Window]:
        """What to read, in order."""
        self.consumed = 0
        return await in_thread(self._windows)

    async def _chunks(self, window: Window, descriptor: int) -> AsyncGenerator[bytes]:
        path, place, end = window
        if place:
            os.lseek(descriptor, place, os.SEEK_SET)
        chunks = read_descriptor(descriptor, path)
        try:
            async for chunk in chunks:
                for whole in cut(chunk):  # So small that `consumed` keeps pace with the work.
                    piece = whole if end is None else whole[: max(0, end - place)]
                    place += len(whole)
                    self.consumed += len(piece)
                    yield piece
                if end is not None and place >= end:
                    break
        finally:
            await chunks.aclose()


def _check_shuffled(seed: Any, paths: Sequence[str]) -> None:
    """Check the paths themselves; files of directories and globs are checked when they are read."""
    require_posix("shuffle")
    check_integer("shuffle", seed, 0)
    if "-" in paths:
        raise UsageError("shuffle: cannot shuffle standard input, only files")
    for path in paths:
        if path.endswith(".gz") and not os.path.isdir(path):
            raise UsageError(f"shuffle: {path}: cannot shuffle a compressed file; decompress it first")


def expand(paths: Sequence[str]) -> list[str]:
    """The files that paths, directories and globs stand for."""
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: str) -> list[str]:
    if path == "-":
        return [path]
    if is_address(path):
        return list_remote(path, _is_member)
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
        files = [file for file in sorted(glob.glob(path, recursive=True)) if not os.path.isdir(file)]
        problem = "there is no such file, and none that it fits as a pattern"
    if not files:
        raise SourceError(f"{path}: {problem}")
    return files


def _is_member(name: str) -> bool:
    """Whether a file of a directory is read."""
    return fits(name.removesuffix(".gz"), MEMBERS) or fits(name, TABLES)


def _size(path: str) -> int:
    if is_address(path):
        return RemoteFile(path).size
    status = os.fstat(STDIN) if path == "-" else os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: has no size")
    return status.st_size - (os.lseek(STDIN, 0, os.SEEK_CUR) if path == "-" else 0)


def _id_of(path: str, *, is_part: bool) -> FileId | None:
    descriptor = open_file(path)
    try:
        return _file_id(path, descriptor, is_part=is_part)
    finally:
        os.close(descriptor)


def _file_id(path: str, descriptor: int, *, is_part: bool) -> FileId | None:
    """None for a pipe, and for standard input, which may begin anywhere in its file."""
    if path == "-" or not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    return FileId(path, generation_key(identify(descriptor).root, 0), is_part=is_part)
