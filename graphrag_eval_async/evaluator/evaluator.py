"""Evaluates single responses."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict

from graphrag_eval_async.catalogue.reference_steps import BY_CONTENTS
from graphrag_eval_async.errors import (
    ComparisonBudgetExceeded,
    RejectedResponse,
    UsageError,
    warn_caller,
)
from graphrag_eval_async.evaluator.fast_path import FastPath
from graphrag_eval_async.evaluator.scoring import Rules, Scoring, StepsGroups
from graphrag_eval_async.evaluator.setup import check_arguments, configure
from graphrag_eval_async.helpers.threads import run_in_thread
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

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.execution import Executed, ExecutionSession
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.judge.protocol import GivenJudge
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics import Judging, OnFatal
    from graphrag_eval_async.records import Question, Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.steps import Budget, Comparator
    from graphrag_eval_async.traces.format import TraceFormat

RESULTS_VERSION = "10"
"""Raise this with each change that gives an equal response another result.

It is part of the fingerprints, so a journal of an older version is not resumed.
"""


_KEYS_OF_EXECUTION = ("executed_at", "executed_output", "execution_error", "query_facts")
"""Keys that are added to a step when its query is run. They are removed if an agent sends them."""


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
        self._open_sessions: _OpenSessions | None = None  # Only `evaluate` needs them.

        # The reference set, and the names of its steps.
        if reference is None:
            self.reference: Reference = NoReference()
        else:
            self.reference = load_reference(reference, comparators=comparators)
        # False if the caller has loaded it, without these comparators.
        is_loaded_here = reference is not None and self.reference is not reference
        self._reference_step_names = self.reference.step_names
        self._aliases = names_by_alias(configured.step_aliases, self._reference_step_names)
        forbidden = (name for question in self.reference for name in question.forbidden_steps)
        self._step_names = step_names(self._aliases, self._reference_step_names, forbidden)

        # How steps are compared.
        if not is_loaded_here:
            # `load_reference` gives the same warnings.
            for warning in idle_comparators(comparators or {}, self._reference_step_names):
                warn_caller(warning)
        all_comparators = {**self.reference.comparators, **(comparators or {})}
        used_comparators = {
            name: comparator
            for name, comparator in all_comparators.items()
            if name in self._reference_step_names
        }
        prepared = self.reference.prepared
        if comparators and not is_loaded_here:
            prepared = PreparedSteps(self.reference.questions, used_comparators)
        self._scoring = Scoring(rules, used_comparators, prepared, self._step_names)

        self.trace_format: TraceFormat | None = None
        if format is not None:
            from graphrag_eval_async.traces.format import format_for

            self.trace_format = format_for(self.reference.questions, format)

        # Check that the reference set has what the metrics and the steps need.
        if rules.match is not None:
            check_matches(self.reference, rules.match, rules.tolerance)
        execute = None
        if self._executing is not None:
            execute = self._executing.config
        check_outputs(
            self.reference,
            runs_sparql=execute is not None and not execute.runs_cypher,
            runs_cypher=execute is not None and execute.runs_cypher,
        )

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
        if is_large(record):
            checked = await run_in_thread(read)
        else:
            checked = read()
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
            # It has queries, or is too large for the event loop.
            evaluation = await self.score_in_thread(checked, sample, executed)

        # Judge it.
        session = None
        if evaluation.plan is not None:
            session = self._sessions().judges
            assert session is not None  # noqa: S101  (only with a judge, there is a plan)
            session.usage.outcomes["skipped"] += evaluation.plan.skipped
        if self.pending(evaluation):
            await self.judge(evaluation, session)
        return evaluation.as_dict()  # type: ignore[no-any-return]

    def reader(self) -> Callable[[Record], Response | Reject]:
        """Return a function that converts a record to a response, or to a reject if it cannot."""
        questions = self.reference.questions
        if self.trace_format is None:
            return lambda record: read_record(record, questions)
        from graphrag_eval_async.traces.format import record_reader

        return record_reader(self.trace_format, questions)

    def fast_path(self, take_sample: Callable[[str], int | None]) -> FastPath | None:
        """Return the fast path for responses that need nothing but the default scoring of steps.

        Args:
            take_sample: returns the number of the next sample of a question.

        Returns:
            the fast path; None if there is a judge, a metric in code, a query to run, a trace
            format, or another rule than the default ones.
        """
        if self._judging or self._executing or self.in_code or self.trace_format:
            return None
        # Two rules make no difference: the fast path only accepts outputs that are equal with and
        # without `strict_types`, and tables whose columns have the same names.
        default_rules = Rules()
        other_rules = self._scoring.rules._replace(
            strict_types=default_rules.strict_types, match_columns=default_rules.match_columns
        )
        if other_rules != default_rules:
            return None
        return FastPath(
            self.reference.questions,
            comparators=self._scoring.comparators,
            names=self._step_names,
            known_names=self._reference_step_names,
            take_sample=take_sample,
            keeps_steps=self.reference.prepared.keeps_steps,
        )

    def score_at_once(
        self, record: Record, response: Response, sample: int | None
    ) -> Evaluation | None:
        """Score a response on the event loop, if that is quick.

        Args:
            record: the record from which the response was read.
            response: the response.
            sample: number of the sample of its question, if it has one.

        Returns:
            the evaluation; None if the scoring would block the event loop for too long.
        """
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
        """Score a response in a thread; a cancellation ends the comparisons.

        Args:
            response: the response.
            sample: number of the sample of its question, if it has one.
            executed: the results of its queries, if they were run.
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
        """Score a response in this thread, and plan what is to be judged.

        Args:
            response: the response. Steps whose names are aliases are renamed in place.
            sample: number of the sample of its question, if it has one.
            budget: limits the work of the comparisons; default: the usual limit.
            executed: the results of its queries, if they were run.

        Raises:
            ComparisonBudgetExceeded: the budget is a quick one, and was exceeded.
        """
        question = response.question or self.reference.questions[response.question_id]
        has_other_names = not self._reference_step_names.issuperset(response.usable)
        if self._step_names and has_other_names:
            rename_steps(response, self._reference_step_names, self._step_names)
        budget = budget or self._scoring.budget()
        evaluation = self._scoring.score(question, response, sample, budget, executed)
        if response.failed:
            return evaluation

        if self._judging is not None:
            self._plan_judging(self._judging, evaluation, question, response, executed)
        # Compute metrics in code, unless they wait for the judge.
        if self.in_code is not None and not self.pending(evaluation):
            self.in_code.add(evaluation)
        return evaluation

    def _plan_judging(
        self,
        judging: Judging,
        evaluation: Evaluation,
        question: Question,
        response: Response,
        executed: Executed | None,
    ) -> None:
        """Add the plan of what a judge is asked to an evaluation.

        Args:
            judging: makes the plan.
            evaluation: the evaluation, whose steps are scored.
            question: its question.
            response: its response.
            executed: the results of its queries, if they were run.
        """
        fields = response.fields
        reference_steps = question.reference_steps
        if executed is not None:
            # Judges see what the queries return now, not what they once returned.
            reference_steps = evaluation.reference_steps
            steps = fields.get("actual_steps")
            if steps:
                fields = {**fields, "actual_steps": executed.judged_steps(steps)}
        plan = judging.plan(question, fields, reference_steps, evaluation.matches)
        evaluation.plan = plan
        if plan is not None and plan.notes:
            evaluation.judged = {**evaluation.judged, **plan.notes}

        is_anything_judged = plan is not None and bool(plan.due)
        if self.in_code is not None and not is_anything_judged:
            # Metrics in code look there for the outputs that a judge would have added.
            evaluation.provenance = judging.provenance()

    def pending(self, evaluation: Evaluation) -> Sequence[str]:
        """Return the names of the metrics that `judge` has to add to an evaluation.

        Metrics in code are among them if they wait for judged metrics, or are async. Otherwise,
        `score` has added them. They are not computed for a response that is an error.
        """
        judged_names: Sequence[str] = ()
        if evaluation.plan is not None:
            judged_names = evaluation.plan.pending
        if self.in_code is None or evaluation.failed:
            return judged_names

        is_code_metric_pending = bool(judged_names) or self._has_async_metrics
        if not is_code_metric_pending:
            return judged_names
        return [*judged_names, *self.in_code.names]

    @property
    def _has_async_metrics(self) -> bool:
        """Whether a metric in code is async."""
        # `seconds` is the timeout of async metrics, or 0 if there are none.
        return self.in_code is not None and self.in_code.seconds > 0

    async def execute(
        self, response: Response, session: ExecutionSession | None
    ) -> Executed | None:
        """Run the queries in the steps of a response and in the reference steps of its question.

        Args:
            response: the response. Keys in its steps that only this library may set are removed.
            session: the session that runs queries; None if none are run.

        Returns:
            the results of the queries; None if there is no session or no reference steps.
        """
        question = response.question or self.reference.questions[response.question_id]
        if session is None:
            return None
        steps = response.fields.get("actual_steps") or ()
        for step in steps:
            for key in _KEYS_OF_EXECUTION:
                step.pop(key, None)
        has_reference_steps = question.data is not None
        if not has_reference_steps:
            return None
        rename_steps(response, self._reference_step_names, self._step_names)
        # The steps of a response that is an error are not compared, so their queries do not matter.
        executed_steps = steps
        if response.failed:
            executed_steps = ()
        reference_groups = self._scoring.prepared[question.id].groups
        return await session.run(reference_groups, executed_steps)

    def fingerprints(self) -> dict[str, str]:
        """Return texts by name that identify this evaluator in a journal.

        They are equal for two evaluators only if these give the same results.
        """
        from graphrag_eval_async.judge.cache import digest  # Only journals need it.

        questions = [question.as_dict() for question in self.reference]
        return {
            "version": RESULTS_VERSION,
            "reference": digest([self.reference.templates, questions]).hex(),
            "configuration": digest(self._configuration_in_json()).hex(),
        }

    def _configuration_in_json(self) -> list[Any]:
        """Return a JSON value of all settings on which results depend.

        Options that are not set are no part of it. So a new option does not change the fingerprints
        in older journals.
        """
        rules = self._scoring.rules
        judging = None
        if self._judging is not None:
            judging = self._judging.fingerprint
        settings: list[Any] = [rules.mode, judging, sorted(self._scoring.comparators)]
        if self._aliases:
            settings.append(sorted(self._aliases.items()))
        if rules.strict_types:
            settings.append(True)
        if rules.match_columns != BY_CONTENTS:
            settings.append(rules.match_columns)
        if rules.tool_calls:
            settings.append("calls")
        if self._executing is not None:
            settings.append(self._executing.fingerprint)
        if self.in_code is not None:
            settings.append(self.in_code.fingerprint)
        if rules.match is not None:
            settings.append((rules.match, rules.tolerance))
        if self.trace_format is not None:
            settings.append(repr(self.trace_format))
        return settings

    @property
    def judged(self) -> Sequence[str]:
        """Names of the judged metrics, as in the configuration."""
        if self._judging is None:
            return ()
        return self._judging.names

    @property
    def fractions(self) -> Sequence[str]:
        """Names of custom metrics whose values are declared to be from 0 to 1."""
        judged: Sequence[str] = ()
        if self._judging is not None:
            judged = self._judging.fractions
        if self.in_code is None:
            return judged
        return [*judged, *self.in_code.fractions]

    def metrics_by_path(self, what: str) -> dict[str, str]:
        """Return the metrics in code by name, as paths by which another process imports them.

        Metrics of ragas that were given as classes are in `config`.

        Args:
            what: what needs the paths, for the message of an error.

        Raises:
            UsageError: a metric cannot be imported, but `what` needs it.
        """
        if self._judging is not None:
            for name in self._judging.not_importable:
                raise UsageError(
                    f"metrics[{name!r}]: {what} imports it by its path; give its class, or a "
                    "partial of it, defined at the top of a module"
                )
        if self.in_code is None:
            return {}
        return self.in_code.paths(what)

    @property
    def waits(self) -> bool:
        """Whether results wait for judges, queries or async metrics.

        These have limits within a process, such as the number of calls at a time.
        """
        return bool(self._judging or self._executing or self._has_async_metrics)

    def execution_session(self) -> ExecutionSession | None:
        """Return a session that runs and parses queries for one stream; None if not configured."""
        if self._executing is None:
            return None
        return self._executing.session()

    def session(self) -> JudgeSession | None:
        """Return a session with the judge for one stream; None if nothing is judged."""
        if self._judging is None:
            return None
        return self._judging.session()

    async def judge(self, evaluation: Evaluation, session: JudgeSession | None) -> bool:
        """Add the `pending` metrics to an evaluation: first those of the judge, then those in code.

        Args:
            evaluation: the evaluation.
            session: the session with the judge; None if nothing is judged.

        Returns:
            whether the evaluation is complete. It is not, and is unchanged, if the session sends no
            more requests.
        """
        if evaluation.plan is not None and evaluation.plan.due:
            # Only an evaluator with a judge makes plans.
            assert self._judging is not None and session is not None  # noqa: PT018, S101
            judged = await self._judging.run(evaluation.plan, session)
            if judged is None:
                return False
            evaluation.judged_steps = judged.steps
            evaluation.provenance = judged.judge
            evaluation.judged = {**evaluation.judged, **judged.result}
            if evaluation.facts is not None:
                # The class of the failure depends on whether the judge finds the answer right.
                evaluation.failure = failure_of(evaluation.facts, evaluation.judged)

        # Both branches also count the metrics for the aggregates.
        if self.in_code is not None:
            await self.in_code.complete(evaluation)
        else:
            result = evaluation.as_dict()
            count_metrics(evaluation, result, result.get("actual_steps") or [])
        return True

    @property
    def usage(self) -> JudgeUsage | None:
        """Counts of the judge's calls for `evaluate`; None before the first call."""
        if self._open_sessions is None or self._open_sessions.judges is None:
            return None
        return self._open_sessions.judges.usage

    def _sessions(self) -> _OpenSessions:
        """Return the sessions of `evaluate` for the running event loop; open them if needed."""
        loop = asyncio.get_running_loop()
        if self._open_sessions is None or self._open_sessions.loop is not loop:
            self._open_sessions = _OpenSessions(
                loop=loop, judges=self.session(), execution=self.execution_session()
            )
        return self._open_sessions

    async def aclose(self) -> None:
        """Close the sessions with the judge and for queries; no `evaluate` may be in progress."""
        sessions = self._open_sessions
        self._open_sessions = None
        if sessions is None:
            return
        for session in (sessions.execution, sessions.judges):
            if session is not None:
                await session.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class _OpenSessions(NamedTuple):
    """The sessions of `Evaluator.evaluate`, and the event loop to which they belong."""

    loop: asyncio.AbstractEventLoop
    judges: JudgeSession | None
    execution: ExecutionSession | None


def is_large(record: Record) -> bool:
    """Return whether a record is so large that work on it would block the event loop.

    Of a line over the limit, only the head is in memory, so it is not large.
    """
    return not isinstance(record, LongLine) and len(record.data) >= LARGE_BYTES
