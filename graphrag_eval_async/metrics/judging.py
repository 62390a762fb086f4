"""The configured metrics, and how they judge responses."""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio
import msgspec
import orjson

from graphrag_eval_async.catalogue.outcomes import VALUES_BY_METRIC
from graphrag_eval_async.config import Config, LLMConfig
from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.calls import Calls
from graphrag_eval_async.judge.given import GivenJudges
from graphrag_eval_async.judge.session import JudgeSession
from graphrag_eval_async.judge.setup import set_up_judges
from graphrag_eval_async.metrics.answer_correctness import answer_correctness
from graphrag_eval_async.metrics.answer_relevance import answer_relevance
from graphrag_eval_async.metrics.context_relevance import context_relevance
from graphrag_eval_async.metrics.custom import custom_evaluation, kinds_of_outputs
from graphrag_eval_async.metrics.faithfulness import faithfulness
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.panel import Panel, Verdict
from graphrag_eval_async.metrics.ragas_answer_correctness import ragas_answer_correctness
from graphrag_eval_async.metrics.ragas_bridge import load_ragas
from graphrag_eval_async.metrics.retrieval import ANSWER, CONTEXT, retrieval
from graphrag_eval_async.metrics.sparql_groundedness import sparql_groundedness
from graphrag_eval_async.records.decoding import copy_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.protocol import GivenJudge
    from graphrag_eval_async.metrics.metric import Keys, Metric, Task
    from graphrag_eval_async.records import Question

OnFatal = Literal["raise", "continue"]

METRICS: dict[str, Callable[[Any], Metric]] = {
    "answer_correctness": answer_correctness,
    "answer_relevance": answer_relevance,
    ANSWER: partial(retrieval, ANSWER),
    CONTEXT: partial(retrieval, CONTEXT),
    "ragas_answer_correctness": ragas_answer_correctness,
    "faithfulness": faithfulness,
    "context_relevance": context_relevance,
    "sparql_groundedness": sparql_groundedness,
}
"""Functions that create a metric from its section of the configuration, by section name."""

FINGERPRINTED_ELSEWHERE = {"llm", "execute", "aliases", "turned_on"}
"""Sections that `Judging.fingerprint` does not copy. The first two may hold secrets, which no hash
may give away: `JudgeSetup.fingerprint` and `Executing.fingerprint` say what matters of them.
"""


def configured(config: Config) -> list[Metric]:
    """Return the metrics that are on, in the order of their keys in results."""
    makers, sections = METRICS, (config.retrieval_answer, config.retrieval_context)
    asked = {(each.mode, each.seed, each.judges) for each in sections if each is not None}
    if None not in sections and len(asked) == 1 and asked.pop()[0] == "joint":  # Both ask alike.
        makers = METRICS | {
            name: partial(retrieval, name, is_shared=True) for name in (ANSWER, CONTEXT)
        }
    metrics = [makers[name](section) for name, section in config.metrics.items()]
    return [*metrics, *map(custom_evaluation, config.custom_evaluations)]


def loader(config: Config) -> Callable[[], None]:
    """Return a function that imports the packages that the metrics need."""
    needs_ragas = any(
        getattr(section, "mode", None) == "ragas" for section in config.metrics.values()
    )
    return load_ragas if needs_ragas else lambda: None


class Plan(NamedTuple):
    """The tasks to judge for a response, and the number of metrics skipped for a missing input."""

    due: Sequence[Task]
    skipped: int

    @property
    def pending(self) -> list[str]:
        """The names of the metrics to judge."""
        return list(dict.fromkeys(task.metric for task in self.due))


