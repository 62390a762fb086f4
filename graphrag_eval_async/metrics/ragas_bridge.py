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
    """Return the `prompts` of a metric that uses prompts of ragas.

    These are the version of ragas and the names of the prompts, which stand for their texts. Ragas
    is not imported for it, which would take seconds.

    Args:
        metric: the name of the metric, for the error.
        names: the names of the prompts' classes.

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
    """Make ragas collect and write nothing about its use, even if it was imported before.

    Args:
        analytics: the module of ragas that collects and writes data about its use.
    """
    # The module keeps the value of `RAGAS_DO_NOT_TRACK` from when it first read the variable. Make
    # it read the variable again.
    analytics.do_not_track.cache_clear()

    # A thread of the module wakes up every second to send events. Stop the thread, and ignore
    # events, which would pile up.
    analytics._analytics_batcher.shutdown()
    analytics._analytics_batcher.add_evaluation = _ignore_event

    # The module gives each user an id, and writes the id to the user's folder when the id is first
    # needed. Ask for the id while there seems to be no folder: then it stays in memory.
    original_folder = analytics.user_data_dir
    analytics.user_data_dir = _refuse_folder
    try:
        analytics.get_userid()
    finally:
        analytics.user_data_dir = original_folder


def _ignore_event(_event: Any) -> None:
    """Do nothing with an event of telemetry."""


def _refuse_folder(**_: Any) -> str:
    """Raise an error in place of naming the user's folder."""
    raise OSError("no folder for telemetry")


async def ask_ragas(calls: Calls, metric: str, prompt: str, *, repeat: int = 0, **data: Any) -> Any:
    """Ask the judge with a prompt of one of ragas' metrics, and return the reply.

    Args:
        calls: asks the judge.
        metric: the package of the metric in `ragas.metrics.collections`.
        prompt: the class of the prompt.
        repeat: 0; a higher number asks for another reply to the same prompt. Equal calls with the
            same number are made once for a result.
        data: the data to fill in, by the fields of the prompt's input model.

    Returns:
        the reply, an object of the prompt's output model.

    Raises:
        JudgeError: there is no usable reply, or the prompt cannot be encoded.
    """
    template = _load_prompt(metric, prompt)

    def make_messages() -> list[Message]:
        """Return the prompt with its data filled in."""
        try:
            model = template.input_model(**data)
            filled_in = model.model_dump_json(indent=4, exclude_none=True)
        except ValueError as error:
            # A text contains a lone surrogate, which JSON cannot encode.
            raise JudgeError("invalid_request", f"the prompt cannot be encoded: {error}") from None
        prompt_text = f"{template.head}{filled_in}{template.tail}"
        return [{"role": "user", "content": prompt_text}]

    return await calls.ask(make_messages, template.reply_format, repeat=repeat)


class RagasPrompt(NamedTuple):
    """A prompt of ragas.

    Attributes:
        input_model: the class of the data that are filled in, as JSON.
        head: the text before the data.
        tail: the text after the data.
        reply_format: the format of replies.
    """

    input_model: Any
    head: str
    tail: str
    reply_format: ResponseFormat[Any]


@cache
def _load_prompt(metric: str, name: str) -> RagasPrompt:
    """Return a prompt of ragas, split into the text before the data and the text after the data.

    Args:
        metric: the package of the metric in `ragas.metrics.collections`.
        name: the class of the prompt.
    """
    module = import_module(f"ragas.metrics.collections.{metric}.util")
    prompt = getattr(module, name)
    # A prompt calls `model_dump_json` of its data, and writes the result where the data belong. To
    # find this place, give it data whose "JSON" is a character that occurs in no prompt.
    mark = "\0"

    def return_mark(**_: Any) -> str:
        """Return `mark` instead of JSON."""
        return mark

    data = SimpleNamespace(model_dump_json=return_mark)
    head, _, tail = prompt().to_string(data).rpartition(mark)
    return RagasPrompt(
        input_model=prompt.input_model,
        head=head,
        tail=tail,
        reply_format=format_of_model(prompt.output_model),
    )


@cache
def format_of_model(model: Any) -> ResponseFormat[Any]:
    """Return the format of replies that fit an output model of ragas, which is a pydantic class."""
    from pydantic import ValidationError

    def read_reply(reply: Any) -> Any:
        """Return a reply as an object of `model`; raise a `ValueError` if it does not fit."""
        try:
            output = model.model_validate(reply)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            first_problem = problems[0]
            place = ".".join(map(str, first_problem["loc"]))
            if not place:
                # The problem is not about a field.
                place = "the reply"
            raise ValueError(f"{place}: {first_problem['msg']}") from None
        _check_binary_fields(output)
        return output

    return ResponseFormat(strict(model.model_json_schema()), read_reply)


def _check_binary_fields(output: Any) -> None:
    """Check that the `BINARY_FIELDS` of a reply, and of the objects in its lists, are 0 or 1.

    The types that ragas declares for these fields allow any integer.

    Args:
        output: the reply, an object of pydantic.

    Raises:
        ValueError: a field is another number.
    """
    for part in _output_and_list_items(output):
        for field in BINARY_FIELDS:
            value = getattr(part, field, 0)
            # In some models of ragas, these fields are texts such as "yes", which are allowed.
            is_number = isinstance(value, int | float)
            if is_number and value not in {0, 1}:
                raise ValueError(f"{field}: must be 0 or 1")


def _output_and_list_items(output: Any) -> Iterator[Any]:
    """Yield a reply, which is an object of pydantic, and then the items of its lists."""
    yield output
    for field in type(output).model_fields:
        value = getattr(output, field)
        if isinstance(value, list):
            yield from value


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """Make all calls at the same time, and return their results in the order of the calls.

    If calls fail, the first error in this order is raised, but only after all calls have ended,
    since they are paid for anyway.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two finite, nonzero vectors, from -1 to 1."""
    product = fsum(map(mul, _unit_vector(first), _unit_vector(second)))
    # Because of rounding errors, the product may lie slightly outside this range.
    return max(-1.0, min(1.0, product))


def _unit_vector(vector: Sequence[float]) -> list[float]:
    """Return a vector in the same direction with the length 1; `vector` may not be zero."""
    length = hypot(*vector)
    return [value / length for value in vector]
