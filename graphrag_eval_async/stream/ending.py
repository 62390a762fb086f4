"""Ends a stream as soon as its results decide a condition."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.until import Deciding, Until, condition_of, unknown_metric
from graphrag_eval_async.records.evaluation import Evaluation
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, OF_STEPS
from graphrag_eval_async.records.outcomes import OF_PENDING
from graphrag_eval_async.sinks.journal.admission import digest_of
from graphrag_eval_async.sources import JsonlFiles, read_jsonl
from graphrag_eval_async.stream.asking import Asking
from graphrag_eval_async.stream.bounded_map import Later, Unread

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.inference.until import Sample
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.sinks.journal.admission import KeptLine
    from graphrag_eval_async.sources import Responses
    from graphrag_eval_async.stream.intake import Intake, Outcome
    from graphrag_eval_async.stream.resuming import Resuming


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stream found out about its `until` condition.

    Attributes:
        condition: the condition.
        level: confidence level of the decision.
        holds: whether the condition holds; None as long as that is not decided.
        responses: how many results were counted for it, in the order of the input; of those of the template,
            if the condition names one.
        questions: how many different questions these answer. About others, asking the same ones again says
            nothing.
        samples: to how many of these responses the metric applies. One with several retrieval steps is one
            sample, their mean.
        failed: how many of these have no value, or lack that of a step, since the agent or the judge failed.
        low: the lower end of the confidence sequence for the mean, if every failed value were 0.
        high: the upper end, if every failed value were 1.
        remaining: how many lines are behind the result that decided, or are still to come; those that a
            journal has do not count, all of which are taken to be in the file. None but for files that are
            shuffled, whose lines are known, and for the questions that an agent is asked.
        saved_calls: about how many calls of the judge these would have taken, but for those that were
            finished by then. Of them, as many are taken to have something to judge as of those before, and
            each of these to take as many calls as the finished results of this run that made any: calls
            which the cache or an equal one in flight answers do not show that. None where `remaining` is, or
            where no result made a call.
        saved_dollars: about how many US dollars; None where a price is not known, too. Both are 0 without a
            judge.
    """

    condition: str
    level: float
    holds: bool | None
    responses: int
    questions: int
    samples: int
    failed: int
    low: float
    high: float
    remaining: int | None
    saved_calls: int | None
    saved_dollars: float | None


def as_until(until: str | Until, evaluator: Evaluator, *, resumed: bool) -> Until:
    """The condition that ends a stream; `resumed` if a journal has lines that are not read again."""
    checked = until if isinstance(until, Until) else Until(until)
    condition = condition_of(checked.condition)
    templates = evaluator.reference.templates
    if condition.template is not None and templates and condition.template not in templates:
        raise UsageError(f"until: no template {condition.template!r}; there are: {', '.join(templates)}")
    judged = {metric for name in evaluator.judged for metric in OF_PENDING.get(name, ())}
    fractions = evaluator.fractions
    if condition.metric not in BOUNDED_METRICS and condition.metric not in fractions:
        raise unknown_metric(condition.metric, fractions)
    if condition.metric not in {*OF_STEPS, *judged, *fractions}:
        raise UsageError(f"until: {condition.metric} is not judged; the configuration says which metrics are")
    if resumed:
        raise UsageError(
            "until: cannot be combined with a journal of followed files, whose old lines are not read again; "
            "read_jsonl reads them from their start"
        )
    return checked


def in_fair_order(responses: Responses) -> Responses:
    """Return a path's lines in random order if they can be shuffled: files are often sorted by template."""
    if isinstance(responses, str | os.PathLike) and read_jsonl(responses).can_be_shuffled:
        return read_jsonl(responses, shuffle=0)
    return responses


class Seen(NamedTuple):
    """What a finished line contributes to the decision.

    Attributes:
        sample: what counts of its result, if anything.
        judged: whether there was anything to judge.
        is_new: whether its result, if it has one, is of this run.
    """

    sample: Sample | None = None
    judged: bool = False
    is_new: bool = True