class Judging:
    """The metrics of a configuration, and their judge.

    `fingerprint` is JSON that differs if other metrics or models could give other results.
    """

    def __init__(
        self,
        config: Config,
        *,
        judge: GivenJudge | Mapping[str, GivenJudge] | None,
        on_fatal: OnFatal,
    ) -> None:
        """Prepare the metrics, of which at least one must be on; makes no call and imports nothing
        heavy.

        `judge` takes the place of configured models, or several by name do. If all calls would fail, `run` raises
        `JudgeUnavailable`; with `on_fatal` "continue", each metric gets the error.
        """
        self._metrics = configured(config)
        self.names = [metric.name for metric in self._metrics]
        self._on_fatal = on_fatal
        self._panels = {}
        for name, section in config.metrics.items():
            self._panels[name] = Panel(section.judges, section.vote, VALUES_BY_METRIC[name])
        for each in config.custom_evaluations:
            self._panels[each.name] = Panel(
                each.judges, each.vote, [*each.outputs], nulls=[*each.outputs]
            )
        given = GivenJudges(judge)
        self._setups = set_up_judges(
            config.llm or LLMConfig(),
            given.find_all(config.judges),
            prepare=loader(config),
            embeds=bool(config.embedding_metrics),
        )
        self._provenance = self._describe(config, is_own=given.has_own)
        settings = {
            name: msgspec.to_builtins(getattr(config, name))
            for name in Config.__struct_fields__
            if name not in FINGERPRINTED_ELSEWHERE
        }
        self.fingerprint = [
            self._provenance,
            [setup.fingerprint for setup in self._setups],
            settings,
        ]

    def _describe(self, config: Config, *, is_own: bool) -> dict[str, Any]:
        """Return the part of the `judge` key that all results share."""
        first, *others = self._setups
        hashed: list[Any] = [[[metric.name, *metric.prompts] for metric in self._metrics]]
        hashed.append(None if is_own else first.fingerprint)
        found: dict[str, Any] = {"model": first.model, "prompts": ""}
        if others:
            hashed.append(
                {name: [panel.judges, panel.vote] for name, panel in self._panels.items()}
            )
            hashed.append([setup.fingerprint for setup in others])
            found["judges"] = {setup.name: setup.model for setup in self._setups}
        found["prompts"] = _hash(hashed)
        embedding = (
            config.llm.embedding if config.llm is not None and config.embedding_metrics else None
        )
        if embedding is not None and not is_own:
            found["embedding"] = str(embedding.model)
        return found | kinds_of_outputs(config.custom_evaluations)

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
        """Return what to judge for a response, or None if no metric applies."""
        case = Case(
            question=question.text,
            reference_answer=question.reference_answer,
            reference_steps=groups,
            actual_answer=fields.get("actual_answer"),
            actual_steps=fields.get("actual_steps"),
            matches={actual: groups[group][step] for group, step, actual in matches}
            if groups
            else {},
        )
        tasks = [task for metric in self._metrics for task in metric.tasks(case)]
        due = [task for task in tasks if task.score is not None]
        return Plan(due, len(tasks) - len(due)) if tasks else None

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
        judges = [(task, session.senders[name]) for task, panel in panels for name in panel.judges]
        verdicts = iter(
            await _verdicts([(task, calls.to(sender)) for task, sender in judges], calls)
        )
        if calls.clock.is_dropped:
            return None
        keys: Keys = {}
        of_steps: dict[int, Keys] = {}
        for task, panel in panels:
            own = [next(verdicts) for _ in panel.judges]
            errors = [outcome for outcome, _ in own if isinstance(outcome, JudgeError)]
            for error in errors:
                if isinstance(error, JudgeUnavailable) and self._on_fatal == "raise":
                    raise error
                session.usage.examples.setdefault(error.kind, error.message)
            session.usage.outcomes[errors[0].kind if errors else "ok"] += 1
            panel.add(keys if task.step is None else of_steps.setdefault(task.step, {}), task, own)
        return keys, of_steps, self.provenance(sorted(calls.departures))


def _hash(value: Any) -> str:
    return sha256(orjson.dumps(value)).hexdigest()[:16]


async def _verdicts(asked: Sequence[tuple[Task, Calls]], shared: Calls) -> list[Verdict]:
    """Return the verdict on each task: a timeout error if it did not finish in the time of the
    result.
    """
    seconds = shared.session.limits.result_timeout_sec
    late = JudgeError("timeout", f"the result was not finished within {seconds:g} seconds")
    outcomes: list[Keys | JudgeError] = [late] * len(asked)

    async def find(index: int, task: Task, calls: Calls) -> None:
        try:
            outcomes[index] = await task.score(calls) if task.score is not None else {}
        except JudgeError as error:
            outcomes[index] = error

    with shared.clock:
        if len(asked) == 1:  # As for a metric with one judge; a group of tasks takes 50 us.
            await find(0, *asked[0])
        else:
            async with anyio.create_task_group() as tasks:
                for index, each in enumerate(asked):
                    tasks.start_soon(find, index, *each)
    return [
        Verdict(outcome, calls.cost) for outcome, (_, calls) in zip(outcomes, asked, strict=True)
    ]
