"""The configured metrics, and how they judge responses."""

from __future__ import annotations

from hashlib import sha256
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio
import msgspec
import orjson

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.config import Config, LLMConfig
from graphrag_eval_async.config.load import has_model
from graphrag_eval_async.errors import ConfigError, JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.calls import Calls
from graphrag_eval_async.judge.given import GivenJudges
from graphrag_eval_async.judge.session import JudgeSession
from graphrag_eval_async.judge.setup import set_up_judges
from graphrag_eval_async.metrics.custom import custom_evaluation, kinds_of_outputs
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.panel import Panel, Verdict
from graphrag_eval_async.metrics.ragas_bridge import load_ragas
from graphrag_eval_async.metrics.ragas_lookup import (
    NOTHING_GIVEN,
    can_be_imported,
    make_ragas_metrics,
)
from graphrag_eval_async.metrics.retrieval import can_share_calls, metrics_sharing_calls
from graphrag_eval_async.records.decoding import copy_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.catalogue.sections import BuiltInConfig
    from graphrag_eval_async.judge.protocol import GivenJudge
    from graphrag_eval_async.metrics.metric import Metric, Task
    from graphrag_eval_async.metrics.ragas_metric import RagasMetric
    from graphrag_eval_async.records import Question

OnFatal = Literal["raise", "continue"]

FINGERPRINTED_ELSEWHERE = {"llm", "execute", "aliases", "turned_on"}
"""Sections that `Judging.fingerprint` does not copy. The first two may hold secrets, which no hash
may give away: `JudgeSetup.fingerprint` and `Executing.fingerprint` say what matters of them.
"""


def make_metric(name: str, section: BuiltInConfig) -> Metric:
    """Return a built-in metric, made from the metric's section of the configuration."""
    maker = resolve_name(JUDGED_BY_NAME[name].maker)
    metric: Metric = maker(section)
    return metric


def built_in_metrics(config: Config) -> list[Metric]:
    """Return the built-in metrics that are on, in the order of their entries in results."""
    metrics = {name: make_metric(name, section) for name, section in config.metrics.items()}
    answer = config.retrieval_answer
    context = config.retrieval_context
    if can_share_calls(answer, context):
        # Replace both retrieval metrics. The order of metrics stays, as their names do.
        metrics.update(metrics_sharing_calls(answer, context))
    return list(metrics.values())


def _all_metrics(config: Config, ragas_metrics: Sequence[RagasMetric]) -> list[Metric]:
    """Return all metrics that are on, in the order of their entries in results.

    The built-in metrics come first, then custom evaluations, then metrics of ragas.
    """
    metrics = built_in_metrics(config)
    metrics += [custom_evaluation(section) for section in config.custom_evaluations]
    metrics += [ragas_metric.as_metric() for ragas_metric in ragas_metrics]
    return metrics


def loader(config: Config) -> Callable[[], None]:
    """Return a function that imports the packages that the configured metrics need."""
    some_need_ragas = any(section.needs_ragas for section in config.metrics.values())
    if some_need_ragas or config.ragas:
        return load_ragas
    return _load_nothing


def _load_nothing() -> None:
    """Do nothing, as the metrics need no packages to be imported."""


class Plan(NamedTuple):
    """The tasks to judge for a response.

    Attributes:
        due: the tasks to judge.
        skipped: the number of tasks skipped for a missing input.
        notes: entries for the result that say which inputs are missing, for metrics that name them.
    """

    due: Sequence[Task]
    skipped: int
    notes: dict[str, Any]

    @property
    def pending(self) -> list[str]:
        """The names of the metrics to judge, each once."""
        # A metric may have several tasks. A dict drops repeated names and keeps their order.
        return list(dict.fromkeys(task.metric for task in self.due))


class JudgedEntries(NamedTuple):
    """The entries that the judged metrics add to a result.

    Attributes:
        result: the entries of the result itself, by key.
        steps: the entries of its actual steps, by the index of the step.
        judge: the value of the key `judge`: models, and a hash of prompts.
    """

    result: dict[str, Any]
    steps: dict[int, dict[str, Any]]
    judge: dict[str, Any]


