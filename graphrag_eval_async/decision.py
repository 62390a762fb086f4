"""Ending a stream as soon as its results decide a question."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.failures import OF_PENDING
from graphrag_eval_async.aggregates.until import Until, parse_condition
from graphrag_eval_async.concurrency import SLICE_SECONDS, Later
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records import Line
from graphrag_eval_async.sinks.journal.contents import DIGEST_BYTES
from graphrag_eval_async.sources import JsonlFiles, read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.aggregates.deciding import Samples
    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.intake import Intake, Result
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.resuming import Resuming, Tally
    from graphrag_eval_async.sinks.journal.admission import KeptLine
    from graphrag_eval_async.sources import Responses

    Outcome = Result | Later[Result] | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stream found out about the condition that it was to end by.

    Attributes:
        condition: the condition.
        level: how sure the decision is.
        holds: whether the condition holds; None as long as that is not decided.
        responses: how many results were counted for it, in the order of the input.
        samples: how many samples of the metric these had, the failed ones included.
        failed: how many samples have no value, since the agent or the judge failed.
        low: the lower end of the confidence sequence for the mean, if every failed sample were 0.
        high: the upper end, if every failed sample were 1.
        remaining: how many lines were not evaluated, or are not yet; None but for files that are shuffled,
            whose lines are known.
        saved_calls: about how many calls of the judge these would have taken, if as many as the others; None
            where `remaining` is, or where nothing was evaluated.
        saved_dollars: about how many US dollars; None where a price is not known, too.
    """

    condition: str
    level: float
    holds: bool | None
    responses: int
    samples: int
    failed: int
    low: float
    high: float
    remaining: int | None
    saved_calls: int | None
    saved_dollars: float | None


def as_until(until: str | Until, evaluator: Evaluator, *, resumed: bool) -> Until:
    """What a stream is to end by.

    Args:
        until: as it was given.
        evaluator: that is to make the results.
        resumed: whether there is a journal of a source whose lines do not come again.

    Raises:
        UsageError: it cannot be found out.
    """
    checked = until if isinstance(until, Until) else Until(until)
    condition = parse_condition(checked.condition)
    templates = evaluator.reference.templates
    if condition.template is not None and condition.template not in templates:
        raise UsageError(f"until: no template {condition.template!r}; there are: {', '.join(templates)}")
    judged = {metric for name in evaluator.judged for metric in OF_PENDING.get(name, ())}
    if condition.metric not in {"steps_score", *judged}:
        raise UsageError(f"until: {condition.metric} is not judged; the configuration says which metrics are")
    if resumed:
        raise UsageError(
            "until: does not go with the journal of files that are followed, since their lines do not come "
            "again; read_jsonl reads them from their start"
        )
    return checked


def in_fair_order(responses: Responses) -> Responses:
    """Shuffled, if it is a path of what can be, since files are often sorted by template."""
    if isinstance(responses, str | os.PathLike) and read_jsonl(responses).can_be_shuffled:
        return read_jsonl(responses, shuffle=0)
    return responses


