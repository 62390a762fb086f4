"""A shard: a part of the responses of a run, evaluated by an ordinary stream in one worker.

What a finished shard leaves lies in a folder of its own: its results, its rejects and its outcome.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.scale.folder import finished_in
from graphrag_eval_async.scale.limits import budget_of, divide_limits, with_budget
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources.files import PIECE_BYTES, open_binary, unreadable
from graphrag_eval_async.sources.reading import JsonlFiles
from graphrag_eval_async.sources.shards import Window, can_be_cut, line_end
from graphrag_eval_async.stream import EvaluationStream
from graphrag_eval_async.stream.options import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.sources import Responses

RESULTS = "results.jsonl"
"""Name of the file with results in the folder of a finished shard."""

REJECTS = "rejects.jsonl"
"""Name of the file with rejects in the folder of a finished shard."""

OUTCOME = "outcome"
"""Name of the file with the `Outcome` in the folder of a finished shard."""

SHARDS = 64
"""Number of parts into which a file is cut, if they are neither too small nor too large.

The cuts do not depend on the number of workers, so a run may be repeated with another number.
"""

MIN_SHARD_BYTES = 1 << 16
"""Minimum size of a shard, since each takes some milliseconds to start."""

MAX_SHARD_BYTES = 4 << 20
"""Maximum size of a shard, since a run that is killed loses one shard for each worker."""


class FileShard(msgspec.Struct, frozen=True):
    """Whole lines of a file, from byte `start` to byte `end`; the whole file if `end` is None.

    `file_size`, in bytes, and `modified_ns` are those of the file when the run began.
    """

    path: str
    start: int
    end: int | None
    file_size: int
    modified_ns: int

    @property
    def size(self) -> int:
        """The number of bytes to read."""
        if self.end is None:
            return self.file_size - self.start
        return self.end - self.start

    def __str__(self) -> str:
        if self.end is None:
            return self.path
        return f"{self.path}: bytes {self.start} to {self.end}"

    def name(self, fingerprints: Mapping[str, str]) -> str:
        """Return the name of the folder that the finished shard leaves.

        Another file, range, reference set or configuration gives another name.

        Args:
            fingerprints: those of the reference set, the configuration and the version.
        """
        place = [os.path.abspath(self.path), self.start, self.end, self.file_size, self.modified_ns]
        identity = orjson.dumps([place, fingerprints], option=orjson.OPT_SORT_KEYS)
        return sha256(identity).hexdigest()[:32]


class Outcome(msgspec.Struct):
    """The outcome of a finished shard, in addition to its results and rejects.

    Attributes:
        lines: number of its lines, including blank ones.
        samples: number of results by question.
        aggregates: those of its results, serialised.
        usage: the counts of its judge; see `JudgeUsage.state`.
    """

    lines: int
    samples: dict[str, int]
    aggregates: bytes
    usage: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all shards of a run have in common; each worker gets a copy.

    Attributes:
        budget_usd: what the judge may spend on all shards; None without a limit.
        folder: where the folders of finished shards are.
        max_in_flight: how many responses a worker may have in progress.
        is_part: whether other runs evaluate the rest of the responses, so that results have no
            `sample`.
        first_tag_keys: keys of tags by which results are grouped before others.
    """

    reference: Reference
    options: EvaluatorOptions
    fingerprints: dict[str, str]
    budget_usd: float | None
    folder: str
    max_in_flight: int
    is_part: bool
    first_tag_keys: frozenset[str] = frozenset()


def make_job(
    evaluator: Evaluator,
    options: EvaluatorOptions,
    workers: int,
    *,
    folder: str,
    max_in_flight: int,
    is_part: bool = False,
    first_tag_keys: Iterable[str] = (),
) -> Job:
    """Return the job of several workers, which together keep to the limits of the configuration.

    Args:
        options: those of the evaluator.
        folder: as in `Job`, like the arguments after it.

    Raises:
        UsageError: a metric in code has no path by which another process can import it.
    """
    options = {**options}
    if evaluator.config is not None:
        options["config"] = divide_limits(evaluator.config, workers)
    options["metrics"] = evaluator.metrics_by_path("another process")
    return Job(
        reference=evaluator.reference,
        options=options,
        fingerprints=evaluator.fingerprints(),
        budget_usd=budget_of(evaluator.config),
        folder=folder,
        max_in_flight=max_in_flight,
        is_part=is_part,
        first_tag_keys=frozenset(first_tag_keys),
    )