class Judging:
    """The metrics of a configuration, and their judge.

    Attributes:
        names: the names of the metrics in the configuration.
        fractions: outputs of custom evaluations and metrics of ragas that are from 0 to 1 by
            definition.
        not_importable: the names of metrics of ragas that another process cannot import, such as
            objects.
        fingerprint: JSON that differs if other metrics or models could give other results.
    """

    def __init__(
        self,
        config: Config,
        *,
        judge: GivenJudge | Mapping[str, GivenJudge] | None,
        on_fatal: OnFatal,
        ragas: Mapping[str, Any] = NOTHING_GIVEN,
    ) -> None:
        """Prepare the metrics, of which at least one must be on, without calling a judge.

        Imports ragas if the configuration has metrics of ragas, so that a wrong name is found now.

        Args:
            config: the checked configuration.
            judge: the caller's own judge, or several by name.
            on_fatal: if all calls would fail, "raise" makes `run` raise `JudgeUnavailable`; with
                "continue", each metric gets the error.
            ragas: classes and objects of ragas that the caller gives, by the names of their
                sections.

        Raises:
            ConfigError: a metric of ragas cannot be made, or a model or a package is missing.
            UsageError: the caller gives judges by name, but not all that the configuration names.
        """
        # The metrics. This imports ragas if some of them are of ragas.
        self.not_importable = [name for name in ragas if not can_be_imported(ragas[name])]
        self._ragas_metrics = make_ragas_metrics(config.ragas_metrics, ragas)
        self._metrics = _all_metrics(config, self._ragas_metrics)
        self.names = [metric.name for metric in self._metrics]

        # The judges, and whether they must embed texts.
        self._on_fatal = on_fatal
        self._panels = _panels_by_metric(config)
        given = GivenJudges(judge)
        if not given.has_own:
            _check_models(config, self._ragas_metrics, given.alternatives)
        ragas_embeds = any(metric.asks_embeddings for metric in self._ragas_metrics)
        self._embeds = ragas_embeds or bool(config.embedding_metrics)
        llm = config.llm or LLMConfig()
        self._setups = set_up_judges(
            llm,
            given.find_all(config.judges, llm),
            prepare=loader(config),
            embeds=self._embeds,
        )

        # The description of the metrics and models in results and journals.
        names_by_kind = _names_by_kind(config, self._ragas_metrics)
        self.fractions: Sequence[str] = names_by_kind.get("fractions", ())
        description = self._describe_models(config, is_own=given.has_own)
        self._provenance = description | names_by_kind
        self.fingerprint = [
            self._provenance,
            [setup.fingerprint for setup in self._setups],
            _fingerprinted_sections(config),
        ]

    def _describe_models(self, config: Config, *, is_own: bool) -> dict[str, Any]:
        """Return the names of the models, and a hash of all texts for judges except the data.

        Args:
            config: the checked configuration.
            is_own: whether the judge is an object of the caller's own class, so that the
                configuration does not say which models are asked.
        """
        first_judge, *other_judges = self._setups
        # "prompts" is set below. It is here for the order of keys in results.
        description: dict[str, Any] = {"model": first_judge.model, "prompts": ""}

        prompts_by_metric = [[metric.name, *metric.prompts] for metric in self._metrics]
        to_hash: list[Any] = [prompts_by_metric]
        if is_own:
            # The models of the caller's own judge are unknown, so they cannot change the hash.
            to_hash.append(None)
        else:
            to_hash.append(first_judge.fingerprint)
        if other_judges:
            votes_by_metric = {
                name: [panel.judges, panel.vote] for name, panel in self._panels.items()
            }
            to_hash.append(votes_by_metric)
            to_hash.append([setup.fingerprint for setup in other_judges])
            description["judges"] = {setup.name: setup.model for setup in self._setups}
        description["prompts"] = _hash(to_hash)

        embedding = None
        if config.llm is not None:
            embedding = config.llm.embedding
        if self._embeds and embedding is not None and not is_own:
            description["embedding"] = str(embedding.model)
        return description

    def provenance(self, departures: Sequence[str] = ()) -> dict[str, Any]:
        """Return the value of the key `judge` of a result: models, and a hash of prompts.

        Args:
            departures: how requests for the result differed from the default, such as
                "generation completion: temperature as None". They change the hash.
        """
        provenance: dict[str, Any] = copy_json(self._provenance)
        if departures:
            provenance["prompts"] = _hash([provenance["prompts"], departures])
        return provenance

    def session(self) -> JudgeSession:
        """Return a new judge session for one stream."""
        return JudgeSession(self._setups, is_ended_by_one=self._on_fatal == "raise")

    def plan(
        self,
        question: Question,
        fields: Mapping[str, Any],
        reference_groups: Sequence[Sequence[Mapping[str, Any]]] | None,
        matches: Sequence[tuple[int, int, int]],
    ) -> Plan | None:
        """Return the tasks to judge for a response; None if no metric has a task for it.

        Args:
            question: the question.
            fields: the fields of the response.
            reference_groups: the reference steps, in groups; None if the question has none.
            matches: for each matched step, the index of the group, the index of the reference step
                in the group, and the index of the actual step.
        """
        matched_steps = {}
        if reference_groups:
            for group_index, reference_index, actual_index in matches:
                group = reference_groups[group_index]
                matched_steps[actual_index] = group[reference_index]
        case = Case(
            question=question.text,
            reference_answer=question.reference_answer,
            reference_steps=reference_groups,
            actual_answer=fields.get("actual_answer"),
            actual_steps=fields.get("actual_steps"),
            matches=matched_steps,
        )
        tasks = [task for metric in self._metrics for task in metric.tasks(case)]
        if not tasks:
            return None
        due = [task for task in tasks if task.score is not None]
        notes = {
            f"{task.metric}_reason": f"skipped: needs {', '.join(task.missing)}"
            for task in tasks
            if task.missing
        }
        return Plan(due, skipped=len(tasks) - len(due), notes=notes)

    async def run(self, plan: Plan, session: JudgeSession) -> JudgedEntries | None:
        """Ask the judges for all tasks of a plan, and return the entries of the result.

        Returns:
            the entries; None if the session drops results that are not finished.

        Raises:
            JudgeUnavailable: a judge will not answer any call, and `on_fatal` is "raise".
        """
        calls = Calls.for_result(session)
        # Opening the judges also imports the packages that the metrics need, in a thread.
        await session.open()
        # Only a few results start in each iteration of the event loop, so that it stays responsive.
        await session.starts.turn()
        # A cancellation may arrive only after the first call is sent, so look at this here, too.
        if session.is_dropping:
            return None

        # Every judge of a task's metric judges the task.
        panels = [self._panels[task.metric] for task in plan.due]
        tasks_to_ask = [
            (task, calls.to(session.senders[judge]))
            for task, panel in zip(plan.due, panels, strict=True)
            for judge in panel.judges
        ]
        all_verdicts = await _ask_all(tasks_to_ask, calls)
        if calls.clock.is_dropped:
            return None

        # The verdicts come in the order of `tasks_to_ask`: for each task, one of each judge.
        entries: dict[str, Any] = {}
        entries_by_step: dict[int, dict[str, Any]] = {}
        next_verdict = iter(all_verdicts)
        for task, panel in zip(plan.due, panels, strict=True):
            verdicts = [next(next_verdict) for _ in panel.judges]
            self._count_outcome(task.metric, verdicts, session)
            if task.step is None:
                panel.add_verdicts(entries, task, verdicts)
            else:
                step_entries = entries_by_step.setdefault(task.step, {})
                panel.add_verdicts(step_entries, task, verdicts)
        provenance = self.provenance(sorted(calls.departures))
        return JudgedEntries(entries, entries_by_step, provenance)

    def _count_outcome(
        self, metric: str, verdicts: Sequence[Verdict], session: JudgeSession
    ) -> None:
        """Count in the session whether a task succeeded, gave no value, or failed.

        It fails if any judge does.

        Raises:
            JudgeUnavailable: a judge will not answer any call, and `on_fatal` is "raise".
        """
        outcome = "ok"
        for verdict in verdicts:
            reason = self._reason_without_value(metric, verdict)
            if reason is not None:
                outcome = "no_value"
                session.usage.reasons_without_value.setdefault(metric, reason)
        errors = [
            verdict.outcome for verdict in verdicts if isinstance(verdict.outcome, JudgeError)
        ]
        for error in errors:
            if isinstance(error, JudgeUnavailable) and self._on_fatal == "raise":
                raise error
            # At the end, a run shows one example of each kind of error: the first.
            session.usage.examples.setdefault(error.kind, error.message)
        if errors:
            outcome = errors[0].kind
        session.usage.outcomes[outcome] += 1

    def _reason_without_value(self, metric: str, verdict: Verdict) -> str | None:
        """Return the reason in a verdict on a metric that has only a reason, no value; else None."""
        key = f"{metric}_reason"
        # An output of a custom evaluation may have this name.
        is_value = key in self._panels[metric].values
        if isinstance(verdict.outcome, JudgeError) or is_value or [*verdict.outcome] != [key]:
            return None
        return str(verdict.outcome[key])


