"""The configured metrics, and how they judge responses."""

from __future__ import annotations

from hashlib import sha256
from pkgutil import resolve_name
from types import MappingProxyType
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
from graphrag_eval_async.metrics.ragas_lookup import can_be_imported, make_ragas_metric
from graphrag_eval_async.metrics.retrieval import metrics_sharing_calls, share_calls
from graphrag_eval_async.records.decoding import copy_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.catalogue.sections import BuiltInConfig
    from graphrag_eval_async.judge.protocol import GivenJudge
    from graphrag_eval_async.metrics.metric import Keys, Metric, Task
    from graphrag_eval_async.metrics.ragas_metric import RagasMetric
    from graphrag_eval_async.records import Question

OnFatal = Literal["raise", "continue"]

FINGERPRINTED_ELSEWHERE = {"llm", "execute", "aliases", "turned_on"}
"""Sections that `Judging.fingerprint` does not copy. The first two may hold secrets, which no hash
may give away: `JudgeSetup.fingerprint` and `Executing.fingerprint` say what matters of them.
"""

NOTHING_GIVEN: Mapping[str, Any] = MappingProxyType({})


def make_metric(name: str, section: BuiltInConfig) -> Metric:
    """Return the built-in metric that a section of the configuration turns on."""
    make = resolve_name(JUDGED_BY_NAME[name].maker)
    metric: Metric = make(section)
    return metric


def built_in_metrics(config: Config) -> list[Metric]:
    """Return the built-in metrics that are on, in the order of their keys in results."""
    metrics = {name: make_metric(name, section) for name, section in config.metrics.items()}
    answer = config.retrieval_answer
    context = config.retrieval_context
    if share_calls(answer, context):
        metrics |= metrics_sharing_calls(answer, context)
    return [*metrics.values()]


def _all_metrics(config: Config, ragas_metrics: Sequence[RagasMetric]) -> list[Metric]:
    """Return all metrics that are on, in the order of their keys in results."""
    metrics = built_in_metrics(config)
    metrics += [custom_evaluation(evaluation) for evaluation in config.custom_evaluations]
    metrics += [metric.as_metric() for metric in ragas_metrics]
    return metrics


def loader(config: Config) -> Callable[[], None]:
    """Return a function that imports the packages that the metrics need."""
    needs_ragas = any(section.needs_ragas for section in config.metrics.values())
    if needs_ragas or config.ragas:
        return load_ragas
    return _load_nothing


def _load_nothing() -> None:
    """Import nothing, as the metrics need no packages."""


