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
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.removed import explain_removed_address
from graphrag_eval_async.sinks import LineFile, write_report
from graphrag_eval_async.sinks.files import check_replaceable, draft_beside
from graphrag_eval_async.sinks.journal import BESIDE
from graphrag_eval_async.sinks.tables import is_table
from graphrag_eval_async.sources.paths import as_paths
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.remote import is_address
from graphrag_eval_async.text import escape_json, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.cli.exits import Interrupts

T = TypeVar("T")

MEMBERS = ("*.jsonl", "*.jsonl.gz", "*.parquet")
"""Patterns of the files that are read in a directory."""

STATE = ".aggregates"
"""Suffix of files that hold all that aggregates know, to merge them."""


def input_path(path: str) -> str:
    """A path for `read_jsonl`: of a readable file or directory, a pattern that matches one, or
    ``-``.
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
    """Return a path of traces, or of the file of a benchmark.

    Raises:
        ValueError: there is no such file, or it cannot be read.
    """
    if path.lower().endswith(ONLY_BENCHMARKS):
        return file_path(path)
    return input_path(path)


def file_path(path: str) -> str:
    """A path of a readable file, not ``-``."""
    if path == "-":
        raise ValueError("'-': this file cannot come from standard input")
    if message := explain_removed_address(path):
        raise ValueError(message)
    if os.path.isdir(path):
        raise ValueError(f"{path!r} is a directory")
    _check_readable(path)
    return path


def json_path(path: str) -> tuple[str, Any]:
    """The same, and the JSON in the file."""
    from graphrag_eval_async.records.yaml_file import read_bytes, read_json  # Takes long to import.

    return path, read_json(read_bytes(file_path(path)))


def _check_readable(path: str) -> None:
    if not os.access(path, os.R_OK):
        raise ValueError(
            f"{path!r} {'is not readable' if os.path.exists(path) else 'does not exist'}"
        )


def output_path(path: str) -> str:
    """A path to write lines to; ``-`` for standard output, also if the path is its device.

    A file that is opened a second time would be written at two positions at once.
    """
    if message := explain_removed_address(path):
        raise ValueError(message)
    return "-" if path in {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"} else path


def lines_path(path: str) -> str:
    """The same, where no table can be written."""
    if is_table(path):
        name = Path(path).with_suffix(".jsonl")
        raise ValueError(
            f"{path!r}: this command writes JSON lines; use another name, such as {name}"
        )
    return output_path(path)


def aggregates_path(path: str) -> str:
    """A path that `write_aggregates` can write."""
    return _replaceable(path, ".yaml", ".yml", ".json")


def state_path(path: str) -> str:
    """A path for aggregates: as `aggregates_path`, or one that ends in `STATE`."""
    return _replaceable(path, ".yaml", ".yml", ".json", STATE)


def html_path(path: str) -> str:
    return _replaceable(path, ".html", ".htm")


def picture_path(path: str) -> str:
    return _replaceable(path, ".svg", ".png", ".pdf")


def _replaceable(path: str, *suffixes: str) -> str:
    if Path(path).suffix not in suffixes:
        raise ValueError(f"{path!r}: expected a name that ends in {', '.join(suffixes)}")
    return check_replaceable(path)


def resumable_path(path: str) -> str:
    """A path of a regular file, existing or not."""
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        raise ValueError(f"{path!r} is not a regular file")
    return path


def page_path(path: str) -> str:
    """A path of a regular file, existing or not, or ``-``."""
    path = output_path(path)
    return path if path == "-" else resumable_path(path)


def make_folder_of(path: str) -> None:
    """Make the folder of a file that will be written, if it does not exist."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder!r} cannot be created: {error.strerror}") from error


