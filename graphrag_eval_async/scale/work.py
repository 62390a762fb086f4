"""The work on a range of a file: evaluating responses, or aggregating results."""

from __future__ import annotations

import secrets
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.batch import take_result
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import Reject
from graphrag_eval_async.reference import StepNames
from graphrag_eval_async.scale.ranges import RangeLines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Response
    from graphrag_eval_async.scale.ranges import Range

REPLY_BYTES = 32 << 20
"""Size at which a reply ends early: results may be far longer than their responses."""

PART_BYTES = 1 << 15
"""Approximate size of the parts in which results are sent; fits in a CPU cache."""

NUMBER_DIGITS = 19
"""Of the number that stands for that of a sample; it fits in 64 bits."""

REJECT_BYTES = 1 << 14
"""Bytes a reject counts for besides its line: the parent unpickles all rejects of a reply at once."""


class Part(NamedTuple):
    """A few results as lines of JSON.

    Attributes:
        text: the lines; `NUMBER_DIGITS` digits stand for the number of a sample, which only the parent knows.
        places: for each result, where in `text` these digits are.
        owners: for each result, the index of its question among those of the reply.
    """

    text: bytes
    places: array[int]
    owners: array[int]


@dataclass(slots=True)
class Reply:
    """The outcome of a range, or of its beginning.

    Attributes:
        end: bytes of the file before what is left of the range.
        lines: how many lines there are before that in the range, blank ones too.
        results: how many results there are.
        aggregates: of the results, as bytes.
        questions: ids of the questions that they are of.
        names: of the reference steps of results that were aggregated.
        firsts: for each question, template, metrics and values of its first result in the range.
        rejects: their lines are numbered from 1 in the range.
        alone: whether this process must do the rest of the range, and all later ranges, one after the other.
    """

    end: int
    lines: int = 0
    results: int = 0
    aggregates: bytes = b""
    questions: list[str] = field(default_factory=list)
    names: StepNames = field(default_factory=StepNames)
    firsts: list[tuple[str, tuple[str, ...], tuple[float, ...]]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class Work:
    """Options of both kinds of work.

    Attributes:
        max_line_bytes: longer lines are rejected.
        include_errors: whether the metrics of error responses count.
        content: whether rejects carry their lines.
        reply_bytes: about how long a reply may be.
    """

    max_line_bytes: int
    include_errors: bool = False
    content: bool = False
    reply_bytes: int = REPLY_BYTES

    def reject(self, rejected: Reject, reply: Reply, before: int) -> int:
        """Add a reject to the reply; returns about how many bytes it takes."""
        content = rejected.content if self.content else None
        reply.rejects.append(replace(rejected, line=rejected.line - before, content=content))
        return REJECT_BYTES + len(rejected.head) + len(content or b"")


@dataclass(frozen=True, kw_only=True)
class Evaluating(Work):
    """Evaluates the responses of a range.

    Attributes:
        evaluator: one that does not judge.
        writes: whether the results are wanted, and not their aggregates alone.
        numbers: whether results have the number of their sample.
        stops_at_reject: whether the reply ends with the first reject.
    """

    evaluator: Evaluator
    writes: bool
    numbers: bool = True
    stops_at_reject: bool = False

    def __call__(self, range_: Range, emit: Callable[[Part], object]) -> Reply:
        """Evaluate; `emit` is called with the results, a few at a time."""
        reply = Reply(range_.end)
        lines = RangeLines(range_, self.max_line_bytes)
        results = _Results(self, emit)
        rejected = 0
        read = self.evaluator.reader(self.max_line_bytes)
        for record in lines:
            response = read(record)
            if isinstance(response, Reject):
                rejected += self.reject(response, reply, lines.before)
            else:
                results.add(response)
            is_last = self.stops_at_reject and reply.rejects
            if is_last or rejected + results.size >= self.reply_bytes:
                reply.end, reply.lines = lines.end_of(record), record.number - lines.before
                break
        else:
            reply.lines = lines.count
        results.finish(reply)
        return reply


class _Results:
    """The results of a range.

    Each is written with a random number for that of its sample, which no text of the agent can know: so the
    place of the number is certain.
    """

    def __init__(self, work: Evaluating, emit: Callable[[Part], object]) -> None:
        self._sent = 0
        self._work = work
        self._emit = emit
        steps = work.evaluator.reference.step_names
        self._aggregates = RunningAggregates(include_errors=work.include_errors, steps=steps)
        self._questions: dict[str, int] = {}
        self._firsts: list[tuple[str, tuple[str, ...], tuple[float, ...]]] = []
        self._count = 0
        self._number = 10 ** (NUMBER_DIGITS - 1) + secrets.randbelow(8 * 10 ** (NUMBER_DIGITS - 1))
        self._token = str(self._number).encode()
        self._begin_part()

    @property
    def size(self) -> int:
        """Size of their text in bytes."""
        return self._sent + self._part_size

    def _begin_part(self) -> None:
        self._pieces: list[bytes] = []
        self._places, self._owners = array("Q"), array("I")
        self._part_size = 0

    def add(self, response: Response) -> None:
        number = self._number if self._work.numbers else None
        evaluation = self._work.evaluator.score(response, number)
        owner = self._questions.setdefault(response.question_id, len(self._questions))
        is_first = owner == len(self._firsts)
        if number is not None:
            evaluation.sample = 1 if is_first else 2  # As far as this range knows.
        self._aggregates.add(evaluation)
        evaluation.sample = number
        self._count += 1
        if is_first:
            counts = self._work.include_errors or not evaluation.failed
            counted = evaluation if counts else evaluation.without_values()
            self._firsts.append((counted.template_id, counted.metrics, counted.numbers))
        if self._work.writes:
            line = orjson.dumps(evaluation.as_dict(), option=orjson.OPT_APPEND_NEWLINE)
            if number is not None:
                self._places.append(self._part_size + line.rindex(self._token))
            self._owners.append(owner)
            self._pieces.append(line)
            self._part_size += len(line)
            if self._part_size >= PART_BYTES:
                self._end_part()

    def _end_part(self) -> None:
        self._emit(Part(b"".join(self._pieces), self._places, self._owners))
        self._sent += self._part_size
        self._begin_part()

    def finish(self, reply: Reply) -> None:
        if self._pieces:
            self._end_part()
        reply.results = self._count
        reply.aggregates = self._aggregates.to_bytes()
        reply.questions, reply.firsts = [*self._questions], self._firsts if self._work.numbers else []


@dataclass(frozen=True, kw_only=True)
class Aggregating(Work):
    """Aggregates the results of a range.

    Attributes:
        aggregates: those of all ranges before, if this one is done after them; else it ends before the first
            result with metrics in `pending`, since another range may have the whole of it.
        steps: the names of steps that are always counted by name.
    """

    aggregates: RunningAggregates | None = None
    steps: Collection[str] = ()

    def __call__(self, range_: Range, emit: Callable[[Part], object]) -> Reply:  # noqa: ARG002
        """Aggregate; there is nothing to emit."""
        reply = Reply(range_.end)
        lines = RangeLines(range_, self.max_line_bytes)
        aggregates = self.aggregates
        if aggregates is None:
            aggregates = RunningAggregates(include_errors=self.include_errors, steps=self.steps)
        questions: set[str] = set()
        taken = 0

        def add(result: dict[str, Any]) -> None:
            if self.aggregates is None and isinstance(result, dict) and "pending" in result:
                raise _Pending
            aggregates.add(result)
            reply.names.add(result)
            reply.results += 1
            if isinstance(question_id := result.get("question_id"), str):
                questions.add(question_id)

        try:
            for record in lines:
                if (rejected := take_result(record, add, self.max_line_bytes)) is not None:
                    taken += self.reject(rejected, reply, lines.before)
                if taken >= self.reply_bytes:
                    reply.end, reply.lines = lines.end_of(record), record.number - lines.before
                    break
            else:
                reply.lines = lines.count
        except _Pending:
            reply.end, reply.lines, reply.alone = record.offset, record.number - lines.before - 1, True
        reply.questions = [*questions]
        if self.aggregates is None:
            reply.aggregates = aggregates.to_bytes()
        return reply


class _Pending(Exception):  # noqa: N818
    """A result came in part."""
