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

MOST_KEYS, MOST_VALUES = 20, 200
"""Maximum number of keys, and of values of all keys together, by which results are grouped."""

LIMIT_IN_WORDS = f"results are grouped by at most {MOST_KEYS} keys and {MOST_VALUES} values"

BARE = "true"
"""The value of a tag that is a name alone."""

ALL_TAGS = "tags"
"""Stands for all keys where results are grouped by one."""


def read_tags(given: Any, of_template: Tags = ()) -> Tags:
    """The tags of a question or a result: a dict of keys and values, or a list of names, whose
    value is true.

    Values that are not strings become JSON text. Spaces around keys and values do not count.

    Raises:
        ValueError: `given` is something else. The message begins with `tags`.
    """
    if given is None:
        return of_template
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        given = dict.fromkeys(given, BARE)
    if not isinstance(given, Mapping):
        raise ValueError(f"tags: expected an object or a list of names, got {describe(given)}")
    tags: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(key, str) or not key.strip() or not {*"=[]"}.isdisjoint(key):
            raise ValueError(f"tags: expected a key without =, [ and ], got {describe(key)}")
        if not isinstance(value, str | int | float):
            raise ValueError(
                f"tags.{key}: expected a string, a number or a boolean, got {describe(value)}"
            )
        if key.strip() in tags:
            raise ValueError(f"tags.{key.strip()}: given twice; spaces around it do not count")
        tags[key.strip()] = (value if isinstance(value, str) else json.dumps(value)).strip()
    return tuple(sorted((dict(of_template) | tags).items()))


def tag_name(tag: Tag) -> str:
    """A tag as it is shown: ``hops=2``, or its key alone if its value is true."""
    key, value = tag
    return key if value == BARE else f"{key}={value}"


def parse_tag(text: str) -> Tag:
    """The tag that `tag_name` shows as `text`."""
    key, sign, value = text.partition("=")
    return key.strip(), value.strip() if sign else BARE


def tag_position(tag: Tag) -> tuple[str, float, str]:
    """Sort key of tags: by key, then numbers by size, then other values by name."""
    key, value = tag
    try:
        number = float(value)
    except ValueError:
        number = inf
    return key, min(inf, number), value  # NaN is no number here.


def counted_tags(tags: Collection[Tag], *, is_cut: bool = False) -> list[Tag]:
    """The tags by which results are grouped, in order: all of these, unless they exceed the limits.

    Beyond the limits, or if `is_cut`, the first keys count, and the same number of first values of
    each. A dropped tag never counts again, so the order of arrival does not matter.
    """
    ordered, keys = sorted(tags, key=tag_position), {key for key, _ in tags}
    if is_cut or len(tags) > MOST_VALUES or len(keys) > MOST_KEYS:
        most = MOST_VALUES // min(MOST_KEYS, len(keys) or 1)
        first = islice(groupby(ordered, itemgetter(0)), MOST_KEYS)
        return [tag for _, same in first for tag in islice(same, most)]
    return ordered


def uncounted_tags(tags: set[Tag]) -> list[str]:
    """Say which of these tags exceed the limits, if any do."""
    if not (rest := sorted(tags.difference(counted_tags(tags)), key=tag_position)):
        return []
    return [f"tags: {LIMIT_IN_WORDS}; {len(rest)} are left out, the first is {tag_name(rest[0])!r}"]
