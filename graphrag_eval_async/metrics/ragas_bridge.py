"""The bridge to ragas, imported on demand: our judge answers the prompts of ragas."""

from __future__ import annotations

import asyncio
import os
from functools import cache, partial
from importlib import metadata
from importlib.util import find_spec
from math import fsum, hypot
from operator import mul
from typing import TYPE_CHECKING, Any, TypeVar, cast

from graphrag_eval_async.errors import ConfigError, JudgeError
from graphrag_eval_async.judge.protocol import ResponseFormat, strict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pydantic import BaseModel
    from ragas.prompt.metrics.base_prompt import BasePrompt

    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.judge.protocol import Message

T = TypeVar("T")

INSTALL = "pip install 'graphrag-eval-async[ragas]'"

BINARY_FIELDS = ("attributed", "noncommittal", "verdict")
"""The fields of ragas' output models that must be 0 or 1, although their types allow any int."""


def require_ragas(metric: str) -> str:
    """Return the version of ragas, without importing it."""
    if find_spec("ragas") is None:
        raise ConfigError([f"{metric}: needs the package ragas: {INSTALL}"])
    return metadata.version("ragas")


@cache
def load_ragas() -> None:
    """Import ragas, which takes a second or more, and turn off its telemetry for the whole process."""
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    try:
        from ragas import _analytics
        from ragas.metrics import collections  # noqa: F401
    except ImportError as error:
        raise ConfigError([f"ragas: cannot be imported ({error}): {INSTALL}"]) from error
    _analytics.do_not_track.cache_clear()  # Holds the old setting if ragas was imported before.
    _analytics._analytics_batcher.shutdown()  # Ends its thread, which wakes up every second.


async def ask_ragas(
    judge: MetricCalls, prompt: type[BasePrompt[Any, Any]], *, repeat: int = 0, **data: Any
) -> Any:
    """Fill in a prompt of ragas and return the judge's reply as the prompt's output model."""
    model: Any = prompt.output_model
    return await judge.ask(partial(_messages, prompt, data), format_of_model(model), repeat=repeat)


def _messages(prompt: type[BasePrompt[Any, Any]], data: dict[str, Any]) -> list[Message]:
    """Return a filled-in prompt of ragas as one user message."""
    head, tail = _around_input(prompt)
    try:
        filled = prompt.input_model(**data).model_dump_json(indent=4, exclude_none=True)
    except ValueError as error:  # A lone surrogate, which JSON cannot encode.
        raise JudgeError("invalid_request", f"the prompt cannot be encoded: {error}") from None
    return [{"role": "user", "content": f"{head}{filled}{tail}"}]


class _Slot:
    """A placeholder for the input of a prompt."""

    TEXT = "\0"

    def model_dump_json(self, **_: Any) -> str:
        return self.TEXT


@cache
def _around_input(kind: type[BasePrompt[Any, Any]]) -> tuple[str, str]:
    """Return a prompt's text before and after its input; cached, since ragas takes a millisecond."""
    head, _, tail = kind().to_string(cast("Any", _Slot())).rpartition(_Slot.TEXT)
    return head, tail


@cache
def format_of_model(model: type[BaseModel]) -> ResponseFormat[Any]:
    """Return the format of replies that hold one of ragas' output models."""
    from pydantic import ValidationError

    def read(reply: Any) -> BaseModel:
        try:
            output = model.model_validate(reply)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the reply'}: {first['msg']}") from None
        for row in getattr(output, "classifications", [output]):
            for name in BINARY_FIELDS:
                if getattr(row, name, 0) not in {0, 1}:
                    raise ValueError(f"{name}: must be 0 or 1")
        return output

    return ResponseFormat(strict(model.model_json_schema()), read)


async def together(*calls: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Make all calls concurrently and return their results.

    If calls fail, raises the error of the first one listed, after all calls have ended: they are paid for in
    any case, so they are counted and cached.
    """
    results = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, from -1 to 1.

    Both must be finite, nonzero, and of the same length. Formula:
    https://en.wikipedia.org/wiki/Cosine_similarity
    """
    left, right = _scaled(left), _scaled(right)
    value = fsum(map(mul, left, right)) / (hypot(*left) * hypot(*right))
    return max(-1.0, min(1.0, value))


def _scaled(vector: Sequence[float]) -> list[float]:
    """Scale a vector so that the square of its length neither overflows nor underflows."""
    largest = max(map(abs, vector))
    return [value / largest for value in vector]
