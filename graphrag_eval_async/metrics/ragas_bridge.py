"""The bridge to ragas, imported on demand: our judge answers the prompts of ragas."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from math import fsum, hypot
from operator import mul
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import ConfigError, JudgeError, needs
from graphrag_eval_async.judge.protocol import Message, ResponseFormat, strict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from graphrag_eval_async.metrics.metric import Calls

BINARY_FIELDS = ("attributed", "noncommittal", "verdict")
"""The fields of ragas' output models that must be 0 or 1, although their types allow any int."""


def ragas_prompts(metric: str, *names: str) -> list[str]:
    """Return the `prompts` of a metric that uses prompts of ragas, without importing it."""
    if find_spec("ragas") is None:
        raise ConfigError([f"{metric}: {needs('ragas')}"])
    return [f"ragas {metadata.version('ragas')} {', '.join(names)}"]


@cache
def load_ragas() -> None:
    """Import ragas, which takes a second or more, and turn off its telemetry for the whole
    process.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    try:
        from ragas import _analytics
        from ragas.metrics import collections  # noqa: F401
    except ImportError as error:
        raise ConfigError([f"ragas: cannot be imported ({error}); it {needs('ragas')}"]) from error
    _analytics.do_not_track.cache_clear()  # Holds the old setting if ragas was imported before.
    _analytics._analytics_batcher.shutdown()  # Ends its thread, which wakes up every second.


async def ask_ragas(calls: Calls, metric: str, prompt: str, *, repeat: int = 0, **data: Any) -> Any:
    """Fill in a prompt of one of ragas' metrics; return the judge's reply as the prompt's output
    model.
    """
    kind, head, tail, form = _prompt(metric, prompt)

    def messages() -> list[Message]:
        try:
            filled = kind.input_model(**data).model_dump_json(indent=4, exclude_none=True)
        except ValueError as error:  # A lone surrogate, which JSON cannot encode.
            raise JudgeError("invalid_request", f"the prompt cannot be encoded: {error}") from None
        return [{"role": "user", "content": f"{head}{filled}{tail}"}]

    return await calls.ask(messages, form, repeat=repeat)


@cache
def _prompt(metric: str, prompt: str) -> tuple[Any, str, str, ResponseFormat[Any]]:
    """Return a prompt of ragas, its text before and after the input, and the format of replies."""
    kind = getattr(import_module(f"ragas.metrics.collections.{metric}.util"), prompt)
    head, _, tail = (
        kind().to_string(SimpleNamespace(model_dump_json=lambda **_: "\0")).rpartition("\0")
    )
    return kind, head, tail, format_of_model(kind.output_model)


@cache
def format_of_model(model: Any) -> ResponseFormat[Any]:
    """Return the format of replies that hold one of ragas' output models."""
    from pydantic import ValidationError

    def read(reply: Any) -> Any:
        try:
            output = model.model_validate(reply)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise ValueError(
                f"{'.'.join(map(str, first['loc'])) or 'the reply'}: {first['msg']}"
            ) from None
        for row in getattr(output, "classifications", [output]):
            if wrong := [name for name in BINARY_FIELDS if getattr(row, name, 0) not in {0, 1}]:
                raise ValueError(f"{wrong[0]}: must be 0 or 1")
        return output

    return ResponseFormat(strict(model.model_json_schema()), read)


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """Make all calls concurrently; an error is raised after all have ended, as they are paid for
    anyway.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of the angle between two finite, nonzero vectors, from -1 to 1."""
    return max(-1.0, min(1.0, fsum(map(mul, _unit(left), _unit(right)))))


def _unit(vector: Sequence[float]) -> list[float]:
    length = hypot(*vector)
    return [value / length for value in vector]
