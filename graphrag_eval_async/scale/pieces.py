"""Pieces of files, which are whole lines: cut in the parent, evaluated or aggregated in a worker process."""

from __future__ import annotations

import gc
import os
import pickle
import secrets
import shutil
import signal
import tempfile
import threading
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from graphrag_eval_async.batch import take_result
from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import FileId, Reject
from graphrag_eval_async.reference import StepNames
from graphrag_eval_async.sources.files import open_binary, unreadable
from graphrag_eval_async.sources.lines import Splitter
from graphrag_eval_async.sources.remote import shown
from graphrag_eval_async.sources.shards import cannot_be_cut, line_end

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.records.tags import Tags
    from graphrag_eval_async.sources.shards import Window
    from graphrag_eval_async.traces.format import TraceFormat

MAX_PIECE_BYTES = 4 << 20
MIN_PIECE_BYTES = 1 << 16
"""Size of a piece, except the last of a file and longer lines. Each costs a round trip and a merge."""

PIECES_PER_JOB = 8  # Least pieces per worker, so that all finish at about the same time.

CHUNK_BYTES = 1 << 14
"""Bytes of a piece that are split and evaluated before the size of the reply is looked at."""

REPLY_BYTES = 32 << 20  # Size at which a reply ends early: results may be far longer than their responses.

REJECT_BYTES = 1 << 14
"""Bytes for which a reject counts: the parent unpickles all rejects of a reply at once."""

