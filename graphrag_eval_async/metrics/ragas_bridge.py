"""The package ragas, imported on demand, and its prompts and formats of replies for our judges."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from math import fsum, hypot
from operator import mul
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ConfigError, JudgeError, needs
from graphrag_eval_async.judge.protocol import Message, ResponseFormat, strict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from graphrag_eval_async.metrics.metric import Calls

BINARY_FIELDS = ("attributed", "noncommittal", "verdict")
"""The fields of ragas' output models that must be 0 or 1, although their types allow any int."""


def ragas_prompts(metric: str, *names: str) -> list[str]:
    """Return the `prompts` of a metric that uses prompts or metrics of ragas, without importing it.

    Raises:
        ConfigError: ragas is not installed.
    """
    if find_spec("ragas") is None:
        raise ConfigError([f"{metric}: {needs('ragas')}"])
    return [f"ragas {metadata.version('ragas')} {', '.join(names)}"]


@cache
def load_ragas() -> None:
    """Import ragas, which takes seconds, and turn off its telemetry for the whole process.

    Raises:
        ConfigError: ragas cannot be imported.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    try:
        from ragas import _analytics
        from ragas.metrics import collections  # noqa: F401
    except ImportError as error:
        raise ConfigError([f"ragas: cannot be imported ({error}); it {needs('ragas')}"]) from error
    _silence(_analytics)


def _silence(analytics: Any) -> None:
    """Make ragas keep and write nothing about its use, also if it was imported before."""
    # It holds the setting of the environment from when it was first asked.
    analytics.do_not_track.cache_clear()

    # The thread wakes up every second; without it, the events would pile up.
    analytics._analytics_batcher.shutdown()
    analytics._analytics_batcher.add_evaluation = _ignore

    # Each event, sent or not, asks for the id of the user, which is written to the user's folder
    # when it is first asked for. Without a folder, the id is made up, and kept in memory.
    folder_of_user = analytics.user_data_dir
    analytics.user_data_dir = _refuse_folder
    try:
        analytics.get_userid()
    finally:
        analytics.user_data_dir = folder_of_user


def _ignore(_event: Any) -> None:
    """Do nothing with an event of telemetry."""


def _refuse_folder(**_: Any) -> str:
    raise OSError("no folder for telemetry")


async def ask_ragas(calls: Calls, metric: str, prompt: str, *, repeat: int = 0, **data: Any) -> Any:
    """Fill in a prompt of one of ragas' metrics; return the reply as the prompt's output model.

    Args:
        calls: asks the judge.
        metric: the package of the metric in `ragas.metrics.collections`.
        prompt: the class of the prompt.
        repeat: distinguishes equal calls, of which a result else makes one.
        data: the fields of the prompt's input model.
    """
    template = _load_prompt(metric, prompt)

    def messages() -> list[Message]:
        try:
            model = template.input_model(**data)
            filled_in = model.model_dump_json(indent=4, exclude_none=True)
        except ValueError as error:
            # A lone surrogate, which JSON cannot encode.
            raise JudgeError("invalid_request", f"the prompt cannot be encoded: {error}") from None
        return [{"role": "user", "content": f"{template.head}{filled_in}{template.tail}"}]

    return await calls.ask(messages, template.form, repeat=repeat)


class RagasPrompt(NamedTuple):
    """A prompt of ragas.

    Attributes:
        input_model: what is filled in, as JSON.
        head: the text before it.
        tail: the text after it.
        form: the format of replies.
    """

    input_model: Any
    head: str
    tail: str
    form: ResponseFormat[Any]


@cache
def _load_prompt(metric: str, name: str) -> RagasPrompt:
    """Return a prompt of a metric of ragas."""
    module = import_module(f"ragas.metrics.collections.{metric}.util")
    prompt = getattr(module, name)
    mark = "\0"
    text = prompt().to_string(SimpleNamespace(model_dump_json=lambda **_: mark))
    head, _, tail = text.rpartition(mark)
    return RagasPrompt(
        input_model=prompt.input_model,
        head=head,
        tail=tail,
        form=format_of_model(prompt.output_model),
    )


@cache
def format_of_model(model: Any) -> ResponseFormat[Any]:
    """Return the format of replies that hold one of ragas' output models."""
    from pydantic import ValidationError

    def read(reply: Any) -> Any:
        try:
            output = model.model_validate(reply)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, problem["loc"])) or "the reply"
            raise ValueError(f"{place}: {problem['msg']}") from None
        _check_binary_fields(output)
        return output

    return ResponseFormat(strict(model.model_json_schema()), read)


def _check_binary_fields(output: Any) -> None:
    """Raise a `ValueError` if a verdict of a reply, or of one of its rows, is not 0 or 1."""
    for row in _rows(output):
        for name in BINARY_FIELDS:
            value = getattr(row, name, 0)
            # Some models of ragas have texts there, such as "yes"; these are not numbers.
            if isinstance(value, int | float) and value not in {0, 1}:
                raise ValueError(f"{name}: must be 0 or 1")


def _rows(output: Any) -> Iterator[Any]:
    """Yield the output of a prompt, and the objects in its lists."""
    yield output
    for name in type(output).model_fields:
        value = getattr(output, name)
        if isinstance(value, list):
            yield from value


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """Make all calls concurrently, and return their results.

    An error is raised after all calls have ended, as they are paid for anyway.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two finite, nonzero vectors, from -1 to 1."""
    product = fsum(map(mul, _unit_vector(first), _unit_vector(second)))
    # Rounding may lead a little beyond these ends.
    return max(-1.0, min(1.0, product))


def _unit_vector(vector: Sequence[float]) -> list[float]:
    length = hypot(*vector)
    return [value / length for value in vector]