def cut_into_shards(windows: Iterable[Window]) -> list[FileShard]:
    """Return the shards of these parts of files in order. Reads a little of each file.

    Raises:
        SourceError: a file cannot be read.
    """
    shards = []
    for window in windows:
        try:
            status = os.stat(window.path)
        except OSError as error:
            raise unreadable(window.path, error) from error

        if not can_be_cut(window.path):
            shards.append(FileShard(window.path, 0, None, status.st_size, status.st_mtime_ns))
            continue

        end = window.end
        if end is None:
            end = status.st_size
        for start, shard_end in _line_ranges(window.path, window.start, end):
            shards.append(
                FileShard(window.path, start, shard_end, status.st_size, status.st_mtime_ns)
            )
    return shards


def _line_ranges(path: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first byte and the end of parts of a file, which consist of whole lines.

    Args:
        path: the file.
        start: the first byte of the first part.
        end: the end of the last part.

    Raises:
        SourceError: the file cannot be read.
    """
    size = min(MAX_SHARD_BYTES, max(MIN_SHARD_BYTES, (end - start) // SHARDS))
    with open_binary(path) as file:
        while start < end:
            try:
                next_start = line_end(file, start + size, end)
            except OSError as error:
                raise unreadable(path, error) from error
            yield start, next_start
            start = next_start


class ShardWorker:
    """Evaluates shards, one after the other. Each worker process has one."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._evaluator = Evaluator(job.reference, **job.options)

    def evaluate_file_shard(self, shard: FileShard, budget_usd: float | None) -> float:
        """Evaluate a part of a file; return the US dollars that the judge spent.

        Args:
            budget_usd: what the judge may spend on this shard; None: as the configuration says.

        Raises:
            SourceError: the file cannot be read, or has become shorter.
            JudgeUnavailable: the judge will not answer any call.
            ExecutionUnavailable: the configured queries cannot be run.
        """
        window = Window(shard.path, shard.start, shard.end)
        source = JsonlFiles([shard.path], window=window, is_part=self._job.is_part)
        name = shard.name(self._job.fingerprints)
        return self.evaluate(source, name, budget_usd, shard)

    def evaluate(
        self,
        responses: Responses,
        name: str,
        budget_usd: float | None,
        shard: FileShard | None = None,
    ) -> float:
        """Evaluate responses, and leave a folder with results, rejects and outcome.

        Args:
            responses: the responses.
            name: the name of the folder.
            budget_usd: what the judge may spend; None: as the configuration says.
            shard: the part of a file in which the responses are, if they are in a file.

        Returns:
            the US dollars that the judge spent.
        """
        evaluator = self._evaluator
        if budget_usd is not None:
            evaluator = Evaluator(self._job.reference, **with_budget(self._job.options, budget_usd))

        with finished_in(self._job.folder, name) as draft:
            outcome, spent = asyncio.run(self._evaluate(evaluator, responses, draft))
            if shard is not None:
                outcome.lines = _count_lines(shard)
            (draft / OUTCOME).write_bytes(msgspec.msgpack.encode(outcome))
        return spent

    async def _evaluate(
        self, evaluator: Evaluator, responses: Responses, draft: Path
    ) -> tuple[Outcome, float]:
        """Evaluate responses by an ordinary stream, and write results and rejects to a folder.

        Returns:
            the outcome, without the number of lines, and the US dollars that the judge spent.
        """
        samples = Counter[str]()
        with LineFile(draft / RESULTS) as results, LineFile(draft / REJECTS) as rejects:

            def keep_reject(reject: Reject) -> None:
                rejects.write(msgspec.json.encode(reject) + b"\n")

            aggregates = RunningAggregates()
            aggregates._count_tags_first(self._job.first_tag_keys)
            options = StreamOptions(
                ordered=True,
                max_in_flight=self._job.max_in_flight,
                aggregates=aggregates,
                on_reject=keep_reject,
            )
            async with EvaluationStream(evaluator, responses, options) as stream:
                async for result in stream:
                    samples[result["question_id"]] += 1
                    await results.send(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))

        outcome = Outcome(
            lines=0,
            samples=dict(samples),
            aggregates=stream.aggregates.to_bytes(),
            usage=stream.usage.state(),
        )
        return outcome, stream.usage.spent or 0.0


def _count_lines(shard: FileShard) -> int:
    """Return the number of line ends in a part of a file.

    It is 0 for a whole file: the lines of the next file are counted anew.

    Raises:
        SourceError: the file has become shorter since the run began.
    """
    if shard.end is None:
        return 0
    lines = 0
    remaining = shard.size
    with open_binary(shard.path) as file:
        file.seek(shard.start)
        while remaining:
            piece = file.read(min(remaining, PIECE_BYTES))
            if not piece:
                break
            lines += piece.count(b"\n")
            remaining -= len(piece)
    if remaining:
        raise SourceError(f"{shard.path}: was changed while it was read")
    return lines


def read_outcome(folder: Path) -> Outcome:
    """Return the outcome in the folder of a finished shard."""
    return msgspec.msgpack.decode((folder / OUTCOME).read_bytes(), type=Outcome)
