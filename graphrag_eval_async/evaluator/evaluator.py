"""Evaluates single responses."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict

from graphrag_eval_async.errors import (
    ComparisonBudgetExceeded,
    RejectedResponse,
    UsageError,
    warn_caller,
)
from graphrag_eval_async.evaluator.fast_path import FastPath
from graphrag_eval_async.evaluator.scoring import Rules, Scoring, StepsGroups
from graphrag_eval_async.evaluator.setup import check_arguments, configure
from graphrag_eval_async.records import Line, LongLine, Reject, read_record, write_line
from graphrag_eval_async.records.aliases import names_by_alias, rename_steps, step_names
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.records.results import count_metrics
from graphrag_eval_async.reference import (
    NoReference,
    PreparedSteps,
    Reference,
    Templates,
    check_matches,
    check_outputs,
    idle_comparators,
    load_reference,
)
from graphrag_eval_async.steps import failure_of
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.execution import Executed, ExecutionSession
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.judge.protocol import GivenJudge
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics import OnFatal
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.steps import Budget, Comparator
    from graphrag_eval_async.traces.format import TraceFormat

RESULTS_VERSION = "9"
"""To be raised with each change by which an equal response gets another result: part of
`fingerprints`.
"""


_KEYS_OF_EXECUTION = ("executed_at", "executed_output", "execution_error", "query_facts")
"""Keys that running the queries of a step adds to it. No agent can say what was run."""


class EvaluatorOptions(TypedDict, total=False):
    """The keyword arguments of `Evaluator`, for functions that pass them on."""

    comparators: Mapping[str, Comparator] | None
    steps_groups: StepsGroups | None
    step_aliases: Mapping[str, Sequence[str]] | None
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | None
    judge: GivenJudge | Mapping[str, GivenJudge] | None
    metrics: Mapping[str, Any] | None
    on_fatal: OnFatal
    format: str | TraceFormat | None


class Evaluator:
    """Evaluates single responses against a reference set.

    With a judge, use it as an asynchronous context manager, within one event loop.

    Attributes:
        reference: the reference set.
        config: the checked configuration; None if there is none.
        trace_format: format of the traces; None if responses are no traces.
        in_code: the metrics in code; None if there are none.
    """

    def __init__(
        self,
        reference: str | os.PathLike[str] | Templates | Reference | None,
        *,
        comparators: Mapping[str, Comparator] | None = None,
        steps_groups: StepsGroups | None = None,
        step_aliases: Mapping[str, Sequence[str]] | None = None,
        config: str | os.PathLike[str] | Mapping[str, Any] | Config | None = None,
        judge: GivenJudge | Mapping[str, GivenJudge] | None = None,
        metrics: Mapping[str, Any] | None = None,
        on_fatal: OnFatal = "raise",
        format: str | TraceFormat | None = None,  # noqa: A002  (its name on the command line)
    ) -> None:
        """Prepare the reference set.

        Args:
            reference: a path to YAML or JSON, a list of template dicts, or a `Reference`. None:
                there is no reference set; each response names its `question`, steps are not scored,
                and metrics that need no reference answer are judged.
            comparators: your own comparison of steps, by name of reference step: ``(reference_step,
                actual_step) -> float`` from 0 to 1. It replaces the built-in one. It may run in a
                worker thread, and twice, so it should depend on the two steps alone.
            steps_groups: "last" scores the last group of reference steps, "all" the mean over all
                groups. Default: as the configuration says, else "last".
            step_aliases: other names that agents give a step, by its name in the reference set;
                added to the `aliases` of the configuration.
            config: metrics to judge, models and limits: a path to YAML, a dict of that layout, or a
                `Config`. Default: no LLM is called; steps and `match` are scored.
            judge: judges in place of the configured models: an `OpenAIJudge`; a client of the
                package openai, which sends the requests of the configured models; a model such as
                "openai/gpt-4o-mini"; or your own `Judge`. Or a dict with one for each name in
                `judges` of the metrics. Without a configuration, it judges answer correctness.
            metrics: metrics of your own, by name, added to `custom_metrics` of the configuration:
                functions ``(question, response, result) -> float | bool | dict[str, float] |
                None``, plain or async, or paths such as ``mypackage.mymodule:brevity``. See the
                page "Write your own metric". Or metrics of ragas, added to `ragas` of the
                configuration: classes, partials of classes, or objects.
            on_fatal: what to do if the judge rejects the key, lacks the model or is out of quota:
                "raise" raises `JudgeUnavailable`, "continue" makes it the error of each metric.
            format: the responses are traces in this format, such as "openai" or "auto"; or a
                `TraceFormat`, which has options.

        Raises:
            ReferenceDataError: the reference set is invalid.
            ConfigError: the configuration is invalid, or needs a package that is not installed.
            UsageError: an argument has an invalid value.
        """
        # What the arguments and the configuration ask for.
        check_arguments(comparators, steps_groups, metrics, on_fatal)
        configured = configure(
            config,
            judge,
            metrics or {},
            on_fatal=on_fatal,
            steps_groups=steps_groups,
            step_aliases=step_aliases,
            has_reference=reference is not None and not isinstance(reference, NoReference),
        )
        rules = configured.rules
        self.config = configured.config
        self._judging = configured.judging
        self._executing = configured.executing
        self.in_code = configured.in_code
        self._opened: _Opened | None = None  # The sessions of `evaluate`, and their event loop.

        # The reference set, and the names of its steps.
        if reference is None:
            self.reference: Reference = NoReference()
        else:
            self.reference = load_reference(reference, comparators=comparators)
        is_loaded_here = reference is not None and self.reference is not reference
        self._known = self.reference.step_names
        self._aliases = names_by_alias(configured.step_aliases, self._known)
        forbidden = (name for question in self.reference for name in question.forbidden_steps)
        self._names = step_names(self._aliases, self._known, forbidden)

        # How steps are compared.
        if not is_loaded_here:  # Else loading it has warned.
            for doubt in idle_comparators(comparators or {}, self._known):
                warn_caller(doubt)
        all_comparators = {**self.reference.comparators, **(comparators or {})}
        used_comparators = {
            name: comparator for name, comparator in all_comparators.items() if name in self._known
        }
        prepared = self.reference.prepared
        if comparators and not is_loaded_here:  # It was loaded without them.
            prepared = PreparedSteps(self.reference.questions, used_comparators)
        self._scoring = Scoring(rules, used_comparators, prepared, self._names)

        self.trace_format: TraceFormat | None = None
        if format is not None:
            from graphrag_eval_async.traces.format import format_for

            self.trace_format = format_for(self.reference.questions, format)

        # What the reference set must have for that.
        if rules.match is not None:
            check_matches(self.reference, rules.match, rules.tolerance)
        if self._executing is None or self._executing.config is None:
            check_outputs(self.reference)

    async def evaluate(
        self, response: Mapping[str, Any] | bytes | str, *, sample: int = 1
    ) -> dict[str, Any]:
        """Evaluate one response, given as a dict or as JSON text.

        Args:
            response: is not changed; the result holds copies. The values of the keys of reference
                steps, such as `args`, belong to the reference set and must not be changed.
            sample: the `sample` that the result carries.

        Raises:
            RejectedResponse: the response cannot be evaluated.
            JudgeUnavailable: the judge will not answer any call, and `on_fatal` is "raise".
            ExecutionUnavailable: the configured queries cannot be run.
        """
        # Read the response.
        record: Record
        if isinstance(response, str):
            record = Line(1, 0, response.encode(errors="surrogatepass"))
        elif isinstance(response, bytes | bytearray):
            record = Line(1, 0, bytes(response))
        else:
            record = write_line(response, 1, 0)
        read = partial(self.reader(), record)
        checked = await run_in_thread(read) if is_large(record) else read()
        if isinstance(checked, Reject):
            raise RejectedResponse(checked)

        # Run its queries, and score its steps.
        evaluation = None
        executed = None
        if self._executing is not None:
            executed = await self.execute(checked, self._sessions().execution)
        else:
            evaluation = self.score_at_once(record, checked, sample)
        if evaluation is None:
            evaluation = await self.score_in_thread(checked, sample, executed)

        # Judge it.
        session = None
        if evaluation.plan is not None:
            session = self._sessions().judges
            assert session is not None  # noqa: S101  (plans come from a judge)
            session.usage.outcomes["skipped"] += evaluation.plan.skipped
        if self.pending(evaluation):
            await self.judge(evaluation, session)
        return evaluation.as_dict()  # type: ignore[no-any-return]

    def reader(self) -> Callable[[Record], Response | Reject]:
        """Return a function that reads records into responses."""
        questions = self.reference.questions
        if self.trace_format is None:
            return lambda record: read_record(record, questions)
        from graphrag_eval_async.traces.format import record_reader

        return record_reader(self.trace_format, questions)

    def fast_path(self, take_sample: Callable[[str], int | None]) -> FastPath | None:
        """Return what evaluates usual responses; None if more than the usual is asked for.

        Args:
            take_sample: returns the number of the next sample of a question.
        """
        if self._judging or self._executing or self.in_code or self.trace_format:
            return None
        # Types do not matter: a usual output is JSON, or equal as text.
        if self._scoring.rules._replace(strict_types=False) != Rules():
            return None
        return FastPath(
            self.reference.questions,
            comparators=self._scoring.comparators,
            names=self._names,
            known_names=self._known,
            take_sample=take_sample,
            keeps_steps=self.reference.prepared.keeps_steps,
        )

    def score_at_once(
        self, record: Record, response: Response, sample: int | None
    ) -> Evaluation | None:
        """Evaluate the response in `record`; None if that would block an event loop."""
        question = response.question or self.reference.questions[response.question_id]
        if question.size >= LARGE_BYTES or is_large(record):
            return None
        try:
            return self.score(response, sample, self._scoring.budget(quick=True))
        except ComparisonBudgetExceeded:
            return None

    async def score_in_thread(
        self, response: Response, sample: int | None, executed: Executed | None = None
    ) -> Evaluation:
        """Evaluate a response in a thread; a cancellation ends it. `executed` are its queries'
        results.
        """
        budget = self._scoring.budget()
        return await run_in_thread(
            partial(self.score, response, sample, budget, executed), budget.stop
        )

    def score(
        self,
        response: Response,
        sample: int | None,
        budget: Budget | None = None,
        executed: Executed | None = None,
    ) -> Evaluation:
        """Evaluate a response in this thread, and plan what is to be judged.

        Args:
            response: the response; its steps get the names of the reference steps.
            sample: number of the sample of its question, if it has one.
            budget: how much the comparisons may cost.
            executed: results of its queries, if they were run.

        Raises:
            ComparisonBudgetExceeded: the budget is a quick one, and was not enough.
        """
        question = response.question or self.reference.questions[response.question_id]
        if self._names and not self._known.issuperset(response.usable):
            rename_steps(response, self._known, self._names)
        budget = budget or self._scoring.budget()
        evaluation = self._scoring.score(question, response, sample, budget, executed)
        if response.failed:
            return evaluation

        judging = self._judging
        if judging is not None:
            fields = response.fields
            reference_steps = question.reference_steps
            if executed is not None:  # Judges see what the queries return now.
                reference_steps = evaluation.reference_steps
                steps = fields.get("actual_steps")
                if steps:
                    fields = {**fields, "actual_steps": executed.judged_steps(steps)}
            matches = evaluation.matches
            evaluation.plan = judging.plan(question, fields, reference_steps, matches)
            if evaluation.plan is not None and evaluation.plan.notes:
                evaluation.judged = {**evaluation.judged, **evaluation.plan.notes}

        if self.in_code is not None:
            is_anything_judged = evaluation.plan is not None and bool(evaluation.plan.due)
            if judging is not None and not is_anything_judged:
                # Metrics in code read from it which outputs are missing.
                evaluation.provenance = judging.provenance()
            if not self.pending(evaluation):
                self.in_code.add(evaluation)
        return evaluation

    def pending(self, evaluation: Evaluation) -> Sequence[str]:
        """Names of the metrics that `judge` is still to add: judged ones, and then those in
        code.
        """
        due: Sequence[str] = evaluation.plan.pending if evaluation.plan is not None else ()
        if self.in_code is None or evaluation.failed or not (due or self.in_code.seconds):
            return due
        return [*due, *self.in_code.names]

    async def execute(
        self, response: Response, session: ExecutionSession | None
    ) -> Executed | None:
        """Run the queries of a response and of its reference steps; None if there are none to
        run.
        """
        question = response.question or self.reference.questions[response.question_id]
        if session is None:
            return None
        steps = response.fields.get("actual_steps") or ()
        for step in steps:
            for key in _KEYS_OF_EXECUTION:
                step.pop(key, None)
        if question.data is None:
            return None
        rename_steps(response, self._known, self._names)
        executed_steps = () if response.failed else steps
        return await session.run(self._scoring.prepared[question.id].groups, executed_steps)

    def fingerprints(self) -> dict[str, str]:
        """Return words and hashes, by name, that differ if another evaluator could give other
        results.
        """
        from graphrag_eval_async.judge.cache import digest  # Only journals need it.

        questions = [question.as_dict() for question in self.reference]
        rules = self._scoring.rules
        judging = None if self._judging is None else self._judging.fingerprint
        # What is not asked for is left out, so that a new option changes no older fingerprint.
        options = [
            sorted(self._aliases.items()),
            rules.strict_types,
            rules.tool_calls and "calls",
            self._executing and self._executing.fingerprint,
            self.in_code and self.in_code.fingerprint,
            rules.match and (rules.match, rules.tolerance),
            self.trace_format and repr(self.trace_format),
        ]
        configuration = [
            rules.mode,
            judging,
            sorted(self._scoring.comparators),
            *filter(None, options),
        ]
        return {
            "version": RESULTS_VERSION,
            "reference": digest([self.reference.templates, questions]).hex(),
            "configuration": digest(configuration).hex(),
        }

    @property
    def judged(self) -> Sequence[str]:
        """Names of the judged metrics, as in the configuration."""
        return () if self._judging is None else self._judging.names

    @property
    def fractions(self) -> Sequence[str]:
        """Outputs of custom evaluations and metrics in code that are from 0 to 1 by definition."""
        judged: Sequence[str] = ()
        if self._judging is not None:
            judged = self._judging.fractions
        if self.in_code is None:
            return judged
        return [*judged, *self.in_code.fractions]

    def metrics_by_path(self, what: str) -> dict[str, str]:
        """Return the metrics in code by name, as paths by which another process imports them.

        Metrics of ragas that were given as classes are in `config`.

        Raises:
            UsageError: a metric cannot be imported, but `what` needs it.
        """
        if self._judging is not None:
            for name in self._judging.not_importable:
                raise UsageError(
                    f"metrics[{name!r}]: {what} imports it by its path; give its class, or a "
                    "partial of it, defined at the top of a module"
                )
        return {} if self.in_code is None else self.in_code.paths(what)

    @property
    def waits(self) -> bool:
        """Whether results wait for judges, queries or async metrics, which have limits in one
        process.
        """
        return bool(self._judging or self._executing or (self.in_code and self.in_code.seconds))

    def execution_session(self) -> ExecutionSession | None:
        """A session that runs the queries of one stream; None if nothing is run or parsed."""
        return self._executing.session() if self._executing is not None else None

    def session(self) -> JudgeSession | None:
        """Return a session with the judge for one stream; None if nothing is judged."""
        return self._judging.session() if self._judging is not None else None

    async def judge(self, evaluation: Evaluation, session: JudgeSession | None) -> bool:
        """Add what is `pending`; if the session has dropped the evaluation, do nothing and
        return False.
        """
        if evaluation.plan is not None and evaluation.plan.due:
            assert self._judging is not None and session is not None  # noqa: PT018, S101  (plans come of them)
            judged = await self._judging.run(evaluation.plan, session)
            if judged is None:
                return False
            keys, evaluation.judged_steps, evaluation.provenance = judged
            evaluation.judged = {**evaluation.judged, **keys}
            if evaluation.facts is not None:
                evaluation.failure = failure_of(evaluation.facts, evaluation.judged)
        if self.in_code is not None:
            await self.in_code.complete(evaluation)
        else:
            result = evaluation.as_dict()
            count_metrics(evaluation, result, result.get("actual_steps") or [])
        return True

    @property
    def usage(self) -> JudgeUsage | None:
        """Counts of the judge's calls for `evaluate`; None before the first."""
        return self._opened.judges.usage if self._opened and self._opened.judges else None

    def _sessions(self) -> _Opened:
        """Return the sessions of `evaluate` in the running event loop; open them if needed."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop:
            self._opened = _Opened(loop, self.session(), self.execution_session())
        return self._opened

    async def aclose(self) -> None:
        """Close what the judge and the queries have opened; no `evaluate` may be in progress."""
        opened = self._opened
        self._opened = None
        if opened is None:
            return
        for session in (opened.execution, opened.judges):
            if session is not None:
                await session.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class _Opened(NamedTuple):
    """The sessions of `Evaluator.evaluate`, and the event loop they belong to."""

    loop: asyncio.AbstractEventLoop
    judges: JudgeSession | None
    execution: ExecutionSession | None


def is_large(record: Record) -> bool:
    """Whether reading, scoring or writing a record would block an event loop."""
    return not isinstance(record, LongLine) and len(record.data) >= LARGE_BYTES
