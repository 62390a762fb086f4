"""Paths, checked before any work, and the aggregates file.

The functions that end in `_path` check a value of an option, and raise `ValueError` if it is wrong.
"""

from __future__ import annotations

import asyncio
import glob
import json
import os
import sys
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from graphrag_eval_async.errors import AggregationError, SourceError, UsageError
from graphrag_eval_async.helpers.text import escape_json, tell
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.removed import explain_removed_address
from graphrag_eval_async.sinks import LineFile, write_report
from graphrag_eval_async.sinks.files import check_replaceable, draft_beside
from graphrag_eval_async.sinks.journal import BESIDE
from graphrag_eval_async.sinks.tables import is_table
from graphrag_eval_async.sources.paths import as_paths
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.remote import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.cli.exits import Interrupts

T = TypeVar("T")

MEMBERS = ("*.jsonl", "*.jsonl.gz", "*.parquet")
"""Patterns of the files that are read in a directory."""

STANDARD_OUTPUT = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
"""The names of standard output."""

STATE = ".aggregates"
"""Suffix of files that hold all that aggregates know, to merge them."""


def input_path(path: str) -> str:
    """Return `path`, if `read_jsonl` can read it.

    Args:
        path: the path of a file or directory, a pattern that matches one, or ``-`` for standard
            input.

    Raises:
        ValueError: a file does not exist or is not readable, or standard input is closed.
    """
    if path == "-" and sys.stdin is None:
        raise ValueError("standard input is closed")
    try:
        files = expand(as_paths(path, tables=True))
    except (SourceError, UsageError) as error:
        raise ValueError(str(error)) from None
    for file in files:
        if file != "-" and not is_address(file):
            _check_readable(file)
    return path


ONLY_BENCHMARKS = (".yaml", ".yml", ".csv", ".tsv")
"""Suffixes of files that hold a benchmark, never traces."""


def convertible_path(path: str) -> str:
    """Return `path`, if it is that of readable traces or of the readable file of a benchmark.

    Raises:
        ValueError: the file does not exist, or it is not readable.
    """
    if path.lower().endswith(ONLY_BENCHMARKS):
        return file_path(path)
    return input_path(path)


def file_path(path: str) -> str:
    """Return `path`, if it is that of a readable file.

    Raises:
        ValueError: the path is that of something else, such as a directory or ``-``, or the file
            does not exist or is not readable.
    """
    if path == "-":
        raise ValueError("'-': this file cannot come from standard input")
    message = explain_removed_address(path)
    if message:
        raise ValueError(message)
    if os.path.isdir(path):
        raise ValueError(f"{path!r} is a directory")
    _check_readable(path)
    return path


def json_path(path: str) -> tuple[str, Any]:
    """Read a file of JSON, and return its path and its content.

    Raises:
        ValueError: the path is not that of a readable file, or the file does not hold JSON.
    """
    # This module imports YAML, which takes long.
    from graphrag_eval_async.records.yaml_file import read_bytes, read_json

    return path, read_json(read_bytes(file_path(path)))


def _check_readable(path: str) -> None:
    """Raise a `ValueError` if a file does not exist, or this user may not read it."""
    if os.access(path, os.R_OK):
        return
    problem = "is not readable" if os.path.exists(path) else "does not exist"
    raise ValueError(f"{path!r} {problem}")


def output_path(path: str) -> str:
    """Return a path to write lines to; all names of standard output become ``-``.

    Opening standard output by a name, such as /dev/stdout, would give a second file with a position
    of its own: what one of the two files writes would overwrite what the other one wrote.

    Raises:
        ValueError: the path is an address of a kind that is no longer supported.
    """
    message = explain_removed_address(path)
    if message:
        raise ValueError(message)
    return "-" if path in STANDARD_OUTPUT else path