class UntilDecided:
    """Counts results in the order of their lines, whenever they are complete, until they decide.

    Quick answers are not a fair sample. What is complete behind a line that is not waits here, a few numbers
    for each; a line that is rejected, or was there already, keeps nothing waiting. One whose work raises or
    is cancelled keeps all behind it waiting: then the stream ends anyway.

    Attributes:
        end: ends the stream; what is complete comes out.
    """

    def __init__(
        self, until: Until, intake: Intake, tally: Tally, resuming: Resuming | None, responses: Responses
    ) -> None:
        """Count what `intake` makes of `responses`, and what `resuming` brings back of earlier runs."""
        from graphrag_eval_async.aggregates.deciding import Deciding  # which other streams do not need

        self.end: Callable[[], object] = _do_nothing
        self._until = until
        self._deciding = Deciding(until)
        self._intake = intake
        self._usage = tally.usage
        self._responses = responses
        self._restored: dict[bytes, dict[int, Samples]] = {}
        self._begun = self._next = self._done = self._evaluated = 0
        self._early: dict[int, Samples | None] = {}
        self._counting = False
        self._spent: tuple[int, int, float | None] | None = None
        if resuming is not None:
            resuming.on_restored = self._restore

    def _restore(self, line: KeptLine, result: Result) -> None:
        """Keep what counts of a result of an earlier run until its line comes again."""
        digest, occurrence, *_ = line
        self._restored.setdefault(digest, {})[occurrence] = self._deciding.read(result)

    def evaluate(self, record: Record) -> Outcome:
        """What the intake makes of a record, which counts once it is complete."""
        place = self._begun
        self._begun += 1
        outcome = self._intake.evaluate(record)
        if isinstance(outcome, Later):
            return Later(partial(self._finish, place, outcome), weight=outcome.weight)
        self._note(place, outcome, record)
        if place == self._next and place in self._early:
            self._count_next()
        return outcome

    async def _finish(
        self, place: int, later: Later[Result], hand_out: Callable[[Result], None]
    ) -> Result | None:
        result = await later.call(hand_out)
        self._note(place, result)
        if not self._counting:
            await self._count_all()
        return result

    def _note(self, place: int, result: Result | None, record: Record | None = None) -> None:
        self._done += 1
        self._evaluated += result is not None
        if self._deciding.holds is None:
            samples = self._take_restored(record) if result is None else self._deciding.read(result)
            self._early[place] = samples

    def _take_restored(self, record: Record | None) -> Samples | None:
        if not self._restored or not isinstance(record, Line):
            return None
        found = self._restored.get(hashlib.sha256(record.data).digest()[:DIGEST_BYTES])
        return found.pop(min(found)) if found else None

    async def _count_all(self) -> None:
        """Those that waited behind a line may be many."""
        self._counting = True
        due = monotonic() + SLICE_SECONDS
        try:
            while self._next in self._early:
                self._count_next()
                if monotonic() >= due:
                    await asyncio.sleep(0)
                    due = monotonic() + SLICE_SECONDS
        finally:
            self._counting = False

    def _count_next(self) -> None:
        samples = self._early.pop(self._next)
        self._next += 1
        if samples is not None:
            self._deciding.add(samples)
            if self._deciding.holds is not None:
                self._early.clear()
                self._spent = self._spending()  # Calls that are cancelled now are no longer told from others.
                self.end()

    @property
    def decision(self) -> Decision:
        """As it is now."""
        deciding = self._deciding
        low, high = deciding.interval
        lines = self._responses.lines if isinstance(self._responses, JsonlFiles) else None
        remaining = None if lines is None else lines - self._done
        calls, dollars = self._saved(remaining)
        return Decision(
            condition=self._until.condition,
            level=self._until.level,
            holds=deciding.holds,
            responses=deciding.results,
            samples=deciding.samples,
            failed=deciding.failed,
            low=low,
            high=high,
            remaining=remaining,
            saved_calls=calls,
            saved_dollars=dollars,
        )

    def _saved(self, remaining: int | None) -> tuple[int | None, float | None]:
        evaluated, calls, dollars = self._spent or self._spending()
        if remaining is None or not evaluated:
            return None, None
        share = remaining / evaluated
        return round(calls * share), None if dollars is None else dollars * share

    def _spending(self) -> tuple[int, int, float | None]:
        """How many results took how many calls and dollars by now."""
        usage = self._usage
        dollars = usage.dollars
        if dollars is not None:
            # A judge of the caller's need not tell its tokens.
            dollars = dollars - usage.restored_dollars if usage.tokens or not usage.calls else None
        return self._evaluated, usage.calls - usage.in_flight - usage.waiting, dollars


def _do_nothing() -> None:
    """Until there is a stream to end."""