PENDING = b'"pending"'  # The key of results whose complete version follows.
TOKEN_DIGITS = 19  # Digits of the number that stands for that of a sample; it fits in 64 bits.

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and service managers, signal all processes of a group; the parent decides what becomes of it."""

First: TypeAlias = "tuple[str, Sequence[str], Sequence[float], Tags]"


class Piece(NamedTuple):
    """Whole lines of a file, from byte `start` to byte `end`."""

    path: str  # as errors name it
    file: str  # as a worker opens it
    place: tuple[int, int]  # device and inode number, which tell whether it is still the same
    start: int
    end: int


def unsplittable(
    files: Sequence[str], traces: TraceFormat | None = None, *, results: bool = False
) -> str | None:
    """Return why these files of traces, responses or `results` cannot be cut; None if they can."""
    if traces is not None and traces.is_grouped:
        return "spans of one trace stand in several lines and cannot be split"
    for path in files:
        try:
            problem = cannot_be_cut(path, documents=traces is None or traces.is_listed)
            if problem is None and results and _has_pending(path):
                problem = "it has results in several versions, as --stages writes them"
        except SourceError as error:
            return str(error)
        if problem is not None:
            return f"{shown(path)} cannot be split: {problem}"
    return None


def _has_pending(path: str) -> bool:
    """Whether results may be incomplete, to be replaced by others, perhaps of another piece."""
    before = b""
    with open_binary(path) as file:
        try:
            while chunk := file.read(MIN_PIECE_BYTES):
                if PENDING in before + chunk:
                    return True
                before = chunk[-len(PENDING) :]
        except OSError as error:
            raise unreadable(path, error) from error
    return False


def cut(windows: Sequence[Window], size: Callable[[], int]) -> Generator[Piece]:
    """Yield pieces of files in order, each of about `size()` bytes. Reads the files: call it in a thread."""
    for path, start, last in windows:
        with open_binary(path) as file:
            try:
                status = os.fstat(file.fileno())
                real, place = os.path.realpath(path), (status.st_dev, status.st_ino)
                last = status.st_size if last is None else last
                while start < last:
                    end = line_end(file, start + size(), last)
                    yield Piece(path, real, place, start, end)
                    start = end
            except OSError as error:
                raise unreadable(path, error) from error


def piece_bytes(total: int, jobs: int) -> int:
    """Return the size of pieces for files of this total size."""
    return max(MIN_PIECE_BYTES, min(MAX_PIECE_BYTES, total // (jobs * PIECES_PER_JOB)))


@dataclass(slots=True)
class Reply:
    """The outcome of a piece, or of its beginning."""

    end: int  # bytes of the file before what is left of the piece
    lines: int = 0  # before that in the piece, blank ones too
    results: int = 0  # how many there are
    aggregates: bytes = b""
    # By the id of each question of these results, template, metrics, values and tags of its first result in
    # the piece, if later results may turn out to be others.
    questions: dict[str, First | None] = field(default_factory=dict)
    names: StepNames = field(default_factory=StepNames)  # of reference steps, if results are aggregated
    rejects: list[Reject] = field(default_factory=list)  # with lines that are numbered from 1 in the piece
    # Results as lines of JSON. A random token, which no text of an agent can know, stands for the number of a
    # sample, which only the parent knows.
    text: bytes = b""
    places: array[int] = field(default_factory=lambda: array("Q"))  # where in `text` these tokens are
    owners: array[int] = field(default_factory=lambda: array("I"))  # the place of each one's question
    size: int = 0  # about how many bytes the reply has


@dataclass(frozen=True, kw_only=True)
class Work:
    """Evaluates the responses of a piece or, without an `evaluator`, aggregates its results."""

    evaluator: Evaluator | None = None
    max_line_bytes: int
    include_errors: bool = False
    steps: Collection[str] = ()  # that are always counted by name
    writes: bool = True  # whether the results are wanted, and not their aggregates alone
    numbers: bool = True  # whether results have the number of their sample
    content: bool = False  # whether rejects carry their lines
    stops_at_reject: bool = False  # whether the reply ends with the first reject

    def __call__(self, piece: Piece) -> Reply:
        """Do the work up to the end of the piece, or until the reply is large."""
        reply = Reply(piece.end)
        aggregates = RunningAggregates(include_errors=self.include_errors, steps=self.steps)
        texts: list[bytes] = []
        if self.evaluator is None:
            take = self._aggregating(aggregates, reply)
        else:
            take = self._evaluating(aggregates, reply, texts)
        # A byte-order mark is blank only in the first line of a file.
        first = 2 if piece.start else 1
        splitter = Splitter(
            self.max_line_bytes, file=FileId(piece.path, ""), number=first, offset=piece.start
        )
        for records in split(piece, splitter):
            for rejected in filter(None, map(take, records)):
                content = rejected.content if self.content else None
                reply.rejects.append(replace(rejected, line=rejected.line - first + 1, content=content))
                reply.size += REJECT_BYTES + len(content or b"")
                if self.stops_at_reject:
                    reply.size = REPLY_BYTES
                    break
            if reply.size >= REPLY_BYTES:
                break
        reply.end, reply.lines = min(piece.end, splitter.offset), splitter.number - first
        reply.aggregates, reply.text = aggregates.to_bytes(), b"".join(texts)
        return reply

    def _evaluating(
        self, aggregates: RunningAggregates, reply: Reply, texts: list[bytes]
    ) -> Callable[[Record], Reject | None]:
        assert self.evaluator is not None  # noqa: S101
        read, score = self.evaluator.reader(self.max_line_bytes), self.evaluator.score
        owners: dict[str, int] = {}
        number = None
        if self.numbers:
            number = 10 ** (TOKEN_DIGITS - 1) + secrets.randbelow(8 * 10 ** (TOKEN_DIGITS - 1))
        token = b"%d" % (number or 0)

        length = 0

        def take(record: Record) -> Reject | None:
            nonlocal length
            response = read(record)
            if isinstance(response, Reject):
                return response
            question = response.question_id
            evaluation = score(response, number)
            owner = owners.setdefault(question, len(owners))
            if number is not None:  # As far as this piece knows.
                evaluation.sample = 2 if question in reply.questions else 1
            aggregates.add(evaluation)
            evaluation.sample = number
            reply.results += 1
            if question not in reply.questions:
                counts = self.include_errors or not evaluation.failed
                counted = evaluation if counts else evaluation.without_values()
                first = counted.template_id, counted.metrics, counted.numbers, counted.tags
                reply.questions[question] = first if self.numbers else None
            if self.writes:
                line = orjson.dumps(evaluation.as_dict(), option=orjson.OPT_APPEND_NEWLINE)
                if number is not None:
                    reply.places.append(length + line.rindex(token))
                    reply.owners.append(owner)
                texts.append(line)
                length += len(line)
                reply.size += len(line)
            return None

        return take

    def _aggregating(self, aggregates: RunningAggregates, reply: Reply) -> Callable[[Record], Reject | None]:
        def add(result: dict[str, Any]) -> None:
            aggregates.add(result)
            reply.names.add(result)
            reply.results += 1
            if isinstance(question_id := result.get("question_id"), str):
                reply.questions[question_id] = None

        return lambda record: take_result(record, add, self.max_line_bytes)


def split(piece: Piece, splitter: Splitter) -> Iterator[list[Record]]:
    """Yield the records of each chunk of a piece."""
    with open_binary(piece.file) as file:
        try:
            status = os.fstat(file.fileno())
            is_same = (status.st_dev, status.st_ino) == piece.place
            place = file.seek(piece.start)
            while is_same and place < piece.end:
                chunk = file.read(min(piece.end - place, CHUNK_BYTES))
                place += len(chunk)
                is_same = bool(chunk)
                yield splitter.feed(chunk)
        except OSError as error:
            raise unreadable(piece.path, error) from error
    if not is_same:
        raise SourceError(f"{piece.path}: was changed while it was read")
    if splitter.held:
        yield splitter.finish()


_work: Work
_folder: str


def begin(work: bytes, folder: str) -> None:
    """Prepare a worker process, which leaves signals to its parent and ends with it."""
    global _work, _folder
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _folder = folder
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = pickle.loads(work)  # noqa: S301  (from the parent)
    gc.freeze()  # What was imported and loaded stays.


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    shutil.rmtree(_folder, ignore_errors=True)
    os._exit(1)


def work_on(piece: Piece) -> str:
    """Do the work in a process that has begun; return the path of a file with the reply.

    If a process were killed while it wrote to the pipe to its parent, the parent would wait for ever.
    """
    reply = _work(piece)
    descriptor, path = tempfile.mkstemp(dir=_folder)
    with open(descriptor, "wb") as file:
        pickle.dump(reply, file)
    return path
