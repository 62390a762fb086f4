"""A call to a model: what to send, how to check the reply, and how its requests are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import hypot, inf
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.protocol import check_size
from graphrag_eval_async.judge.usage import estimate_prompt, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.limits import Clock
    from graphrag_eval_async.judge.protocol import ResponseFormat

MAX_QUOTED = 2000  # Maximum characters of an invalid reply that are quoted to the judge.


class Rewritten(JudgeError):  # noqa: N818
    """A request failed, but its `Way` has changed: sent once more, it may succeed. Counts as no
    attempt.
    """


@dataclass(slots=True)
class Way:
    """How the requests of a call are written: one step down for each refusal of the server."""

    place: int = 0  # Of the format in `LADDER`.
    # Of default parameters; None if left out.
    names: dict[str, str | None] = field(default_factory=dict)
    # What the server said of these, and of "format".
    reasons: dict[str, str] = field(default_factory=dict)
    is_guess: bool = False  # It did not say that it refuses the formats before.
    errors: int = 0  # How often it answered this format with an internal error.
    is_repaired: bool = False  # Other text was removed from the reply.
    is_anew: bool = False  # It is sent on a new connection.


@dataclass(eq=False, slots=True)
class Call:
    """A call to a model: a completion with messages and a schema, or texts to embed without one."""

    key: bytes  # Equal for equal calls.
    asked: Sequence[Any]
    schema: Mapping[str, Any] | None
    check: Callable[[Any], Any]  # Returns the reply if it is usable, else raises `JudgeError`.
    clock: Clock  # That of the result, which the first request starts.
    costs: list[float | None]  # Gets the cost of each reply in US dollars; None if unknown.
    repeat: int = 0  # Above 0 for another reply to the same messages.
    way: Way = field(default_factory=Way)
    epoch: int | None = None  # See `Breaker.enter`.

    @property
    def tokens(self) -> int:
        """The estimated tokens of a request."""
        if self.schema is None:
            return sum(map(estimate_tokens, self.asked))
        return estimate_prompt(self.asked, self.schema)

    def correct(self, problem: JudgeError) -> None:
        """Quote a reply that cannot be used, and ask for a better one."""
        if problem.reply and self.schema is not None:
            mend = (
                f"This reply cannot be used: {problem.message}. Reply once more, whole and mended."
            )
            reply = {"role": "assistant", "content": problem.reply[:MAX_QUOTED]}
            self.asked = [*self.asked, reply, {"role": "user", "content": mend}]


def checked_reply(form: ResponseFormat[Any], reply: Any) -> Any:
    """Return the reply if it fits the format, else raise `JudgeError`."""
    try:
        text = orjson.dumps(reply)
    except TypeError as error:
        raise JudgeError("invalid_reply", f"the reply is not JSON: {error}") from None
    try:
        check_size(text)
        form.read(reply)
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text.decode()) from None
    return reply


def checked_vectors(count: int, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the vectors if there is one per text, all finite, nonzero, and of one valid length."""
    try:
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != count or len(lengths) != 1:
            raise JudgeError("invalid_reply", f"expected {count} vectors of the same length")
        checked = [[float(x) for x in vector] for vector in vectors]
    except (TypeError, ValueError, OverflowError) as error:
        raise JudgeError("invalid_reply", f"the reply has no vectors: {error}") from None
    if not all(0 < hypot(*vector) < inf for vector in checked):
        raise JudgeError("invalid_reply", "a vector is zero or has a number that is not finite")
    return checked
