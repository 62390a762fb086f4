"""A judge by script, as a metric sees it, and a plain reader of the prompts that it gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.calls import MetricCalls
from graphrag_eval_async.metrics.metric import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.protocol import Message, ResponseFormat
    from graphrag_eval_async.metrics.metric import Metric

T = TypeVar("T")


class ScriptedMetricJudge(MetricCalls):
    """Stands for `MetricCalls`: gives `replies` in turn; one that does not fit is followed by the next.

    Attributes:
        messages: of each call.
        forms: of each call.
        corrections: what was wrong with the replies that did not fit.
    """

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.messages: list[Sequence[Message]] = []
        self.forms: list[ResponseFormat[Any]] = []
        self.corrections: list[str] = []

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        assert repeat == 0
        self.messages.append(prompt())
        self.forms.append(form)
        try:
            return form.read(self._replies.pop(0))
        except ValueError as error:
            self.corrections.append(str(error))
        try:
            return form.read(self._replies.pop(0))
        except ValueError as error:
            self.corrections.append(str(error))
            raise JudgeError("invalid_reply", str(error)) from None

    async def embed(self, texts: list[str]) -> list[list[float]]:
        raise AssertionError(texts)


CASE = Case("Which?", reference_answer="T1, T2", actual_answer="T2")


async def evaluate(metric: Metric, asking: ScriptedMetricJudge, case: Case = CASE) -> Mapping[str, Any]:
    """What the only evaluation of a case returns."""
    (evaluation,) = metric.tasks(case)
    assert evaluation.call is not None
    return await evaluation.call(asking)


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
