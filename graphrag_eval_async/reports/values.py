"""The metrics of one result as a page shows them, each with its reason, error, cost and judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.catalogue.metrics import (
    ANSWER_MATCH,
    BY,
    COST,
    DISAGREEMENT,
    RESOURCES,
    RESULT_KEYS,
    STEP_METRICS,
)
from graphrag_eval_async.catalogue.outcomes import EXECUTION_ERROR

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

MAX_CHARACTERS = 4000
"""Maximum number of characters of a text that are shown."""

SUFFIXES = ("_reason", "_error", COST, BY, DISAGREEMENT)
"""Suffixes of keys that belong to the key without them."""


class Value(NamedTuple):
    """A metric of a result or a step.

    Attributes:
        name: its name.
        values: its values by their keys.
        reason: why it has these values; empty if nothing says so.
        error: why it has no value; empty if nothing says so.
        cost: what it cost in US dollars; None if nobody knows.
        judges: what each of several judges said.
    """

    name: str
    values: list[tuple[str, Any]]
    reason: str
    error: str
    cost: float | None
    judges: list[tuple[str, str]]


def values_of(item: Mapping[str, Any], *, of_steps: bool = False) -> Iterator[Value]:
    """Yield the metrics of a result or, with `of_steps`, those of one of its retrieval steps.

    Keys that belong to no metric known here, such as those of other programs, come last.
    """
    reader = _ValueReader(item)
    yield from _judged_values(reader, of_steps=of_steps)
    if of_steps:
        return

    for name in (*STEP_METRICS, ANSWER_MATCH):
        error_keys = [f"{name}_error"]
        if name == "steps_score":
            error_keys.append(EXECUTION_ERROR)
        value = reader.read(name, [name], error_keys)
        if value.values or value.error:
            yield value
    resources = [key for key in RESOURCES if key in item]
    if resources:
        yield reader.read("used", resources, ())

    # A journal adds a checksum.
    other_keys = [key for key in item if key not in {*RESULT_KEYS, "crc32"}]
    # Keys with a suffix come last, since most belong to a key without one.
    for key in sorted(other_keys, key=lambda key: key.endswith(SUFFIXES)):
        if key not in reader.read_keys:
            yield reader.read(key, [key], [f"{key}_error"])


def _judged_values(reader: _ValueReader, *, of_steps: bool) -> Iterator[Value]:
    """Yield the metrics that a judge computes: those of steps, or those of results."""
    for metric in JUDGED:
        if metric.of_step != of_steps:
            continue
        error_keys = dict.fromkeys([*metric.missing_by_error, f"{metric.name}_error"])
        value = reader.read(metric.name, metric.values, [*error_keys])
        if value.values or value.error or value.reason:
            yield value


class _ValueReader:
    """Reads the metrics of a result, or of a step.

    Attributes:
        read_keys: the keys that belong to the metrics that were read.
    """

    def __init__(self, item: Mapping[str, Any]) -> None:
        self._item = item
        self.read_keys: set[str] = set()

    def read(self, name: str, value_keys: Iterable[str], error_keys: Collection[str]) -> Value:
        """Return a metric, and note which keys belong to it.

        Args:
            name: the name of the metric.
            value_keys: the keys of its values.
            error_keys: the keys that may say why a value is missing.
        """
        item = self._item
        value_keys = [*value_keys]
        prefixes = [*dict.fromkeys((name, *value_keys))]
        reason_keys = [f"{prefix}_reason" for prefix in prefixes if f"{prefix}_reason" in item]
        present_error_keys = [key for key in error_keys if item.get(key) is not None]
        cost_keys = [f"{prefix}{COST}" for prefix in prefixes]
        costs = [item[key] for key in cost_keys if isinstance(item.get(key), int | float)]
        answers_of_judges = item.get(f"{name}{BY}")
        if not isinstance(answers_of_judges, Mapping):
            answers_of_judges = {}

        self.read_keys.update(value_keys, reason_keys, present_error_keys, cost_keys)
        self.read_keys.update((f"{name}{BY}", f"{name}{DISAGREEMENT}"))
        return Value(
            name=name,
            values=[(key, item[key]) for key in value_keys if item.get(key) is not None],
            reason="\n".join(value_text(item[key]) for key in reason_keys),
            error="\n".join(value_text(item[key]) for key in present_error_keys),
            cost=sum(costs) if costs else None,
            judges=[(judge, value_text(answer)) for judge, answer in answers_of_judges.items()],
        )


def value_text(value: Any) -> str:
    """Return a value as a text of limited length; JSON is indented."""
    if isinstance(value, str):
        if not value.lstrip().startswith(("{", "[")):
            return cut(value)
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return cut(value)
    try:
        return cut(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())
    except TypeError:
        # Such as a mapping whose keys are no texts.
        return cut(str(value))


def cut(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return the beginning of a text, and how many more characters it has if it is too long."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"
