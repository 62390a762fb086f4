"""``aggregate``: aggregates of results that are on disk already."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING, Any, cast

from graphrag_eval_async.aggregates import RunningAggregates
from graphrag_eval_async.aggregates.reading import is_metric
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_rejects
from graphrag_eval_async.cli.gates import MISSING_RATE
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.report import LISTED_REJECTS, Run, report
from graphrag_eval_async.errors import AggregationError, UsageError
from graphrag_eval_async.records import Line, LongLine
from graphrag_eval_async.records.decoding import MAX_DEPTH, InvalidRecord, load, nests_deeper, too_deep
from graphrag_eval_async.records.reject import reject, reject_long
from graphrag_eval_async.records.response import BEYOND_64_BITS
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sources import open_source, read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.cli.exits import Exit
    from graphrag_eval_async.cli.gates import Gate
    from graphrag_eval_async.cli.interrupts import Interrupts
    from graphrag_eval_async.records import Reason, Record, Reject
    from graphrag_eval_async.sinks import RejectsFile
    from graphrag_eval_async.sources import JsonlFiles

MAX_RESULT_DEPTH = MAX_DEPTH + 1
"""A result holds what is unknown in a response one level further down."""


def aggregate(
    shards: Sequence[str],
    interrupts: Interrupts,
    *,
    reference_path: str | None,
    aggregates: str | None,
    rejects: str | None,
    gates: Sequence[Gate],
    include_errors: bool,
    max_line_bytes: int,
) -> Exit:
    """Run the command.

    Raises:
        UsageError: a file cannot be opened or would be overwritten, or a gate wants a reference set.
        ReferenceDataError: the reference set cannot be right.
    """
    if reference_path is None and any(gate.metric == MISSING_RATE for gate in gates):
        raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")
    check_distinct([*shards, reference_path], [rejects, aggregates])
    reference = load_reference(reference_path) if reference_path is not None else None
    templates = reference.templates if reference is not None else ()
    sources = [read_jsonl(shard) for shard in shards]
    with ExitStack() as files:
        rejects_file = files.enter_context(open_rejects(rejects, interrupts)) if rejects else None
        results = _Results(
            RunningAggregates(include_errors=include_errors, templates=templates),
            rejects_file,
            max_line_bytes=max_line_bytes,
        )
        with progress(*sources) as advance:
            ending = run_to_end(results.read(shards, sources, advance), interrupts)
    run = Run(
        ending=ending,
        aggregates=results.aggregates,
        rejected=results.rejected,
        listed=results.listed,
        reference=reference,
        answered=results.answered,
    )
    table = sys.stderr if rejects == "-" else sys.stdout
    return report(run, aggregates=aggregates, gates=gates, table=table)


class _Results:
    """What was read so far.

    Attributes:
        aggregates: of the results.
        answered: ids of their questions.
        rejected: how many lines are no results, by reason.
        listed: the first of them as text, where no file takes them.
    """

    def __init__(
        self, aggregates: RunningAggregates, rejects_file: RejectsFile | None, *, max_line_bytes: int
    ) -> None:
        self.aggregates = aggregates
        self.answered: set[str] = set()
        self.rejected: Counter[Reason] = Counter()
        self.listed: list[str] = []
        self._file = rejects_file
        self._max_line_bytes = max_line_bytes

    async def read(
        self, shards: Sequence[str], sources: Sequence[JsonlFiles], advance: Callable[[], None]
    ) -> None:
        spool = self._file is not None
        for shard, source in zip(shards, sources, strict=True):
            lines = open_source(source, max_line_bytes=self._max_line_bytes, spool=spool)
            async with aclosing(lines) as batches:
                async for batch in batches:
                    for record in batch:
                        self._add(record, shard)
                        advance()

    def _add(self, record: Record, name: str) -> None:
        if isinstance(record, Line):
            try:
                self._add_result(record.data)
            except InvalidRecord as error:
                self._reject(reject(record, error.reason, str(error)), name)
        else:
            rejected = reject_long(cast(LongLine, record))
            self._reject(rejected, name)
            if rejected.content is not None and not isinstance(rejected.content, bytes):
                rejected.content.close()

    def _add_result(self, data: bytes) -> None:
        result = _decode(data)
        try:
            self.aggregates.add(result)
        except AggregationError as error:
            reason: Reason = "invalid_field" if isinstance(result, dict) else "not_an_object"
            raise InvalidRecord(reason, str(error)) from None
        if isinstance(question_id := result.get("question_id"), str):
            self.answered.add(question_id)

    def _reject(self, rejected: Reject, shard: str) -> None:
        name = rejected.path or shard
        self.rejected[rejected.reason] += 1
        if self._file is not None:
            self._file(rejected, file=name)
        elif len(self.listed) < LISTED_REJECTS:
            self.listed.append(f"{name}: {rejected}")


def _decode(data: bytes) -> Any:
    """The JSON value of one line, whose metrics are what was written.

    Raises:
        InvalidRecord: there is no such value.
    """
    result = load(data)
    if nests_deeper(result, MAX_RESULT_DEPTH):
        raise too_deep()
    if isinstance(result, dict):
        steps = result.get("actual_steps")
        for part in (result, *(steps if isinstance(steps, list) else ())):
            if isinstance(part, dict):
                _check_integers(part)
    return result


def _check_integers(part: dict[str, Any]) -> None:
    for key, value in part.items():
        if type(value) is float and abs(value) >= BEYOND_64_BITS and is_metric(key):
            raise InvalidRecord("invalid_field", f"{key}: expected a number of at most 64 bits, got {value}")
