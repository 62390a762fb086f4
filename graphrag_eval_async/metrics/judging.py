"""The configured metrics, and how they judge responses."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import anyio
import msgspec
import orjson

from graphrag_eval_async.config import Config, LLMConfig
from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.calls import MetricCalls, ResultCalls
from graphrag_eval_async.judge.session import JudgeSession, judge_setup
from graphrag_eval_async.metrics.answer_correctness import answer_correctness
from graphrag_eval_async.metrics.answer_relevance import answer_relevance
from graphrag_eval_async.metrics.context_relevance import context_relevance
from graphrag_eval_async.metrics.custom import custom_evaluation, kinds_of_outputs
from graphrag_eval_async.metrics.faithfulness import faithfulness
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.ragas_answer_correctness import ragas_answer_correctness
from graphrag_eval_async.metrics.ragas_bridge import load_ragas
from graphrag_eval_async.metrics.retrieval import add_f1, retrieval_answer, retrieval_context
from graphrag_eval_async.metrics.sparql_groundedness import sparql_groundedness
from graphrag_eval_async.records.copying import copy_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.protocol import Judge
    from graphrag_eval_async.metrics.metric import Call, Metric, MetricTask
    from graphrag_eval_async.records import Question

    Outcome: TypeAlias = Mapping[str, Any] | JudgeError

OnFatal = Literal["raise", "continue"]

SECTIONS = [name for name in Config.__struct_fields__ if name not in {"llm", "aliases", "turned_on"}]

METRICS: dict[str, Callable[[Any], Metric]] = {
    "answer_correctness": answer_correctness,
    "answer_relevance": answer_relevance,
    "retrieval_answer": retrieval_answer,
    "retrieval_context": retrieval_context,
    "ragas_answer_correctness": ragas_answer_correctness,
    "faithfulness": faithfulness,
    "context_relevance": context_relevance,
    "sparql_groundedness": sparql_groundedness,
}
"""Functions that create a metric from its section of the configuration, by section name."""


def metrics_on(config: Config) -> bool:
    """Whether any metric that needs the judge is on."""
    return bool(config.custom_evaluations or config.metrics)


def configured(config: Config) -> list[Metric]:
    """Return the metrics that are on, in the order of their keys in results.

    Raises:
        ConfigError: a metric needs a package that is not installed.
    """
    metrics = [METRICS[name](section) for name, section in config.metrics.items()]
    return [*metrics, *map(custom_evaluation, config.custom_evaluations)]


def loader(config: Config) -> Callable[[], None]:
    """Return a function that imports the packages that the metrics need."""
    sections = {name: section for name, section in config.metrics.items() if name != "answer_correctness"}
    needs_ragas = any(getattr(section, "mode", "ragas") == "ragas" for section in sections.values())
    return load_ragas if needs_ragas else lambda: None


class Plan(NamedTuple):
    """The tasks to judge for a response, and the number of metrics skipped for a missing input."""

    due: Sequence[MetricTask]
    skipped: int

    @property
    def pending(self) -> list[str]:
        """The names of the metrics to judge."""
        return list(dict.fromkeys(task.metric for task in self.due))


class Judged(NamedTuple):
    """The keys that judging adds to a result, and to its steps by index."""

    keys: dict[str, Any]
    of_steps: dict[int, dict[str, Any]]


class Judging:
    """The metrics of a configuration, and their judge.

    Attributes:
        names: names of the metrics, as in the configuration.
        fingerprint: JSON that differs if other metrics or models could give other results.
    """

    def __init__(self, config: Config, *, judge: Judge | None, on_fatal: OnFatal) -> None:
        """Prepare the metrics; makes no call and imports nothing heavy.

        Args:
            config: a checked configuration with at least one metric on.
            judge: the caller's own judge, used instead of the configured models.
            on_fatal: what to do if all calls would fail: with "raise", `run` raises; with "continue", each
                metric gets the error.

        Raises:
            ConfigError: a package, a key, or the price that a budget needs is missing.
        """
        self._metrics = configured(config)
        self.names = [metric.name for metric in self._metrics]
        self._on_fatal = on_fatal
        embeds = bool(config.embedding_metrics)
        self._setup = judge_setup(config.llm or LLMConfig(), judge, loader(config), embeds=embeds)
        prompts = [[metric.name, *metric.prompts] for metric in self._metrics]
        models = None if judge is not None else self._setup.identities
        digest = sha256(orjson.dumps([prompts, models])).hexdigest()[:16]
        provenance: dict[str, Any] = {"model": self._setup.model, "prompts": digest}
        if embeds and judge is None and config.llm is not None and config.llm.embedding is not None:
            provenance["embedding"] = str(config.llm.embedding.model)
        provenance |= kinds_of_outputs(config.custom_evaluations)
        self._provenance = provenance
        sections = {name: msgspec.to_builtins(getattr(config, name)) for name in SECTIONS}
        self.fingerprint = [provenance, self._setup.identities, sections]

    def provenance(self, used: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the `judge` key of a result.

        It has the `model`; the `embedding` model, if a metric uses one; a hash of the `prompts` of all
        metrics, of the models' parameters and of `used`; the `outputs` of custom evaluations, and which of
        them are `fractions` (numbers from 0 to 1) or `texts`.

        Args:
            used: in what other way requests were written; see `JudgeSession`.
        """
        provenance: dict[str, Any] = copy_json(self._provenance)
        if used:
            text = orjson.dumps([provenance["prompts"], used])
            provenance["prompts"] = sha256(text).hexdigest()[:16]
        return provenance

    def session(self) -> JudgeSession:
        """Return a new judge session for one stream."""
        return JudgeSession(self._setup)

    def plan(
        self, question: Question, fields: Mapping[str, Any], matches: Sequence[tuple[int, int, int]]
    ) -> Plan | None:
        """Return what to judge for a response, or None if no metric applies.

        Args:
            question: the question that the response answers.
            fields: the fields of the response.
            matches: as in `StepsScore`.
        """
        groups = question.reference_steps
        case = Case(
            question=question.text,
            reference_answer=question.reference_answer,
            reference_steps=groups,
            actual_answer=fields.get("actual_answer"),
            actual_steps=fields.get("actual_steps"),
            matches={actual: groups[group][step] for group, step, actual in matches} if groups else {},
        )
        tasks = [task for metric in self._metrics for task in metric.tasks(case)]
        due = [task for task in tasks if task.call is not None]
        return Plan(due, len(tasks) - len(due)) if tasks else None

    async def run(self, plan: Plan, session: JudgeSession) -> Judged | None:
        """Judge all metrics of a response concurrently; return None if the session dropped the response.

        Raises:
            JudgeUnavailable: no call can succeed, and `on_fatal` is "raise".
        """
        result = ResultCalls(session)
        await session.judge()  # Opening the judge imports, in a thread, what the metrics need.
        await session.starts.acquire(result.order)
        if session.is_dropping:  # A cancellation may arrive only after the first call is sent.
            return None
        judges = [MetricCalls(result) for _ in plan.due]
        outcomes = await _outcomes(plan, judges, result)
        return None if result.is_dropped else self._gather(plan, judges, outcomes, session)

    def _gather(
        self, plan: Plan, judges: Sequence[MetricCalls], outcomes: Sequence[Outcome], session: JudgeSession
    ) -> Judged:
        """Return what the tasks add to the result; count outcomes and costs."""
        judged = Judged({}, {})
        for task, judge, outcome in zip(plan.due, judges, outcomes, strict=True):
            if self._on_fatal == "raise" and isinstance(outcome, JudgeUnavailable):
                raise outcome
            _add(judged, task, outcome, judge.cost)
            session.usage.outcomes[outcome.kind if isinstance(outcome, JudgeError) else "ok"] += 1
            if isinstance(outcome, JudgeError):
                session.usage.examples.setdefault(outcome.kind, outcome.message)
        costs = [cost for judge in judges for cost in judge.costs]
        session.spending.add(sum(judge.calls for judge in judges), costs)
        return judged