class UntilDecided:
    """Hands out and counts results in the order of their lines, until they decide.

    Quick answers are not a fair sample: what is complete waits for all lines before it, and what is behind
    the result that decides never comes out. Of a line whose work raises, and behind it, nothing is counted
    any more: what is complete comes out then, and after it the exception.

    Attributes:
        end: ends the stream.
    """

    def __init__(
        self,
        until: Until,
        intake: Intake | Asking,
        session: JudgeSession | None,
        resuming: Resuming | None,
        responses: object,
    ) -> None:
        """Count the results that `intake` makes from `responses`, and those that `resuming` restores."""
        self.end: Callable[[], object] = lambda: None
        self._until = until
        self._deciding = Deciding(until)
        self._intake = intake
        self._spending = None if session is None else session.spending
        self._responses = responses
        self._restored: dict[bytes, dict[int, Seen]] = {}
        self._kept = self._begun = self._done = self._next = self._judged = self._out = 0
        self._waiting: dict[int, asyncio.Event] = {}
        self._given_up = False
        if resuming is not None:
            resuming.on_restored = self._restore

    def _restore(self, line: KeptLine, result: dict[str, Any] | None) -> None:
        """Keep the contribution of a line from an earlier run until the line is read again."""
        digest, occurrence, *_ = line
        assert occurrence is not None  # noqa: S101  (a part of a file has no condition)
        seen = Seen() if result is None else self._see(result)
        self._restored.setdefault(digest, {})[occurrence] = seen._replace(is_new=False)
        self._kept += 1

    def evaluate(self, record: Record) -> Outcome | Unread[Evaluation]:
        """Return what the intake makes of a record, once all lines before it are done."""
        outcome = self._intake.evaluate(record)
        if isinstance(outcome, Unread):
            return Unread(partial(self._evaluate_large, record, outcome), weight=outcome.weight)
        return self._take(record, outcome)

    async def _evaluate_large(self, record: Record, unread: Unread[Evaluation]) -> Outcome:
        return self._take(record, await unread.call())

    def _take(self, record: Record, outcome: Outcome) -> Outcome:
        place = self._begun
        self._begun += 1
        if isinstance(outcome, Later):
            return Later(partial(self._finish, place, outcome), weight=outcome.weight)
        seen = self._take_restored(record) if outcome is None else self._see(outcome)
        self._done += seen.is_new
        if place != self._next:
            return Later(partial(self._wait, place, seen, outcome))
        return self._let_out(seen, outcome)

    async def _finish(
        self, place: int, later: Later[Evaluation], hand_out: Callable[[Evaluation], None]
    ) -> Evaluation | Later[Evaluation] | None:
        is_done = False
        try:
            result = await later.call(hand_out)
            if isinstance(result, Later):
                is_done = True
                return Later(partial(self._finish, place, result), weight=result.weight)
            seen = Seen() if result is None else self._see(result)
            is_done = True
        finally:
            if not is_done:
                self._give_up()
        self._done += 1
        return await self._wait(place, seen, result, hand_out)

    async def _wait(
        self, place: int, seen: Seen, result: Evaluation | None, _: Callable[[Evaluation], None]
    ) -> Evaluation | None:
        if place != self._next and not self._given_up:
            turn = self._waiting[place] = asyncio.Event()
            await turn.wait()
        return self._let_out(seen, result)

    def _see(self, result: Evaluation | dict[str, Any]) -> Seen:
        judged = result.provenance is not None if isinstance(result, Evaluation) else "judge" in result
        return Seen(self._deciding.read(result), judged)

    def _take_restored(self, record: Record) -> Seen:
        """Return the contribution of a line that has no result in this run."""
        found = self._restored.get(digest_of(record)) if self._restored else None
        return found.pop(min(found)) if found else Seen()

    def _let_out(self, seen: Seen, result: Evaluation | None) -> Evaluation | None:
        """Count a result and return it; return None after the result that decided."""
        if self._is_decided():
            return None
        self._out += seen.is_new
        if self._given_up:
            return result
        self._next += 1
        self._judged += seen.judged
        self._deciding.add(seen.sample)
        if self._is_decided():
            self.end()
        elif turn := self._waiting.pop(self._next, None):
            turn.set()
        return result

    def _give_up(self) -> None:
        if not self._is_decided():
            self._given_up = True
            for turn in self._waiting.values():
                turn.set()

    def _is_decided(self) -> bool:
        return self._deciding.holds is not None

    @property
    def decision(self) -> Decision:
        """The decision so far."""
        deciding = self._deciding
        low, high = deciding.interval
        lines = self._responses.lines if isinstance(self._responses, JsonlFiles | Asking) else None
        # All that a journal has is subtracted, whether it came again by now or not.
        remaining = None if lines is None else max(0, lines - self._kept - self._out)
        calls, dollars = self._saved(None if lines is None else max(0, lines - self._kept - self._done))
        return Decision(
            condition=self._until.condition,
            level=self._until.level,
            holds=deciding.holds,
            responses=deciding.results,
            questions=len(deciding.questions),
            samples=deciding.samples,
            failed=deciding.failed,
            low=low,
            high=high,
            remaining=remaining,
            saved_calls=calls,
            saved_dollars=dollars,
        )

    def _saved(self, unfinished: int | None) -> tuple[int | None, float | None]:
        if unfinished is None:
            return None, None
        if self._spending is None or not unfinished:
            return 0, 0.0
        calls, dollars = self._spending.mean
        if calls is None:
            return None, None
        # Of those that came out, since behind them all that need not be judged is finished first.
        judged = unfinished * self._judged / max(1, self._next)
        return round(judged * calls), None if dollars is None else judged * dollars