def check_distinct(
    read: Iterable[str | None], written: Iterable[str | None], beside: Iterable[str | None] = ()
) -> None:
    """Raise a `UsageError` if a file would be written twice or is also read, or "-" is read twice.

    Files `beside` others are written, too, but never read in a directory or by a pattern.
    """
    sources, outputs = [*filter(None, read)], [*filter(None, written)]
    if sources.count("-") > 1:
        raise UsageError("only one of the inputs can come from standard input (-)")
    taken = {os.path.realpath(path) for path in sources if path != "-"}
    for path in [*outputs, *filter(None, beside)]:
        if os.path.exists(path) and not os.path.isfile(path):
            continue
        name = "-" if path == "-" else os.path.realpath(path)
        if name in taken:
            raise UsageError(f"{path!r} is given twice; it would be overwritten")
        taken.add(name)
    for source in sources:
        patterns = [source] if glob.has_magic(source) and not os.path.exists(source) else []
        if os.path.isdir(source):
            patterns = [os.path.join(glob.escape(source), name) for name in MEMBERS]
        for path in outputs:
            if any(
                fnmatchcase(os.path.realpath(path), os.path.realpath(pattern))
                for pattern in patterns
            ):
                raise UsageError(f"{path!r} is among the files of {source!r}, which are read")


def files_of_results(paths: Iterable[str]) -> list[str]:
    """The files that paths stand for; a `UsageError` if results would count twice."""
    files = [file for path in paths for file in expand([path])]
    names: dict[str, str] = {}
    for file in files:
        if (name := os.path.realpath(file)) in names:
            raise UsageError(f"{file!r} is given twice; its results would count twice")
        names[name] = file
        journal, suffix = os.path.splitext(file)
        if suffix in BESIDE and os.path.isfile(journal):
            raise UsageError(f"{file!r} belongs to the journal {journal!r} and holds no results")
    for name, file in names.items():
        for suffix in (pattern[1:] for pattern in MEMBERS if name.endswith(STATE)):
            if same := names.get(name.removesuffix(STATE) + suffix):
                raise UsageError(f"{same!r} and {file!r} hold the same results; give one of them")
    return files


def open_output(kind: Callable[[str], T], path: str) -> T:
    """Open `path` for writing by `kind`; raise a `UsageError` if it cannot be opened."""
    if path == "-" and sys.stdout is None:
        raise UsageError("standard output is closed; -o FILE writes to a file")
    try:
        return kind(path)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}") from error


def open_lines(path: str, interrupts: Interrupts | None = None) -> LineFile:
    """Open a file for lines of JSON; with `interrupts`, Ctrl-C ends the wait for the reader of a
    pipe.
    """
    wait = None if interrupts is None else interrupts.wait_writable
    return open_output(partial(LineFile, wait=wait, escape=escape_json), path)


def write_state(path: str, aggregates: RunningAggregates) -> None:
    """Write all that aggregates know, for `merge_aggregates`."""
    draft = draft_beside(path, STATE)
    Path(draft).write_bytes(aggregates.to_bytes())
    os.replace(draft, path)


def merge_aggregates(aggregates: RunningAggregates, path: str) -> None:
    """Add what `write_state` wrote; raise a `UsageError` if the file is something else."""
    try:
        aggregates.merge(RunningAggregates.from_bytes(Path(path).read_bytes()))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (AggregationError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from error


def write_aggregates(path: str, snapshot: Mapping[str, Any]) -> None:
    """Write a snapshot as YAML or JSON, by the suffix; readers see the old file or the new one."""
    if path.endswith(".json"):
        # Not by orjson: a sum of 64-bit integers may need more bits.
        text = json.dumps(snapshot, indent=2, ensure_ascii=False) + "\n"
    else:
        import yaml  # Takes long to import.

        dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(snapshot, Dumper=dumper, sort_keys=False, allow_unicode=True)
    asyncio.run(write_report(path, text))


def write_page(path: str, text: str, stream: TextIO | None = None) -> None:
    """Write a text to a file, whose readers see the old text or the new one; ``-`` stands for
    `stream`.
    """
    if path == "-":
        tell(stream, text.removesuffix("\n"))
    else:
        asyncio.run(write_report(path, text))
