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
    """The reply as the cache keeps it."""
    value: Any
    """The reply as the metric reads it."""


class Answer(NamedTuple):
    """A usable reply to a call, and how its request differed from the default."""

    value: Any
    departures: list[str]
    """The differences of the request from the default, such as
    "generation completion: temperature as None".
    """


@dataclass(eq=False, slots=True)
class Call:
    """A call of a model: for a completion, or for the vectors of texts.

    Attributes:
        key: the hash under which the cache keeps the reply; equal calls have equal keys.
        inputs: the messages, or the texts to embed.
        schema: the JSON Schema of the reply to messages; None for texts to embed.
        check: reads a reply; raises `JudgeError` if the reply is unusable.
        clock: the clock of the result, which the first request starts.
        costs: gets the cost of each reply in US dollars, or None for an unknown cost.
        repeat: 0; a higher number asks for another reply to the same messages.
        outages_at_admission: the number of outages of the model when the `Breaker` admitted the
            call; None before it is admitted.
    """

    key: bytes
    inputs: Sequence[Any]
    schema: Mapping[str, Any] | None
    check: Callable[[Any], UsableReply]
    clock: Clock
    costs: list[float | None]
    repeat: int = 0
    outages_at_admission: int | None = None

    def estimate_tokens(self) -> int:
        """Return an estimate of the input tokens of a request for this call."""
        if self.schema is None:
            # The inputs are texts to embed.
            return sum(map(estimate_tokens, self.inputs))
        return estimate_prompt(self.inputs, self.schema)

    def quote_reply(self, error: JudgeError) -> None:
        """Add an unusable reply to the messages, and ask the judge to correct the reply.

        Nothing is added if `error` has no text of a reply, or if the call is for vectors.
        """
        is_for_vectors = self.schema is None
        if is_for_vectors or not error.reply:
            return
        request = f"This reply cannot be used: {error.message}. Reply once more, whole and mended."
        self.inputs = [
            *self.inputs,
            {"role": "assistant", "content": error.reply[:MAX_QUOTED]},
            {"role": "user", "content": request},
        ]
