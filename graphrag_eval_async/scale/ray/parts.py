"""The directory of results: a Parquet file for each batch, complete or absent; resuming from them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from graphrag_eval_async.errors import JournalError, JournalLocked, JournalMismatch, UsageError
from graphrag_eval_async.posix import IS_POSIX
from graphrag_eval_async.records import Reject
from graphrag_eval_async.records.metrics import RESULT_METRICS
from graphrag_eval_async.records.reject import HEAD_BYTES

if IS_POSIX:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESULTS, REJECTS = "results", "rejects"
SEALED = ".sealed"
"""Suffix of the directories of earlier runs: whatever is left of these runs cannot add to them."""

TEXTS = ("template_id", "question_id", "status", "failure")
RESULT_COLUMNS = ("id", *TEXTS, *RESULT_METRICS, "result")
"""Columns of results: some keys of the result, and the whole as JSON text in `result`."""

REJECT_COLUMNS = ("id", "file", "offset", "reason", "message", "length", "sha256", "content")
SUMMARY = "graphrag-eval-async.summary"  # Key of the metadata of a part.
ID_BYTES = 16  # Bytes of an id by which a response counts as done.


class Summary(msgspec.Struct):
    """The outcome of a batch; `aggregates` are bytes, `usage` has counts of the calls of judges.

    `skipped` responses were done by an earlier run. Without a directory, `rejected` has rows of rejects.
    """

    name: str
    results: int = 0
    rejects: dict[str, int] = {}
    questions: list[str] = []
    aggregates: bytes = b""
    usage: dict[str, float] = {}
    skipped: int = 0
    rejected: list[dict[str, Any]] = []


def results_table(ids: Sequence[bytes], results: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow

    kinds = dict.fromkeys(RESULT_METRICS, pyarrow.float64())
    columns: dict[str, Any] = {"id": [id_.hex() for id_ in ids]}
    columns |= {name: [result.get(name) for result in results] for name in TEXTS}
    for name in RESULT_METRICS:
        columns[name] = [None if (value := one.get(name)) is None else float(value) for one in results]
    columns["result"] = [orjson.dumps(result).decode() for result in results]
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in RESULT_COLUMNS])
    return pyarrow.table(columns, schema=schema)


def write_part(folder: str, run: str, results: Any, rejected: list[dict[str, Any]], summary: Summary) -> None:
    """Write the results and rejects of a batch; it is done once its results are in place.

    Raises an `OSError`, too, if another run has taken over.
    """
    import pyarrow

    if rejected:
        kinds = {"content": pyarrow.large_binary()}
        kinds |= dict.fromkeys(("offset", "length"), pyarrow.int64())
        schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in REJECT_COLUMNS])
        rows = pyarrow.Table.from_pylist(rejected, schema=schema)
        _write(os.path.join(folder, REJECTS, run), summary.name, rows, {})
    more = {SUMMARY: msgspec.msgpack.encode(summary)}
    _write(os.path.join(folder, RESULTS, run), summary.name, results, more)


def _write(folder: str, name: str, table: Any, metadata: dict[str, bytes]) -> None:
    from pyarrow import parquet

    draft = os.path.join(folder, f".{name}.tmp")
    with open(draft, "wb") as file:
        with parquet.ParquetWriter(file, table.schema) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(metadata)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, os.path.join(folder, name))


def read_summary(path: str) -> Summary | None:
    """Return the outcome of a batch; None if it is not done."""
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path).metadata or {}
        return msgspec.msgpack.decode(metadata[SUMMARY.encode()], type=Summary)
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001  (pyarrow raises many kinds)
        raise JournalError(f"{path}: is not a part of results: {error}") from None


class Folder:
    """The directory of results of one run; closing it lets others use it."""

    def __init__(
        self, path: str | os.PathLike[str], run: str, terms: Mapping[str, str], *, resume: bool
    ) -> None:
        """Make the directory, lock it, and read what earlier runs left."""
        self.path = os.path.abspath(path)
        self.summaries: list[Summary] = []  # of each batch that earlier runs have done
        try:
            for name in (RESULTS, REJECTS):
                os.makedirs(os.path.join(self.path, name), exist_ok=True)
            self._file = open(os.path.join(self.path, "run.json"), "a+b")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"results: {error}") from None
        try:
            self._lock()
            if not resume and self._runs(RESULTS):
                raise UsageError(f"results: {self.path} has results already; resume them, or name another")
            self._check(terms)
            self._read()
            for name in (RESULTS, REJECTS):
                os.mkdir(os.path.join(self.path, name, run))
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalLocked(f"{self.path}: another process writes its results here") from None
        except OSError:  # A file system without locks.
            pass

    def _check(self, terms: Mapping[str, str]) -> None:
        self._file.seek(0)
        text = self._file.read()
        before = orjson.loads(text) if text else terms
        if differences := [name for name in terms if before.get(name) != terms[name]]:
            raise JournalMismatch(
                f"{self.path}: its results come from another run; different: {', '.join(differences)}. "
                "Name another directory",
                differences,
            )
        if not text:
            self._file.write(orjson.dumps(dict(terms)))
            self._file.flush()

    def _runs(self, kind: str) -> list[str]:
        folder = os.path.join(self.path, kind)
        return sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())

    def _read(self) -> None:
        import numpy

        ids, done = list[bytes](), set[str]()
        for kind in (RESULTS, REJECTS):
            for run in self._runs(kind):
                if not run.endswith(SEALED):
                    os.rename(run, run := run + SEALED)
                for name in sorted(os.listdir(run)):
                    path, part = os.path.join(run, name), os.path.join(os.path.basename(run), name)
                    if name.startswith(".") or (kind == REJECTS and part not in done):
                        os.unlink(path)  # Of a batch that was not finished.
                        continue
                    if kind == RESULTS and (summary := read_summary(path)) is not None:
                        self.summaries.append(summary)
                        done.add(part)
                    ids += (bytes.fromhex(row["id"])[:ID_BYTES] for row in _rows(path, ["id"]))
        # Of all responses that are done, sorted.
        self.ids = numpy.array(ids, dtype=f"S{ID_BYTES}")
        self.ids.sort()

    def close(self) -> None:
        """Unlock the directory, and remove empty directories of runs."""
        for run in (*self._runs(RESULTS), *self._runs(REJECTS)):
            with suppress(OSError):
                os.rmdir(run)
        self._file.close()


def _rows(path: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    from pyarrow import parquet

    found: list[dict[str, Any]] = parquet.read_table(path, columns=columns, partitioning=None).to_pylist()
    return found


def stored_rejects(results: str | os.PathLike[str]) -> Iterator[Reject]:
    """Yield what could not be evaluated, of a directory of results, with its content."""
    for folder, _, names in sorted(os.walk(os.path.join(results, REJECTS))):
        for name in sorted(names):
            if not name.startswith("."):
                yield from map(as_reject, _rows(os.path.join(folder, name)))


def as_reject(row: Mapping[str, Any]) -> Reject:
    content, why = row["content"], (row["reason"], row["message"])
    digest = row["length"], row["sha256"]
    return Reject(0, row["offset"], *why, content[:HEAD_BYTES], *digest, content, row["file"])
