"""One scripted judge, as our metrics see it and as ragas' own do."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pytest

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.ragas_bridge import load_ragas
from tests.metrics.support import ScriptedMetricJudge

pytest.importorskip("ragas", reason="needs ragas: pip install '.[ragas]'")

load_ragas()  # Without its telemetry, whichever test module comes first.

from ragas.embeddings.base import BaseRagasEmbedding  # noqa: E402
from ragas.llms.base import InstructorBaseRagasLLM  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.metrics.metric import Case, Metric

T = TypeVar("T")


class Script(NamedTuple):
    """What the judge replies.

    `reply` gets the name of the output model, the data in the prompt and how often the prompt came
    before.
    """

    reply: Callable[[str, dict[str, Any], int], Any]
    vector: Callable[[str], Sequence[float]] = lambda text: [1.0, float(len(text))]


def data_of(prompt: str) -> dict[str, Any]:
    """The data that a prompt of ragas ends with."""
    value: dict[str, Any] = json.loads(prompt.rpartition("\ninput: ")[2].removesuffix("\nOutput: "))
    return value


class ScriptedJudge(ScriptedMetricJudge):
    """Our side: replies by a script, and keeps what it was asked."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        self.embedded: list[list[str]] = []

    @property
    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        """The output model and the data of each call."""
        forms = (form.schema["title"] for form in self.forms)
        return [*zip(forms, (data_of(each[-1]["content"]) for each in self.messages), strict=True)]

    def reply(self, title: str, prompt: str, repeat: int) -> Any:
        return self.script.reply(title, data_of(prompt), repeat)

    async def embed(self, texts: list[str]) -> list[list[float]]:
        self.embedded.append(texts)
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


async def outcome(metric: Metric, case: Case, script: Script | ScriptedJudge) -> dict[str, Any]:
    """All keys of a metric, errors under their keys."""
    asking = script if isinstance(script, ScriptedJudge) else ScriptedJudge(script)
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
