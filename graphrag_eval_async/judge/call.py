"""A call of a model, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.judge.tokens import estimate_prompt, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.errors import JudgeError
    from graphrag_eval_async.judge.limits import Clock

MAX_QUOTED = 2000
"""Maximum characters of an unusable reply that are quoted to the judge."""


class UsableReply(NamedTuple):
    """A reply that was checked."""

    json: Any
    """What the cache keeps of it."""
    value: Any
    """What the metric reads."""


class Answer(NamedTuple):
    """What a metric gets for a call."""

    value: Any
    departures: list[str]
    """In what the request differed from those by default, such as
    "generation completion: temperature as None".
    """


@dataclass(eq=False, slots=True)
class Call:
    """A call of a model: for a completion, or for the vectors of texts.

    Attributes:
        key: equal for equal calls.
        inputs: the messages, or the texts to embed.
        schema: that of the reply to messages; None for texts.
        check: reads a reply; raises `JudgeError` if it is unusable.
        clock: that of the result, which the first request starts.
        costs: gets the cost of each reply in US dollars; None if it is unknown.
        repeat: above 0 for another reply to the same messages.
        epoch: that of the `Breaker` in which the call was admitted; None before.
    """

    key: bytes
    inputs: Sequence[Any]
    schema: Mapping[str, Any] | None
    check: Callable[[Any], UsableReply]
    clock: Clock
    costs: list[float | None]
    repeat: int = 0
    epoch: int | None = None

    def estimate_tokens(self) -> int:
        """Estimate the tokens of a request."""
        if self.schema is None:
            return sum(map(estimate_tokens, self.inputs))
        return estimate_prompt(self.inputs, self.schema)

    def quote_reply(self, problem: JudgeError) -> None:
        """Add an unusable reply and its problem to the messages, to get a better one."""
        if not problem.reply or self.schema is None:
            return
        problem_text = f"This reply cannot be used: {problem.message}."
        request = f"{problem_text} Reply once more, whole and mended."
        self.inputs = [
            *self.inputs,
            {"role": "assistant", "content": problem.reply[:MAX_QUOTED]},
            {"role": "user", "content": request},
        ]
