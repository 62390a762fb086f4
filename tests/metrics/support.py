"""A judge by script, as a metric sees it, and a plain reader of the prompts that it gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.calls import Calls
from graphrag_eval_async.judge.dry import fitting
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.protocol import Message, ResponseFormat
    from graphrag_eval_async.metrics.metric import Metric

T = TypeVar("T")


class ScriptedMetricJudge(Calls):
    """Stands for `Calls`: gives `replies` in turn; one that does not fit is followed by the
    next.

    A reply may be a function of the blocks of data.
    """

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.messages: list[Sequence[Message]] = []
        self.forms: list[ResponseFormat[Any]] = []
        self.corrections: list[str] = []

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        self.messages.append(messages := prompt())
        self.forms.append(form)
        for _ in range(2):
            try:
                return form.read(self.reply(form.schema["title"], messages[-1]["content"], repeat))
            except ValueError as error:
                self.corrections.append(str(error))
        raise JudgeError("invalid_reply", self.corrections[-1])

    def reply(self, _title: str, prompt: str, _repeat: int) -> Any:
        """The next reply to a prompt."""
        reply = self._replies.pop(0)
        return reply(read_blocks(prompt)) if callable(reply) else reply

    @property
    def blocks(self) -> dict[str, str]:
        """The data of the last call."""
        return read_blocks(self.messages[-1][1]["content"])


class Judge:
    """Replies by the title of the schema, with each of a list in turn, else with what fits; or
    fails.
    """

    def __init__(self, model: str = "scripted", replies: Any = None, **by_title: Any) -> None:
        self.model = model
        self.replies = replies or by_title
        self.asked: list[str] = []
        self.blocks: list[dict[str, str]] = []
        self.embedded: list[list[str]] = []
        self.vectors: dict[str, list[float]] = {}

    async def complete(self, messages: Sequence[Message], schema: Any) -> tuple[Any, TokenUsage]:
        self.asked.append(schema["title"])
        self.blocks.append(read_blocks(messages[1]["content"]))
        if isinstance(self.replies, Exception):
            raise self.replies
        reply = self.replies.get(schema["title"]) or fitting(schema, schema, [1, 2])
        if isinstance(reply, list):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        return reply, TokenUsage(1000, 100)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage]:
        self.embedded.append([*texts])
        return [self.vectors.get(text, [1.0, 1.0]) for text in texts], TokenUsage(10)


def claims(reference: int, actual: int, matching: int) -> dict[str, Any]:
    """Replies with so many claims."""
    return {
        "AnswerClaims": {
            "reference_claims": ["r"] * reference,
            "actual_claims": ["a"] * actual,
            "reason": f"{matching} match",
            "matches": [{"reference": i, "actual": i} for i in range(matching)],
        }
    }


CASE = Case("Which?", reference_answer="T1, T2", actual_answer="T2")


async def evaluate(
    metric: Metric, asking: ScriptedMetricJudge, case: Case = CASE
) -> Mapping[str, Any]:
    """What the only task of a case returns."""
    (task,) = metric.tasks(case)
    assert task.score is not None
    return await task.score(asking)


def applies(metric: Metric, case: Case) -> list[bool]:
    """Which tasks of a case are not skipped."""
    return [task.score is not None for task in metric.tasks(case)]


def read_blocks(text: str) -> dict[str, str]:
    """The blocks of data in a user message, read as its first line says."""
    first, rest = text.split("\n", 1)
    boundary = re.fullmatch("Boundary: ([0-9a-f]{16})", first)
    assert boundary
    blocks = {}
    while rest:
        assert rest[0] == "\n"
        opening, rest = rest[1:].split("\n", 1)
        name = opening.removeprefix("<").removesuffix(f" {boundary[1]}>")
        assert opening == f"<{name} {boundary[1]}>"
        blocks[name], rest = rest.split(f"\n</{name} {boundary[1]}>", 1)
        rest = rest.removeprefix("\n")
    return blocks
