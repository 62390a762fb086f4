"""Reads the lines of finished files, plain or compressed, and of standard input."""

from __future__ import annotations

import glob
import logging
import os
from contextlib import ExitStack
from functools import cache, cached_property
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphrag_eval_async.errors import SourceError, UsageError, check_integer
from graphrag_eval_async.helpers.posix import require_posix
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

LOGGER = logging.getLogger("graphrag_eval_async.sources")

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
        check_integer("shuffle", shuffle, least=0)
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
    """Check by its name that a file can be read in random order.

    Files of directories and globs are checked when they are read.

    Raises:
        UsageError: the path is standard input or a compressed file.
    """
    is_compressed = path.endswith(".gz") and not os.path.isdir(path)
    if path == "-" or is_compressed:
        raise UsageError(f"shuffle: {path} cannot be shuffled, only files that are not compressed")


def read_result_files(path: str | os.PathLike[str]) -> JsonlFiles:
    """Read results like `read_jsonl`, and also from Parquet files, which ``-o`` can write."""
    return JsonlFiles(as_paths(path, tables=True), tables=True)


class _Part(NamedTuple):
    """A file to read, or a part of it.

    Attributes:
        window: the file, and where to begin and end.
        unopened: opens the file if it is at an address; None for a local file.
    """

    window: Window
    unopened: OpenFile | None = None


class JsonlFiles:
    """Lines of files that are read to their ends; made by `read_jsonl`.

    Attributes:
        consumed: number of bytes that were read from disk so far.
        lines: number of lines that are not blank; None unless lines are shuffled.
        shard: the part of all files that is read; None for all of them.
        is_part: whether other runs evaluate other parts of the same input.
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
            seed: seed of the random order in which lines are read; None for their own order.
            shard: the part of all files to read; None for all of them.
            window: the part of a single file to read, in place of `paths`.
            is_part: whether other runs evaluate other parts of the same input. Then, as with
                `shard`, lines have no numbers.
            tables: whether to read Parquet files, too.
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
        """Number of bytes to read from disk; None if it is not known.

        Looks up the sizes of all files.
        """
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
        """Whether lines can be read in random order: all files are regular and not compressed.

        Looks at all files.
        """
        try:
            return all(cannot_be_cut(path) is None for path in self._files())
        except SourceError:
            return False

    def exclude(self, paths: Iterable[str]) -> None:
        """Skip these files where directories and globs include them."""
        self._excluded.update(os.path.realpath(path) for path in paths)

    def _files(self) -> list[str]:
        """Return the paths of all files to read.

        Raises:
            UsageError: one of them is a Parquet file, and these are not read.
            SourceError: a directory or a glob has no file of responses.
        """
        files = expand(self._paths)
        if not self._reads_tables:
            check_no_parquet(files)
        if not self._excluded:
            return files
        # A file that the caller names itself is read even if it is excluded.
        return [
            path
            for path in files
            if path in self._paths or os.path.realpath(path) not in self._excluded
        ]

    def _windows(self) -> list[Window]:
        """Return the parts of files to read, in order."""
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
        """Yield the lines in batches, which may be empty.

        Args:
            max_line_bytes: maximum length of a line; longer ones are yielded as `LongLine`.
            documents: whether each object of a file that is a JSON array is a line.
            may_grow: whether lines may be added to the files later. Then a last line without a
                newline is not `whole`, except in compressed and remote files and in pipes.

        Raises:
            SourceError: a file cannot be read. The lines before are yielded first.
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
        """Add a number of bytes that were read to `consumed`."""
        self.consumed += size

    def _find_parts(self) -> list[_Part]:
        """Return the parts of files to read, in order, including those of remote files.

        Asks servers for lists of files, so call it in a thread.
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
        """Open a file, yield the lines of a part of it or of all of it, and close it.

        Args:
            part: the part to read.
            max_line_bytes: maximum length of a line; longer ones are yielded as `LongLine`.
            documents: whether each object of a file that is a JSON array is a line.
            may_grow: whether lines may be added to the file later.
        """
        # Also closes the file if this task is cancelled while a thread opens it.
        opened_files = ExitStack()
        try:
            file, id_ = await in_thread(self._open_part, part, opened_files)
            if suffix_of(part.window.path) in PARQUET and id_ is not None:
                batches = lines_of_rows(file, id_)
            else:
                batches = self._split_part(
                    part,
                    file,
                    id_,
                    max_line_bytes=max_line_bytes,
                    documents=documents,
                    may_grow=may_grow,
                )
            try:
                async for lines in batches:
                    yield lines
            finally:
                await batches.aclose()
        finally:
            opened_files.close()

    def _split_part(
        self,
        part: _Part,
        file: BinaryIO,
        id_: FileId | None,
        *,
        max_line_bytes: int,
        documents: bool,
        may_grow: bool,
    ) -> AsyncGenerator[list[Record]]:
        """Return the lines of an open file of text, or of a part of it, in batches.

        Args:
            part: the part to read.
            file: the open file.
            id_: the file as its lines name it; None for a pipe and for standard input.
            max_line_bytes: maximum length of a line; longer ones are yielded as `LongLine`.
            documents: whether each object of a file that is a JSON array is a line.
            may_grow: whether lines may be added to the file later.
        """
        path = part.window.path
        # A splitter treats the first line that it sees as the first one of the file. So a window
        # that begins within the file is read from the line feed before it: the splitter then sees
        # a blank first line, which is not yielded.
        start = max(0, part.window.start - 1)
        is_whole_file = start == 0
        if not is_whole_file:
            file.seek(start)
        is_compressed = suffix_of(path) == ".gz"
        is_plain_file = id_ is not None and not is_address(path) and not is_compressed
        return split_lines(
            read_pieces(file, path, end=part.window.end, on_read=self._count_consumed),
            max_line_bytes=max_line_bytes,
            file=id_,
            offset=start,
            documents=documents and is_whole_file,
            may_grow=may_grow and is_plain_file,
        )

    def _open_part(self, part: _Part, opened_files: ExitStack) -> tuple[BinaryIO, FileId | None]:
        """Open the file of a part.

        Args:
            part: the part.
            opened_files: closes the file later.

        Returns:
            the file, and its id for the positions of lines. The id is None for a pipe and for
            standard input, whose lines have no positions.
        """
        path = part.window.path
        if part.unopened is not None:
            remote = opened_files.enter_context(RemoteFile(path, part.unopened))
            return cast("BinaryIO", remote), FileId(path, f"{remote.key}-0")
        file = opened_files.enter_context(open_binary(path))
        return file, _id_of(file, path, is_part=self.is_part)


def expand(paths: Sequence[str]) -> list[str]:
    """Replace directories and globs by the files in them; keep other paths and addresses.

    Each file is returned once.

    Raises:
        SourceError: a directory or a glob has no file of responses.
    """
    files = []
    for path in paths:
        files += _files_at(path)
    # Removes repetitions and keeps the order.
    return list(dict.fromkeys(files))


def response_files(paths: Any) -> list[str]:
    """Check one path or several, and return the files of responses in them, as `expand` does.

    Raises:
        UsageError: one of the paths is no path, or names a file that has no lines of JSON.
        SourceError: a directory or a glob has no file of responses.
    """
    files = expand(as_paths(paths))
    check_no_parquet(files)
    return files


def _files_at(path: str) -> list[str]:
    """Return the files in a directory or a glob; any other path as it is.

    Raises:
        SourceError: a directory or a glob has no file of responses.
    """
    if path == "-" or is_address(path):
        return [path]
    if os.path.isdir(path):
        return _files_in_directory(path)
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]

    matches = sorted(glob.glob(path, recursive=True))
    files = [match for match in matches if not os.path.isdir(match)]
    files = _without_special_files(files)
    if not files:
        raise SourceError(f"{path}: there is no such file, and no file matches it as a pattern")
    return files


def _files_in_directory(folder: str) -> list[str]:
    """Return the files of responses or results in a directory, in the order of their names.

    Raises:
        SourceError: the directory cannot be read, or has no such file.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise unreadable(folder, error) from error
    files = [os.path.join(folder, name) for name in names if _is_read_from_directory(name)]
    files = _without_special_files(files)
    if not files:
        raise SourceError(
            f"{folder}: cannot be read: there is no {MEMBERS}, {MEMBERS}.gz or {TABLES} in it"
        )
    return files


