"""One response in, one result out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from graphrag_eval_async.errors import ComparisonBudgetExceeded, RejectedResponse, UsageError
from graphrag_eval_async.judge.cache import digest
from graphrag_eval_async.records import Line, Reject, read_record, write_line
from graphrag_eval_async.records.copying import copier
from graphrag_eval_async.reference import Groups, Reference, Templates, load_reference
from graphrag_eval_async.result import blank, complete, fill
from graphrag_eval_async.steps import QUICK_SEARCH_STEPS, Budget, Facts, prepare_step, score_steps
from graphrag_eval_async.threads import run_in_thread
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import Judge, JudgeSession, JudgeUsage
    from graphrag_eval_async.metrics import Judging, OnFatal, Plan
    from graphrag_eval_async.records import Question, Record, Response
    from graphrag_eval_async.steps import Comparator

StepsGroups = Literal["last", "all"]

LARGE_BYTES = 128 * 1024
"""From this size on, of a response or of its reference steps, scoring is done in a thread: comparing large
tables would hold up the event loop."""


class Scored(NamedTuple):
    """A result whose steps are scored, and what is still to be judged of it, if anything.

    `facts` are what its failure is decided by, where its question has reference steps: once more when it is
    judged.
    """

    result: dict[str, Any]
    facts: Facts | None
    plan: Plan | None = None


class Evaluator:
    """Evaluates single responses against a reference set.

    With a judge it is an asynchronous context manager, which closes what its first call opens; it is used
    within one event loop then.

    Attributes:
        reference: the reference set.
    """

    def __init__(
        self,
        reference: str | os.PathLike[str] | Templates | Reference,
        *,
        comparators: Mapping[str, Comparator] | None = None,
        steps_groups: StepsGroups | None = None,
        config: str | os.PathLike[str] | Mapping[str, Any] | Config | None = None,
        judge: Judge | None = None,
        on_fatal: OnFatal = "raise",
    ) -> None:
        """Prepare the reference set.

        Args:
            reference: a path to YAML or JSON, a list of template dicts, or a `Reference`.
            comparators: by name of reference step, what compares it with an actual step of that name:
                ``(reference_step, actual_step) -> float`` in [0, 1]. It takes the place of a built-in one. It
                should depend on the two steps alone: it may be called from a worker thread, and twice.
            steps_groups: "last" scores the last group of reference steps, "all" the mean over all groups;
                where it is not given, the configuration says, and else it is "last".
            config: which metrics are judged, by which models and within which limits: a path to YAML, a dict
                of that layout, or a `Config`. Without it only the steps are scored.
            judge: takes the place of the configured models. Without a configuration, it judges answer
                correctness.
            on_fatal: what becomes of a judge that will not answer any call, because of its key, model or
                quota: "raise" raises `JudgeUnavailable`, "continue" makes it the error of each metric.

        Raises:
            ReferenceDataError: the reference set cannot be right.
            ConfigError: the configuration cannot be right, or needs a package that is not installed.
            UsageError: an argument has a value it cannot have.
        """
        if steps_groups not in (None, "last", "all"):
            raise UsageError(f'steps_groups: expected "last" or "all", got {steps_groups!r}')
        if on_fatal not in ("raise", "continue"):
            raise UsageError(f'on_fatal: expected "raise" or "continue", got {on_fatal!r}')
        if not isinstance(comparators, Mapping | None):
            raise UsageError(f"comparators: expected a dict of functions, got {comparators!r}")
        for name, comparator in (comparators or {}).items():
            if not isinstance(name, str) or not callable(comparator):
                raise UsageError(f"comparators[{name!r}]: expected a function, got {comparator!r}")
        self._mode: StepsGroups = steps_groups or "last"
        self._comparators = dict(comparators or {})
        self._judging: Judging | None = None
        if config is not None or judge is not None:
            self._configure(config, judge, on_fatal, steps_groups)
        self._opened: tuple[asyncio.AbstractEventLoop, JudgeSession] | None = None
        self.reference = load_reference(reference, comparators=comparators)
        self._groups = self.reference.prepared
        if comparators and self.reference is reference:  # Loaded before, and without them.
            self._groups = _with_comparators(self.reference, comparators)
        self._large = {question.id for question in self.reference if _is_large(question)}
        self._blanks = {question.id: copier(blank(question)) for question in self.reference}

    def _configure(
        self,
        config: str | os.PathLike[str] | Mapping[str, Any] | Config | None,
        judge: Judge | None,
        on_fatal: OnFatal,
        steps_groups: StepsGroups | None,
    ) -> None:
        from graphrag_eval_async.config import load_config  # which streams without a judge do not need
        from graphrag_eval_async.metrics import Judging, metrics_on

        checked = load_config({} if config is None else config, judge=judge is not None)
        self._mode = steps_groups or checked.steps.groups
        if metrics_on(checked):
            self._judging = Judging(checked, judge=judge, on_fatal=on_fatal)

    async def evaluate(self, response: Mapping[str, Any] | bytes | str, *, sample: int = 1) -> dict[str, Any]:
        """The result of one response: a dict, or the same as JSON text.

        Args:
            response: is not changed; the result holds copies.
            sample: the `sample` that the result carries.

        Raises:
            RejectedResponse: the response cannot be evaluated.
            JudgeUnavailable: the judge will not answer any call, and `on_fatal` is "raise".
        """
        text = response.encode(errors="surrogatepass") if isinstance(response, str) else response
        if isinstance(text, bytes | bytearray):
            record: Record = Line(1, 0, bytes(text))
        else:
            record = write_line(text, 1, 0)
        read = read_record(record, self.reference.questions)
        if isinstance(read, Reject):
            raise RejectedResponse(read)
        scored = self.score_at_once(record, read, sample) or await self.score_in_thread(read, sample)
        if scored.plan is None:
            return scored.result
        session = self._own_session()
        session.usage.outcomes["skipped"] += scored.plan.skipped
        return await self.judge(scored, scored.plan, session) if scored.plan.due else scored.result

    def score_at_once(self, record: Record, response: Response, sample: int) -> Scored | None:
        """The result of the response in `record`, or None where finding it would hold up an event loop."""
        if weight(record) or response.question_id in self._large:
            return None
        try:
            return self._score(response, sample, Budget(QUICK_SEARCH_STEPS), quick=True)
        except ComparisonBudgetExceeded:
            return None

    async def score_in_thread(self, response: Response, sample: int) -> Scored:
        """The result of one response, however long it takes; a cancellation ends the work, too."""
        budget = Budget()
        return await run_in_thread(partial(self._score, response, sample, budget), budget.stop)

    def _score(self, response: Response, sample: int, budget: Budget, *, quick: bool = False) -> Scored:
        steps = response.fields.get("actual_steps")
        groups = self._groups.get(response.question_id)
        scored = facts = None
        if groups is not None:
            if steps is None or response.failed:
                facts = Facts(attempted=bool(steps), failed=response.failed)
            else:
                scored = score_steps(groups, steps, budget, mode=self._mode, quick=quick)
                facts = scored.facts
        result: dict[str, Any] = self._blanks[response.question_id]()
        fill(result, response, sample, scored, facts)
        if self._judging is None or response.failed:
            return Scored(result, facts)
        question = self.reference.questions[response.question_id]
        matches = scored.matches if scored else ()
        return Scored(result, facts, self._judging.plan(question, response.fields, matches))

    def fingerprints(self) -> dict[str, str]:
        """What tells results of this evaluator from those of others: a word or a hash, by what it is of."""
        questions = [asdict(question) for question in self.reference]
        config = [self._mode, self._judging and self._judging.fingerprint, sorted(self._comparators)]
        return {
            "version": version(),
            "reference": digest([self.reference.templates, questions]).hex(),
            "configuration": digest(config).hex(),
        }

    @property
    def judged(self) -> Sequence[str]:
        """The names of the metrics that are judged, as in the configuration."""
        return () if self._judging is None else self._judging.names

    @property
    def fractions(self) -> Sequence[str]:
        """The outputs of custom evaluations that are from 0 to 1 by their definition."""
        return () if self._judging is None else self._judging.provenance().get("fractions", ())

    def session(self) -> JudgeSession | None:
        """The judge, as one stream calls it; None where only steps are scored."""
        return self._judging.session() if self._judging is not None else None

    async def judge(self, scored: Scored, plan: Plan, session: JudgeSession) -> dict[str, Any]:
        """The whole result, judged.

        Raises:
            JudgeUnavailable: the judge will not answer any call, and `on_fatal` is "raise".
        """
        assert self._judging is not None  # noqa: S101  (plans come from it)
        judged = await self._judging.run(plan, session)
        return complete(scored.result, scored.facts, judged, self._judging.provenance())

    @property
    def usage(self) -> JudgeUsage | None:
        """Counts of the judge's calls for `evaluate`; None before the first."""
        return self._opened[1].usage if self._opened is not None else None

    def _own_session(self) -> JudgeSession:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            assert self._judging is not None  # noqa: S101
            self._opened = loop, self._judging.session()
        return self._opened[1]

    async def aclose(self) -> None:
        """Close what the judge has opened; no `evaluate` may be in progress."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[1].aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def weight(record: Record) -> int:
    """The size of a record in units of `LARGE_BYTES`."""
    return len(record.data) // LARGE_BYTES if isinstance(record, Line) else 0


def _is_large(question: Question) -> bool:
    outputs = (step.get("output") for group in question.reference_steps or () for step in group)
    return sum(len(output) for output in outputs if isinstance(output, str)) >= LARGE_BYTES


def _with_comparators(reference: Reference, comparators: Mapping[str, Comparator]) -> Mapping[str, Groups]:
    """The prepared steps of a reference set, those with a comparator of the caller's prepared anew."""
    return {
        question_id: tuple(
            tuple(
                prepare_step(step.step, comparators) if step.step["name"] in comparators else step
                for step in group
            )
            for group in groups
        )
        for question_id, groups in reference.prepared.items()
    }
