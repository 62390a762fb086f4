"""Tags of questions: pairs of a key and a value, by which results are grouped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby, islice
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.errors import describe

if TYPE_CHECKING:
    from collections.abc import Collection

Tag: TypeAlias = tuple[str, str]
"""A key and its value as text."""

Tags: TypeAlias = tuple[Tag, ...]
"""Sorted by key; each key once."""

MOST_KEYS = 20
"""Maximum number of keys by which results are grouped."""

MOST_VALUES = 200
"""Maximum number of values of all keys together by which results are grouped."""

LIMIT_IN_WORDS = f"results are grouped by at most {MOST_KEYS} keys and {MOST_VALUES} values"

TRUE = "true"
"""The value of a tag that is a name alone."""

ALL_TAGS = "tags"
"""Stands for all keys where the key is named by which results are grouped."""


def read_tags(tags: Any, of_template: Tags = ()) -> Tags:
    """Read the tags of a question or a result.

    Values that are not strings become JSON text. Spaces around keys and values do not count.

    Args:
        tags: a dict of keys and values, or a list of names, whose value is true. None: there are no
            other tags than those of the template.
        of_template: the tags of the template, which `tags` replace by key.

    Raises:
        ValueError: `tags` is something else. The message begins with `tags`.
    """
    if tags is None:
        return of_template
    if isinstance(tags, list | tuple) and all(isinstance(name, str) for name in tags):
        tags = dict.fromkeys(tags, TRUE)
    if not isinstance(tags, Mapping):
        raise ValueError(f"tags: expected an object or a list of names, got {describe(tags)}")

    value_by_key: dict[str, str] = {}
    for raw_key, value in tags.items():
        if not _is_valid_key(raw_key):
            raise ValueError(f"tags: expected a key without =, [ and ], got {describe(raw_key)}")
        if not isinstance(value, str | int | float):
            problem = f"expected a string, a number or a boolean, got {describe(value)}"
            raise ValueError(f"tags.{raw_key}: {problem}")
        key = raw_key.strip()
        if key in value_by_key:
            raise ValueError(f"tags.{key}: given twice; spaces around it do not count")
        text = value if isinstance(value, str) else json.dumps(value)
        value_by_key[key] = text.strip()
    return tuple(sorted((dict(of_template) | value_by_key).items()))


def _is_valid_key(key: Any) -> bool:
    """Return whether a key can be written in a gate, such as ``steps_score[hops=2] >= 0.8``."""
    return isinstance(key, str) and bool(key.strip()) and {*"=[]"}.isdisjoint(key)


def tag_name(tag: Tag) -> str:
    """Return a tag as it is shown: ``hops=2``, or its key alone if its value is true."""
    key, value = tag
    return key if value == TRUE else f"{key}={value}"


def parse_tag(text: str) -> Tag:
    """Return the tag that `tag_name` shows as `text`."""
    key, equals_sign, value = text.partition("=")
    return key.strip(), value.strip() if equals_sign else TRUE


def tag_position(tag: Tag) -> tuple[str, float, str]:
    """Return a sort key of tags: by key, then numbers by size, then other values by name."""
    key, value = tag
    try:
        number = float(value)
    except ValueError:
        number = inf
    # `min` returns infinity for NaN, which cannot be compared.
    return key, min(inf, number), value


def counted_tags(tags: Collection[Tag], *, is_cut: bool = False) -> list[Tag]:
    """Return the tags by which results are grouped, in order: all of these within the limits.

    Beyond the limits, or if `is_cut`, the first keys count, and the same number of first values of
    each. A dropped tag never counts again, so the order of arrival does not matter.
    """
    ordered = sorted(tags, key=tag_position)
    keys = {key for key, _ in tags}
    if not is_cut and len(tags) <= MOST_VALUES and len(keys) <= MOST_KEYS:
        return ordered

    kept_keys = min(MOST_KEYS, len(keys) or 1)
    values_per_key = MOST_VALUES // kept_keys
    kept: list[Tag] = []
    for _, tags_of_key in islice(groupby(ordered, itemgetter(0)), kept_keys):
        kept += islice(tags_of_key, values_per_key)
    return kept


def uncounted_tags(tags: set[Tag]) -> list[str]:
    """Return a warning about the tags that exceed the limits; none if none do."""
    uncounted = sorted(tags.difference(counted_tags(tags)), key=tag_position)
    if not uncounted:
        return []
    first = tag_name(uncounted[0])
    return [f"tags: {LIMIT_IN_WORDS}; {len(uncounted)} are left out, the first is {first!r}"]