class Plan(NamedTuple):
    """What is to be judged for a response.

    Attributes:
        due: the tasks to judge.
        skipped: the number of tasks skipped for a missing input.
        notes: keys for the result that say which inputs are missing, for metrics that name them.
    """

    due: Sequence[Task]
    skipped: int
    notes: Keys

    @property
    def pending(self) -> list[str]:
        """The names of the metrics to judge."""
        return list(dict.fromkeys(task.metric for task in self.due))


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
        """Prepare the metrics, of which at least one must be on. Makes no call.

        Imports ragas if the configuration has metrics of it, so that a wrong name is known at once.

        Args:
            config: the checked configuration.
            judge: the caller's own judge, or several by name.
            on_fatal: if all calls would fail, "raise" makes `run` raise `JudgeUnavailable`; with
                "continue", each metric gets the error.
            ragas: classes and objects of ragas that the caller gives, by the names of their
                sections.

        Raises:
            ConfigError: a metric of ragas cannot be made, or a model or a package is missing.
            UsageError: the caller's judges lack one that the configuration names.
        """
        self._on_fatal = on_fatal
        self.not_importable = [name for name in ragas if not can_be_imported(ragas[name])]
        self._ragas_metrics = [
            make_ragas_metric(name, section, ragas.get(name))
            for name, section in config.ragas_metrics.items()
        ]
        self._metrics = _all_metrics(config, self._ragas_metrics)
        self.names = [metric.name for metric in self._metrics]
        self._panels = _panels(config)
        given = GivenJudges(judge)
        if not given.has_own:
            _check_models(config, self._ragas_metrics)
        self._embeds = bool(config.embedding_metrics) or any(
            metric.asks_embeddings for metric in self._ragas_metrics
        )
        self._setups = set_up_judges(
            config.llm or LLMConfig(),
            given.find_all(config.judges),
            prepare=loader(config),
            embeds=self._embeds,
        )

        kinds = _kinds_of_outputs(config, self._ragas_metrics)
        self.fractions: Sequence[str] = kinds.get("fractions", ())
        self._provenance = self._describe(config, is_own=given.has_own) | kinds
        self.fingerprint = [
            self._provenance,
            [setup.fingerprint for setup in self._setups],
            _settings(config),
        ]

    def _describe(self, config: Config, *, is_own: bool) -> dict[str, Any]:
        """Return what the `judge` key of all results says of models and prompts.

        Args:
            config: the checked configuration.
            is_own: whether the judge is the caller's own.
        """
        first, *others = self._setups
        hashed: list[Any] = [[[metric.name, *metric.prompts] for metric in self._metrics]]
        hashed.append(None if is_own else first.fingerprint)
        description: dict[str, Any] = {"model": first.model, "prompts": ""}
        if others:
            hashed.append(
                {name: [panel.judges, panel.vote] for name, panel in self._panels.items()}
            )
            hashed.append([setup.fingerprint for setup in others])
            description["judges"] = {setup.name: setup.model for setup in self._setups}
        description["prompts"] = _hash(hashed)

        embedding = config.llm.embedding if config.llm is not None else None
        if self._embeds and embedding is not None and not is_own:
            description["embedding"] = str(embedding.model)
        return description

    def provenance(self, used: Sequence[str] = ()) -> dict[str, Any]:
        """Return the `judge` key of a result; `used` are the departures of its `Calls`."""
        provenance: dict[str, Any] = copy_json(self._provenance)
        if used:
            provenance["prompts"] = _hash([provenance["prompts"], used])
        return provenance

    def session(self) -> JudgeSession:
        """Return a new judge session for one stream."""
        return JudgeSession(self._setups, is_ended_by_one=self._on_fatal == "raise")

    def plan(
        self,
        question: Question,
        fields: Mapping[str, Any],
        groups: Sequence[Sequence[Mapping[str, Any]]] | None,
        matches: Sequence[tuple[int, int, int]],
    ) -> Plan | None:
        """Return what to judge for a response, or None if no metric applies.

        Args:
            question: the question.
            fields: those of the response.
            groups: the reference steps.
            matches: matched steps: the group and the position of the reference step, and the
                position of the actual step.
        """
        matched_steps = {}
        if groups:
            matched_steps = {actual: groups[group][step] for group, step, actual in matches}
        case = Case(
            question=question.text,
            reference_answer=question.reference_answer,
            reference_steps=groups,
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

    async def run(
        self, plan: Plan, session: JudgeSession
    ) -> tuple[Keys, dict[int, Keys], Keys] | None:
        """Return the keys of the result, of its steps by index, and of `judge`; None if it was
        dropped.
        """
        calls = Calls.for_result(session)
        await session.open()  # Opening a judge imports, in a thread, what the metrics need.
        await session.starts.turn()
        if session.is_dropping:  # A cancellation may arrive only after the first call is sent.
            return None

        panels = [(task, self._panels[task.metric]) for task in plan.due]
        asked = [
            (task, calls.to(session.senders[judge]))
            for task, panel in panels
            for judge in panel.judges
        ]
        all_verdicts = await _verdicts(asked, calls)
        if calls.clock.is_dropped:
            return None

        next_verdicts = iter(all_verdicts)
        keys: Keys = {}
        keys_of_steps: dict[int, Keys] = {}
        for task, panel in panels:
            verdicts = [next(next_verdicts) for _ in panel.judges]
            self._count(verdicts, session)
            if task.step is None:
                panel.add(keys, task, verdicts)
            else:
                panel.add(keys_of_steps.setdefault(task.step, {}), task, verdicts)
        return keys, keys_of_steps, self.provenance(sorted(calls.departures))

    def _count(self, verdicts: Sequence[Verdict], session: JudgeSession) -> None:
        """Count the outcome of a task, which has failed if one of its judges has.

        Raises:
            JudgeUnavailable: the judge will not answer any call, and this is to be raised.
        """
        errors = [
            verdict.outcome for verdict in verdicts if isinstance(verdict.outcome, JudgeError)
        ]
        for error in errors:
            if isinstance(error, JudgeUnavailable) and self._on_fatal == "raise":
                raise error
            session.usage.examples.setdefault(error.kind, error.message)
        outcome = errors[0].kind if errors else "ok"
        session.usage.outcomes[outcome] += 1


def _panels(config: Config) -> dict[str, Panel]:
    """Return the judges of each metric, by its name."""
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


def _check_models(config: Config, metrics: Sequence[RagasMetric]) -> None:
    """Check that metrics of ragas have the models that they ask.

    Raises:
        ConfigError: one has not.
    """
    problems = []
    for metric in metrics:
        judges = config.ragas_metrics[metric.name].judges
        if metric.asks_llm and GENERATION in judges and not has_model(config, GENERATION):
            problems.append(f"ragas.{metric.name}: needs llm.{GENERATION}")
        if metric.asks_embeddings and not has_model(config, "embedding"):
            problems.append(f"ragas.{metric.name}: needs llm.embedding")
    if problems:
        raise ConfigError(problems)


def _kinds_of_outputs(config: Config, metrics: Sequence[RagasMetric]) -> dict[str, list[str]]:
    """Return names of values by kind, as `kinds_of_outputs` does, with metrics of ragas."""
    kinds = kinds_of_outputs(config.custom_evaluations)
    for metric in metrics:
        kinds.setdefault("outputs", []).append(metric.name)
        if metric.is_fraction:
            kinds.setdefault("fractions", []).append(metric.name)
        if metric.gives_text:
            kinds.setdefault("texts", []).append(metric.name)
    return kinds


def _settings(config: Config) -> dict[str, Any]:
    """Return the sections of the configuration on which results depend, for the fingerprint."""
    settings = {}
    for name in Config.__struct_fields__:
        value = getattr(config, name)
        # Metrics of ragas are in the prompts; their arguments may be no JSON.
        if name not in FINGERPRINTED_ELSEWHERE and name != "ragas":
            settings[name] = msgspec.to_builtins(value)
    return settings


def _hash(value: Any) -> str:
    return sha256(orjson.dumps(value)).hexdigest()[:16]


async def _verdicts(asked: Sequence[tuple[Task, Calls]], shared: Calls) -> list[Verdict]:
    """Return the verdict on each task: a timeout error if it did not finish in the time of the
    result.
    """
    seconds = shared.session.limits.result_timeout_sec
    late = JudgeError("timeout", f"the result was not finished within {seconds:g} seconds")
    outcomes: list[Keys | JudgeError] = [late] * len(asked)

    async def judge(index: int, task: Task, calls: Calls) -> None:
        assert task.score is not None  # noqa: S101  (only such tasks are due)
        try:
            outcomes[index] = await task.score(calls)
        except JudgeError as error:
            outcomes[index] = error

    with shared.clock:
        if len(asked) == 1:
            # A group of tasks takes 50 us.
            task, calls = asked[0]
            await judge(0, task, calls)
        else:
            async with anyio.create_task_group() as group:
                for index, (task, calls) in enumerate(asked):
                    group.start_soon(judge, index, task, calls)
    return [
        Verdict(outcome, calls.cost) for outcome, (_, calls) in zip(outcomes, asked, strict=True)
    ]