def _panels_by_metric(config: Config) -> dict[str, Panel]:
    """Return the panel of each metric, by the name of the metric.

    A panel has the judges of a metric, the way in which they vote, and the keys of the metric's
    scores and error.
    """
    panels = {}
    for name, section in config.metrics.items():
        declared = JUDGED_BY_NAME[name]
        panels[name] = Panel(
            judges=section.judges,
            vote=section.vote,
            values=declared.values,
            error_name=declared.error_name,
        )
    for evaluation in config.custom_evaluations:
        panels[evaluation.name] = Panel(
            judges=evaluation.judges,
            vote=evaluation.vote,
            values=[*evaluation.outputs],
            error_name=evaluation.name,
            nulls=[*evaluation.outputs],
        )
    for name, ragas_section in config.ragas_metrics.items():
        panels[name] = Panel(
            judges=ragas_section.judges,
            vote=ragas_section.vote,
            values=[name],
            error_name=name,
            nulls=[name],
        )
    return panels


def _check_models(
    config: Config, metrics: Sequence[RagasMetric], alternatives: Mapping[str, str]
) -> None:
    """Check that the configuration has the models that metrics of ragas ask.

    Args:
        config: the configuration.
        metrics: the metrics of ragas.
        alternatives: what the caller can give in code instead of a model, by the section of the
            model, such as "llm.embedding".

    Raises:
        ConfigError: `llm.generation` or `llm.embedding` is missing.
    """
    problems = []
    for metric in metrics:
        judges = config.ragas_metrics[metric.name].judges
        missing_sections = []
        asks_generation = metric.asks_llm and GENERATION in judges
        if asks_generation and not has_model(config, GENERATION):
            missing_sections.append(f"llm.{GENERATION}")
        if metric.asks_embeddings and not has_model(config, "embedding"):
            missing_sections.append("llm.embedding")
        for section in missing_sections:
            problem = f"ragas.{metric.name}: needs {section}"
            if section in alternatives:
                problem += f" or {alternatives[section]}"
            problems.append(problem)
    if problems:
        raise ConfigError(problems)