def lines_path(path: str) -> str:
    """Return a path to write lines of JSON to; all names of standard output become ``-``.

    Raises:
        ValueError: the path is that of a table.
    """
    if is_table(path):
        name = Path(path).with_suffix(".jsonl")
        raise ValueError(
            f"{path!r}: this command writes JSON lines; use another name, such as {name}"
        )
    return output_path(path)


def aggregates_path(path: str) -> str:
    """Return `path`, if a snapshot of aggregates can be written there, as YAML or JSON.

    Raises:
        ValueError: the path has another suffix, or cannot be written.
    """
    return _replaceable_path(path, ".yaml", ".yml", ".json")


def state_path(path: str) -> str:
    """Return `path`, if aggregates can be written there.

    The suffix says how: as YAML, as JSON or, with the suffix `STATE`, in a form that can be merged
    with other aggregates.

    Raises:
        ValueError: the path has another suffix, or cannot be written.
    """
    return _replaceable_path(path, ".yaml", ".yml", ".json", STATE)


def html_path(path: str) -> str:
    """Return a path to write a page to; raise a `ValueError` if it is none."""
    return _replaceable_path(path, ".html", ".htm")


def picture_path(path: str) -> str:
    """Return a path to write a picture to; raise a `ValueError` if it is none."""
    return _replaceable_path(path, ".svg", ".png", ".pdf")


def _replaceable_path(path: str, *suffixes: str) -> str:
    """Return `path`, if it has one of the suffixes and a file can be written or replaced there.

    Raises:
        ValueError: the path has another suffix, or cannot be written.
    """
    if Path(path).suffix not in suffixes:
        raise ValueError(f"{path!r}: expected a name that ends in {', '.join(suffixes)}")
    return check_replaceable(path)


def resumable_path(path: str) -> str:
    """Return `path`, if it is that of a regular file or of no file yet.

    Raises:
        ValueError: the path is that of something else, such as a directory, a pipe, or ``-``.
    """
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        raise ValueError(f"{path!r} is not a regular file")
    return path


def page_path(path: str) -> str:
    """Return `path`, if it is that of a regular file or of no file yet.

    All names of standard output, such as /dev/stdout, become ``-``.

    Raises:
        ValueError: the path is that of something else, such as a directory.
    """
    path = output_path(path)
    return path if path == "-" else resumable_path(path)


