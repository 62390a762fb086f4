"""One scripted judge, as our metrics see it and as ragas' own do."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio
import pytest

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.calls import MetricCalls
from graphrag_eval_async.metrics.ragas_bridge import load_ragas

pytest.importorskip("ragas", reason="needs ragas: pip install '.[ragas]'")

load_ragas()  # Without its telemetry, whichever test module comes first.

from ragas.embeddings.base import BaseRagasEmbedding  # noqa: E402
from ragas.llms.base import InstructorBaseRagasLLM  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.judge.protocol import Message, ResponseFormat
    from graphrag_eval_async.metrics.metric import Case, Metric

T = TypeVar("T")


class Script(NamedTuple):
    """What the judge replies.

    `reply` gets the name of the output model, the data in the prompt and how often the prompt came before.
    """

    reply: Callable[[str, dict[str, Any], int], Any]
    vector: Callable[[str], Sequence[float]] = lambda text: [1.0, float(len(text))]


def data_of(prompt: str) -> dict[str, Any]:
    """The data that a prompt of ragas ends with."""
    value: dict[str, Any] = json.loads(prompt.rpartition("\ninput: ")[2].removesuffix("\nOutput: "))
    return value


class ScriptedMetricJudge(MetricCalls):
    """Stands for `MetricCalls`; keeps what it was asked. Until `open` is set, no call returns."""

    def __init__(self, script: Script, *, is_open: bool = True) -> None:
        self.script = script
        self.asked: list[tuple[str, dict[str, Any], int]] = []
        self.messages: list[Sequence[Message]] = []
        self.embedded: list[list[str]] = []
        self.open = anyio.Event()
        if is_open:
            self.open.set()

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        self.messages.append(messages := prompt())
        title, data = form.schema["title"], data_of(messages[-1]["content"])
        self.asked.append((title, data, repeat))
        await self.open.wait()
        try:
            return form.read(self.script.reply(title, data, repeat))
        except ValueError as error:
            raise JudgeError("invalid_reply", str(error)) from None

    async def embed(self, texts: list[str]) -> list[list[float]]:
        self.embedded.append(texts)
        await self.open.wait()
        return [list(self.script.vector(text)) for text in texts]


class ScriptedLLM(InstructorBaseRagasLLM, BaseRagasEmbedding):
    """The judge as ragas' own metrics call it, without anything of ours in between."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: Counter[str] = Counter()

    async def agenerate(self, prompt: str, response_model: Any) -> Any:
        self.seen[prompt] += 1
        reply = self.script.reply(response_model.__name__, data_of(prompt), self.seen[prompt] - 1)
        return response_model.model_validate(reply)

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        return list(self.script.vector(text))

    def generate(self, prompt: str, response_model: Any) -> Any:
        raise NotImplementedError

    def embed_text(self, text: str, **_: Any) -> list[float]:
        raise NotImplementedError


async def outcome(metric: Metric, case: Case, script: Script | ScriptedMetricJudge) -> dict[str, Any]:
    """All keys of a metric, errors under their keys."""
    asking = script if isinstance(script, ScriptedMetricJudge) else ScriptedMetricJudge(script)
    keys: dict[str, Any] = {}
    for task in metric.tasks(case):
        if task.score is not None:
            try:
                keys |= await task.score(asking)
            except JudgeError as error:
                keys[f"{task.metric}{task.part}_error"] = str(error)
    return keys


def fixed(**replies: Any) -> Script:
    """A script that knows one reply for each output model, or a list of them, one a repeat."""

    def reply(title: str, _data: Any, repeat: int) -> Any:
        value = replies[title]
        return value[repeat] if isinstance(value, list) else value

    return Script(reply)