async def _outcomes(plan: Plan, judges: Sequence[MetricCalls], result: ResultCalls) -> list[Outcome]:
    """Return the outcome of each task: a timeout error if it did not finish in the time of the result."""
    seconds = result.session.limits.result_timeout_sec
    late = JudgeError("timeout", f"the result was not finished within {seconds:g} seconds")
    outcomes: list[Outcome] = [late] * len(plan.due)

    async def find(index: int, call: Call) -> None:
        try:
            outcomes[index] = await call(judges[index])
        except JudgeError as error:
            outcomes[index] = error

    calls = [(index, task.call) for index, task in enumerate(plan.due) if task.call is not None]
    with result:
        if len(calls) == 1:
            await find(*calls[0])
        else:
            async with anyio.create_task_group() as tasks:
                for index, call in calls:
                    tasks.start_soon(find, index, call)
    return outcomes


def _add(judged: Judged, task: MetricTask, outcome: Outcome, cost: float | None) -> None:
    """Add the outcome of a task to the keys of the result or of its step."""
    keys = judged.keys if task.step is None else judged.of_steps.setdefault(task.step, {})
    if isinstance(outcome, JudgeError):
        keys |= dict.fromkeys(task.nulls) | {task.error_key: f"{outcome.kind}: {outcome.message}"}
    else:
        keys |= outcome
    # The cost of a failure without a reply is unknown, not 0.
    if cost is not None and (cost or not isinstance(outcome, JudgeError)):
        keys[task.cost_key] = cost
    if task.step is not None:
        add_f1(keys, task.metric)
