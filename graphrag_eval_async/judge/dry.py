"""A judge that asks nobody, to find out how many calls a run would take, and about how many tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.protocol import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.judge.protocol import Message

ASSUMED_OUTPUT_TOKENS = 250
"""Of each reply: some sentences as JSON. A model that reasons before it replies may use far more."""

MESSAGE_TOKENS = 4
"""What marks the beginning and the end of each message."""

TEXT = "text"
ASCII = bytes(range(128))

T = TypeVar("T")
R = TypeVar("R")
Schema: TypeAlias = Mapping[str, Any]
Fill: TypeAlias = Callable[[Schema | bool], Any]


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: one for 4 ASCII characters, and one for 3 bytes of others in UTF-8.

    So an accented or a Cyrillic letter counts 2/3, a Chinese character 1, an emoji 4/3. Rounded up.
    """
    data = text.encode("utf-8", "surrogatepass")
    other = len(data.translate(None, ASCII))
    return -(-(3 * (len(data) - other) + 4 * other) // 12)


class DryJudge:
    """A `Judge` that replies at once: something small that fits the schema, and an estimate of the tokens."""

    async def complete(self, messages: Sequence[Message], schema: Schema) -> tuple[Any, TokenUsage]:
        """A reply; its input is the messages and the schema, its output `ASSUMED_OUTPUT_TOKENS`.

        Raises:
            JudgeError: nothing fits the schema.
        """
        texts = [json.dumps(schema), *(message["content"] for message in messages)]
        tokens = sum(map(estimate_tokens, texts)) + MESSAGE_TOKENS * len(messages)
        return fitting(schema, schema), TokenUsage(tokens, ASSUMED_OUTPUT_TOKENS)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage]:
        """One and the same unit vector for each text."""
        return [[1.0] for _ in texts], TokenUsage(sum(map(estimate_tokens, texts)))


def fitting(schema: Schema | bool, root: Schema, within: frozenset[str] = frozenset()) -> Any:
    """A small value that fits a JSON Schema.

    Of several possibilities it is the first that comes to an end, and of a list one item, if it may have one.
    Patterns and formats of texts are not looked at, nor is what nobody sends to a judge, such as `not`.

    Args:
        schema: a part of `root`.
        root: the whole, within which references point.
        within: the references that led to this part; a small value has no use for one of them again.

    Raises:
        JudgeError: nothing fits.
    """
    fill = partial(fitting, root=root, within=within)
    if isinstance(schema, bool):
        return _first([{}] if schema else [], fill)
    if (reference := schema.get("$ref")) is not None:
        target = reduce(getitem, reference.split("/")[1:], root)
        following = partial(fitting, root=root, within=within | {reference})
        return _first([] if reference in within else [_merged(schema, "$ref", target)], following)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return _first(schema["enum"], lambda value: value)
    for key in ("anyOf", "oneOf", "allOf"):  # where there is an allOf, it has one part
        if key in schema:
            return _first((_merged(schema, key, part) for part in schema[key]), fill)
    kind = schema.get("type") or _implied(schema)
    if isinstance(kind, list):
        return _first(({**schema, "type": name} for name in kind), fill)
    return VALUES[kind](schema, fill)


def _merged(schema: Schema, key: str, part: Schema | bool) -> Schema | bool:
    """A schema with `part` in the place of what is under `key`."""
    if isinstance(part, bool):
        return part
    return {name: value for name, value in schema.items() if name != key} | {**part}


def _first(options: Iterable[T], fill: Callable[[T], R]) -> R:
    for option in options:
        with suppress(JudgeError):
            return fill(option)
    raise JudgeError("invalid_request", "nothing fits the schema of the reply")


def _implied(schema: Schema) -> str:
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _object(schema: Schema, fill: Fill) -> dict[str, Any]:
    required = schema.get("required", ())
    value = {}
    for name, part in schema.get("properties", {}).items():
        with nullcontext() if name in required else suppress(JudgeError):
            value[name] = fill(part)
    return value


def _array(schema: Schema, fill: Fill) -> list[Any]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
    parts = schema.get("prefixItems", [])
    more = max(least - len(parts), 0 if parts else 1)
    value = []
    for position, part in enumerate([*parts, *[schema.get("items", True)] * more]):
        try:
            value.append(fill(part if position < most else False))
        except JudgeError:
            if position < least:
                raise
            break
    return value


def _string(schema: Schema, _: Fill) -> str:
    return TEXT.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _number(schema: Schema, _: Fill) -> float:
    return _first(_numbers(schema, float), float)


def _integer(schema: Schema, _: Fill) -> int:
    return _first(_numbers(schema, int), int)


def _numbers(schema: Schema, kind: type[float]) -> Iterator[float]:
    """Candidates within the bounds, simple ones first: 0, the multiples next to a bound, and in between."""
    lowest, above = schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf)
    highest, below = schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf)
    bounds = [bound for bound in (lowest, above, highest, below) if math.isfinite(bound)]
    step = schema.get("multipleOf", 1)
    candidates = [(bound // step + more) * step for bound in [0, *bounds] for more in (0, 1, -1)]
    if kind is float and "multipleOf" not in schema:
        candidates += [*bounds, (max(lowest, above) + min(highest, below)) / 2]
    for candidate in map(kind, candidates):
        if lowest <= candidate <= highest and above < candidate < below:
            yield candidate


VALUES: dict[str, Callable[[Schema, Fill], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": lambda *_: False,
    "null": lambda *_: None,
}
