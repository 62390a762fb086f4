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
    """Yield the metrics of a result, or of one of its retrieval steps.

    Metrics of judges come first. Keys that belong to no known metric, such as those of other
    programs, come last.

    Args:
        item: the result or the step.
        of_steps: whether it is a step, which only has metrics of judges.
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
    # Most keys with a suffix, such as "_error", are read with the key without it, which so must
    # come first. The sort puts False before True, and keeps the order otherwise.
    other_keys.sort(key=lambda key: key.endswith(SUFFIXES))
    for key in other_keys:
        if key not in reader.read_keys:
            yield reader.read(key, [key], [f"{key}_error"])


def _judged_values(reader: _ValueReader, *, of_steps: bool) -> Iterator[Value]:
    """Yield the metrics of judges that have a value, an error or a reason.

    Args:
        reader: reads the keys of a result or a step.
        of_steps: whether metrics of steps are read, or metrics of results.
    """
    for metric in JUDGED:
        if metric.of_step != of_steps:
            continue
        error_keys = list(metric.missing_by_error)
        if f"{metric.name}_error" not in error_keys:
            error_keys.append(f"{metric.name}_error")
        value = reader.read(metric.name, metric.values, error_keys)
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
        """Return a metric, and add the keys that belong to it to `read_keys`.

        Args:
            name: the name of the metric.
            value_keys: the keys of its values.
            error_keys: the keys that may say why a value is missing.
        """
        item = self._item
        value_keys = list(value_keys)
        # Reasons and costs are named after the metric, or after one of its values.
        prefixes = [name, *(key for key in value_keys if key != name)]
        possible_reason_keys = [f"{prefix}_reason" for prefix in prefixes]
        reason_keys = [key for key in possible_reason_keys if key in item]
        present_error_keys = [key for key in error_keys if item.get(key) is not None]
        cost_keys = [f"{prefix}{COST}" for prefix in prefixes]
        costs = [item[key] for key in cost_keys if isinstance(item.get(key), int | float)]

        # With several judges, a key lists the answer of each, and another one how they disagree.
        judges_key = f"{name}{BY}"
        disagreement_key = f"{name}{DISAGREEMENT}"
        answers_of_judges = item.get(judges_key)
        if not isinstance(answers_of_judges, Mapping):
            answers_of_judges = {}

        self.read_keys.update(value_keys, reason_keys, present_error_keys, cost_keys)
        self.read_keys.update([judges_key, disagreement_key])
        return Value(
            name=name,
            values=[(key, item[key]) for key in value_keys if item.get(key) is not None],
            reason="\n".join(value_text(item[key]) for key in reason_keys),
            error="\n".join(value_text(item[key]) for key in present_error_keys),
            cost=sum(costs) if costs else None,
            judges=[(judge, value_text(answer)) for judge, answer in answers_of_judges.items()],
        )


def value_text(value: Any) -> str:
    """Return a value as a text of at most about `MAX_CHARACTERS` characters.

    A text that is JSON of an object or an array is indented. A value that is no text is written as
    indented JSON.
    """
    if isinstance(value, str):
        may_be_json = value.lstrip().startswith(("{", "["))
        if not may_be_json:
            return cut(value)
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return cut(value)
    try:
        indented_json = orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str)
    except TypeError:
        # JSON cannot have a mapping whose keys are no texts, for example.
        return cut(str(value))
    return cut(indented_json.decode())


def cut(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return a text; if it is longer than `limit`, its beginning and how many characters follow."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"