def make_folder_of(path: str) -> None:
    """Make the folder of a file that will be written, if it does not exist.

    Raises:
        UsageError: the folder cannot be created.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder!r} cannot be created: {error.strerror}") from error


def check_distinct(
    read: Iterable[str | None], written: Iterable[str | None], beside: Iterable[str | None] = ()
) -> None:
    """Check that no file is written twice, or written and read, and that "-" is read at most once.

    A path may be None in each of the arguments, for an option that is not given.

    Args:
        read: paths that are read: of files, directories or patterns.
        written: paths of files that are written.
        beside: paths of other files that are written, which no directory or pattern includes.

    Raises:
        UsageError: two paths are of the same file.
    """
    sources = [path for path in read if path]
    outputs = [path for path in written if path]
    outputs_beside = [path for path in beside if path]
    if sources.count("-") > 1:
        raise UsageError("only one of the inputs can come from standard input (-)")

    used = {os.path.realpath(path) for path in sources if path != "-"}
    for path in [*outputs, *outputs_beside]:
        if os.path.exists(path) and not os.path.isfile(path):
            continue  # Several outputs may go to a device such as /dev/null.
        name = "-" if path == "-" else os.path.realpath(path)
        if name in used:
            raise UsageError(f"{path!r} is given twice; it would be overwritten")
        used.add(name)

    # An output must not be among the files that a directory or pattern reads, either.
    for source in sources:
        for pattern in _patterns_of(source):
            for path in outputs:
                if fnmatchcase(os.path.realpath(path), os.path.realpath(pattern)):
                    raise UsageError(f"{path!r} is among the files of {source!r}, which are read")


def _patterns_of(source: str) -> list[str]:
    """Return patterns of the files that are read at a path of a directory or pattern.

    The path of a single file has no patterns.
    """
    if os.path.isdir(source):
        return [os.path.join(glob.escape(source), name) for name in MEMBERS]
    if glob.has_magic(source) and not os.path.exists(source):
        return [source]
    return []


def files_of_results(paths: Iterable[str]) -> list[str]:
    """Return the files of results at paths of files, directories and patterns.

    Raises:
        UsageError: results would count twice, or a file belongs to a journal and holds no results.
    """
    files: list[str] = []
    for path in paths:
        files += expand([path])

    file_by_name: dict[str, str] = {}
    for file in files:
        name = os.path.realpath(file)
        if name in file_by_name:
            raise UsageError(f"{file!r} is given twice; its results would count twice")
        file_by_name[name] = file
        journal, suffix = os.path.splitext(file)
        if suffix in BESIDE and os.path.isfile(journal):
            raise UsageError(f"{file!r} belongs to the journal {journal!r} and holds no results")

    for name, file in file_by_name.items():
        if not name.endswith(STATE):
            continue
        # Aggregates usually stand beside the results from which they were computed.
        for pattern in MEMBERS:
            suffix = pattern.removeprefix("*")
            results = file_by_name.get(name.removesuffix(STATE) + suffix)
            if results is not None:
                raise UsageError(
                    f"{results!r} and {file!r} hold the same results; give one of them"
                )
    return files


def open_output(open_path: Callable[[str], T], path: str) -> T:
    """Call `open_path` to open a file for writing, and return the file.

    Args:
        open_path: opens the file at a path.
        path: the path; ``-`` stands for standard output.

    Raises:
        UsageError: the file cannot be opened.
    """
    if path == "-" and sys.stdout is None:
        raise UsageError("standard output is closed; -o FILE writes to a file")
    try:
        return open_path(path)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}") from error


def open_lines(path: str, interrupts: Interrupts | None = None) -> LineFile:
    """Open a file for lines of JSON.

    Args:
        path: the path; ``-`` for standard output.
        interrupts: let Ctrl-C end the wait for the reader of a pipe; None to wait without end.

    Raises:
        UsageError: the file cannot be opened.
    """
    wait = None if interrupts is None else interrupts.wait_writable
    return open_output(partial(LineFile, wait=wait, escape=escape_json), path)


def write_state(path: str, aggregates: RunningAggregates) -> None:
    """Write all that aggregates know, for `merge_aggregates`."""
    draft = draft_beside(path, STATE)
    Path(draft).write_bytes(aggregates.to_bytes())
    os.replace(draft, path)


def merge_aggregates(aggregates: RunningAggregates, path: str) -> None:
    """Add the aggregates in a file that `write_state` wrote to `aggregates`.

    Raises:
        UsageError: the file cannot be read, or holds something else.
    """
    try:
        aggregates.merge(RunningAggregates.from_bytes(Path(path).read_bytes()))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (AggregationError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from error


def write_aggregates(path: str, snapshot: Mapping[str, Any]) -> None:
    """Write a snapshot to a file, as JSON if the path ends in ".json", otherwise as YAML.

    Those who read the file meanwhile see the old content or the new one.
    """
    if path.endswith(".json"):
        # orjson would refuse integers of more than 64 bits, which a sum may need.
        text = json.dumps(snapshot, indent=2, ensure_ascii=False) + "\n"
    else:
        import yaml  # Takes long to import.

        dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(snapshot, Dumper=dumper, sort_keys=False, allow_unicode=True)
    asyncio.run(write_report(path, text))


def write_page(path: str, text: str, stream: TextIO | None = None) -> None:
    """Replace the text of a file. Those who read it meanwhile see the old text or the new one.

    Args:
        path: the path; with ``-``, the text is printed on `stream`.
        text: the text.
        stream: standard output, or what stands for it.
    """
    if path == "-":
        tell(stream, text.removesuffix("\n"))
    else:
        asyncio.run(write_report(path, text))