def _names_by_kind(config: Config, metrics: Sequence[RagasMetric]) -> dict[str, list[str]]:
    """Return the names of the values of custom evaluations and metrics of ragas, in lists.

    - "outputs" has all names
    - "fractions" has the names of numbers that are from 0 to 1 by definition
    - "texts" has the names of texts
    - "lower_is_better" has the names of values of which lower ones are better

    An empty list is left out.

    Args:
        config: the configuration, which has the custom evaluations.
        metrics: the metrics of ragas.
    """
    names = kinds_of_outputs(config.custom_evaluations)
    for metric in metrics:
        names.setdefault("outputs", []).append(metric.name)
        if metric.is_fraction:
            names.setdefault("fractions", []).append(metric.name)
        if metric.gives_text:
            names.setdefault("texts", []).append(metric.name)
        if metric.lower_is_better:
            names.setdefault("lower_is_better", []).append(metric.name)
    return names


def _fingerprinted_sections(config: Config) -> dict[str, Any]:
    """Return the sections of the configuration that are part of the fingerprint, by name."""
    sections = {}
    for name in Config.__struct_fields__:
        # Metrics of ragas are part of the hash of prompts. Their arguments may not be JSON.
        if name not in FINGERPRINTED_ELSEWHERE and name != "ragas":
            sections[name] = msgspec.to_builtins(getattr(config, name))
    return sections


def _hash(value: Any) -> str:
    """Return the first 16 hexadecimal digits of a hash of a JSON value."""
    return sha256(orjson.dumps(value)).hexdigest()[:16]


async def _ask_all(tasks: Sequence[tuple[Task, Calls]], result_calls: Calls) -> list[Verdict]:
    """Compute tasks at the same time, and return their verdicts in the order of the tasks.

    The verdict on a task that does not finish in the time for the result is a timeout error.

    Args:
        tasks: the tasks, each with the calls to the judge that it asks.
        result_calls: the calls of the whole result, whose clock limits the time.
    """
    # Every task starts with a timeout as its outcome, which `compute` replaces in time.
    seconds = result_calls.session.limits.result_timeout_sec
    late = JudgeError("timeout", f"the result was not finished within {seconds:g} seconds")
    outcomes: list[dict[str, Any] | JudgeError] = [late] * len(tasks)

    async def compute(index: int, task: Task, calls: Calls) -> None:
        """Compute a task, and set its outcome in `outcomes`: entries or the error of the judge."""
        assert task.score is not None  # noqa: S101  (a plan has no other tasks)
        try:
            outcomes[index] = await task.score(calls)
        except JudgeError as error:
            outcomes[index] = error

    # When the time is over, the clock cancels unfinished tasks, and suppresses the cancellation.
    with result_calls.clock:
        if len(tasks) == 1:
            # A single task needs no group of tasks, which would take 50 us.
            task, calls = tasks[0]
            await compute(0, task, calls)
        else:
            async with anyio.create_task_group() as group:
                for index, (task, calls) in enumerate(tasks):
                    group.start_soon(compute, index, task, calls)
    return [
        Verdict(outcome, calls.cost) for outcome, (_, calls) in zip(outcomes, tasks, strict=True)
    ]
