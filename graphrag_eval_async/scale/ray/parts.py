"""The directory of results: a Parquet file for each batch, complete or absent; resuming from them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import JournalError, JournalLocked, JournalMismatch, UsageError
from graphrag_eval_async.posix import IS_POSIX
from graphrag_eval_async.records.metrics import RESULT_METRICS

if IS_POSIX:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESULTS, REJECTS = "results", "rejects"
SEALED = ".sealed"
"""Suffix of the parts of an earlier run: whatever is left of that run cannot add to them."""

TEXTS = ("template_id", "question_id", "status", "failure")
RESULT_COLUMNS = ("id", *TEXTS, *RESULT_METRICS, "result")
"""Columns of results: some keys of the result, and the whole as JSON text in `result`."""

REJECT_COLUMNS = ("id", "file", "offset", "reason", "message", "length", "sha256", "content")

SUMMARY, AGGREGATES = "graphrag-eval-async.summary", "graphrag-eval-async.aggregates"
"""Keys of the metadata of a part."""

ID_BYTES = 16
"""Bytes of an id by which a response counts as done."""


class Summary(NamedTuple):
    """The outcome of a batch.

    Attributes:
        results: how many results it has.
        rejects: rejects by reason.
        questions: ids of the questions that were answered.
        aggregates: aggregates of the results, as bytes.
        usage: counts of the calls of judges.
    """

    results: int
    rejects: Mapping[str, int]
    questions: Sequence[str]
    aggregates: bytes
    usage: Mapping[str, float]

    def fields(self) -> dict[str, Any]:
        """Return all but the aggregates."""
        return {name: value for name, value in self._asdict().items() if name != "aggregates"}


def results_schema() -> Any:
    import pyarrow

    kinds = dict.fromkeys(RESULT_METRICS, pyarrow.float64())
    return pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in RESULT_COLUMNS])


def rejects_schema() -> Any:
    import pyarrow

    kinds = {"content": pyarrow.large_binary()}
    kinds |= dict.fromkeys(("offset", "length"), pyarrow.int64())
    return pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in REJECT_COLUMNS])


def results_table(ids: Sequence[bytes], results: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow

    columns: dict[str, Any] = {"id": [id_.hex() for id_ in ids]}
    for name in TEXTS:
        columns[name] = [result.get(name) for result in results]
    for name in RESULT_METRICS:
        columns[name] = [None if (value := one.get(name)) is None else float(value) for one in results]
    columns["result"] = [orjson.dumps(result).decode() for result in results]
    return pyarrow.table(columns, schema=results_schema())


def write_part(folder: str, run: str, name: str, results: Any, rejects: Any, summary: Summary) -> None:
    """Write the results and rejects of a batch; it is done once its results are in place.

    Raises an `OSError`, too, if another run has taken over.
    """
    if rejects.num_rows:
        _write(os.path.join(folder, REJECTS, run), name, rejects, {})
    more = {SUMMARY: orjson.dumps(summary.fields()), AGGREGATES: summary.aggregates}
    _write(os.path.join(folder, RESULTS, run), name, results, more)


def _write(folder: str, name: str, table: Any, metadata: Mapping[str, bytes]) -> None:
    from pyarrow import parquet

    draft = os.path.join(folder, f".{name}.tmp")
    with open(draft, "wb") as file:
        with parquet.ParquetWriter(file, table.schema) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(dict(metadata))
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, os.path.join(folder, name))


def read_summary(path: str) -> Summary | None:
    """Return the outcome of a batch; None if it is not done."""
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path).metadata or {}
        fields = orjson.loads(metadata[SUMMARY.encode()])
        return Summary(**fields, aggregates=metadata[AGGREGATES.encode()])
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001  (pyarrow raises many kinds)
        raise JournalError(f"{path}: is not a part of results: {error}") from None


@dataclass
class Kept:
    """The outcome of earlier runs.

    Attributes:
        summaries: of each batch that is done.
        ids: the ids of all responses that are done, sorted; each as often as it is done.
    """

    summaries: list[Summary] = field(default_factory=list)
    ids: Any = None


class Folder:
    """The directory of results of one run; closing it lets others use it."""

    def __init__(self, path: str | os.PathLike[str], *, resume: bool) -> None:
        """Make the directory, and lock it."""
        self.path = os.path.abspath(path)
        try:
            for name in (RESULTS, REJECTS):
                os.makedirs(os.path.join(self.path, name), exist_ok=True)
            self._file = open(os.path.join(self.path, "run.json"), "a+b")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"results: {error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise JournalLocked(f"{self.path}: another process writes its results here") from None
        except OSError:  # A file system without locks.
            pass
        if not resume and self._runs(RESULTS):
            self._file.close()
            raise UsageError(f"results: {self.path} has results already; resume them, or name another")

    @property
    def results(self) -> str:
        """The directory with the parts of results."""
        return os.path.join(self.path, RESULTS)

    def begin(self, run: str, terms: Mapping[str, str]) -> Kept:
        """Return the outcome of earlier runs, and create the directories of `run`."""
        self._file.seek(0)
        text = self._file.read()
        before = orjson.loads(text) if text else {}
        differences = [name for name in terms if before and before.get(name) != terms[name]]
        if differences:
            raise JournalMismatch(
                f"{self.path}: its results come from another run; different: {', '.join(differences)}. "
                "Name another directory",
                differences,
            )
        if not before:
            self._file.write(orjson.dumps(dict(terms)))
            self._file.flush()
        for kind in (RESULTS, REJECTS):
            for path in self._runs(kind):
                if not path.endswith(SEALED):  # So that workers left from earlier runs can no longer write.
                    os.rename(path, path + SEALED)
        kept = self._read()
        for name in (RESULTS, REJECTS):
            os.mkdir(os.path.join(self.path, name, run))
        return kept

    def _runs(self, kind: str) -> list[str]:
        folder = os.path.join(self.path, kind)
        return sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())

    def _read(self) -> Kept:
        import numpy

        kept, ids = Kept(), list[bytes]()
        done = set[tuple[str, str]]()
        for run in self._runs(RESULTS):
            for name in sorted(os.listdir(run)):
                path = os.path.join(run, name)
                if name.startswith("."):
                    os.unlink(path)
                    continue
                summary = read_summary(path)
                assert summary is not None  # noqa: S101  (it is there)
                kept.summaries.append(summary)
                done.add((os.path.basename(run), name))
                ids += _ids(path)
        for run in self._runs(REJECTS):
            for name in sorted(os.listdir(run)):
                path = os.path.join(run, name)
                if (os.path.basename(run), name) not in done:  # Of a batch that was not finished.
                    os.unlink(path)
                    continue
                ids += _ids(path)
        kept.ids = numpy.array(ids, dtype=f"S{ID_BYTES}")
        kept.ids.sort()
        return kept

    def keep_only(self, run: str, names: set[str]) -> None:
        """Remove parts of this run that Ray has not handed over: it has repeated their batches."""
        for kind in (REJECTS, RESULTS):
            folder = os.path.join(self.path, kind, run)
            for name in {*os.listdir(folder)} - names:
                os.unlink(os.path.join(folder, name))

    def close(self) -> None:
        """Unlock the directory, and remove empty directories of runs without results."""
        for kind in (RESULTS, REJECTS):
            for run in self._runs(kind):
                with suppress(OSError):
                    os.rmdir(run)
        shutil.rmtree(os.path.join(self.path, "tries"), ignore_errors=True)
        self._file.close()


def rejects_in(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rejects in a directory of results, as rows."""
    from pyarrow import parquet

    for folder, _, names in sorted(os.walk(os.path.join(path, REJECTS))):
        for name in sorted(names):
            if not name.startswith("."):
                yield from parquet.read_table(os.path.join(folder, name), partitioning=None).to_pylist()


def _ids(path: str) -> Iterator[bytes]:
    from pyarrow import parquet

    found = parquet.read_table(path, columns=["id"], partitioning=None)["id"]
    return (bytes.fromhex(id_)[:ID_BYTES] for id_ in found.to_pylist())