def _without_special_files(paths: Iterable[str]) -> list[str]:
    """Return the paths of files, except named pipes, sockets and devices, which are skipped.

    Nobody has named these files, and a named pipe without a writer would be waited for for ever.
    """
    files = []
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except OSError:
            # Reading the file will say what is wrong.
            files.append(path)
            continue
        if S_ISREG(mode) or S_ISDIR(mode):
            files.append(path)
        else:
            _warn_of_special_file(path)
    return files


@cache  # Paths are expanded more than once, and a warning should come once.
def _warn_of_special_file(path: str) -> None:
    """Log that a file of a directory or a glob is skipped, since it is no regular file."""
    LOGGER.warning("%s: skipped: a pipe, socket or device; name it itself to read it", path)


def _is_read_from_directory(name: str) -> bool:
    """Return whether a file with this name is read if its directory is given."""
    return fits(name.removesuffix(".gz"), MEMBERS) or fits(name, TABLES)


def _id_of(file: BinaryIO, path: str, *, is_part: bool) -> FileId | None:
    """Return the id of an open file, with which lines name their positions.

    It is None for standard input, which may begin anywhere in a file, and for a pipe.
    """
    status = os.fstat(file.fileno())
    is_regular = S_ISREG(status.st_mode)
    if path == "-" or not is_regular:
        return None
    return FileId(path, key_of(status), is_part=is_part)
